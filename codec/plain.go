package codec

import "reflect"

// Plain reports whether a copy of a T is independent of the original: no part of
// it is a reference through which the original could be changed. Strings and
// times can't be changed, so they are plain.
func Plain[T any]() bool { return plain(reflect.TypeFor[T]()) }

func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() == 0 || plain(t.Elem())
	case reflect.Struct:
		return t == timeType || plainFields(t)
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	}
	return true
}

func plainFields(t reflect.Type) bool {
	for i := range t.NumField() {
		if !plain(t.Field(i).Type) {
			return false
		}
	}
	return true
}
