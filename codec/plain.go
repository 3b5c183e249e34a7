package codec

import (
	"fmt"
	"reflect"
)

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

// Detach returns a function that copies a key so that it shares no memory with
// anything else, for who keeps keys: a text may be a small part of a large one.
// It is nil if keys of that type hold no text.
func Detach[K any](c Key[K]) func(K) K {
	if !holdsText(reflect.TypeFor[K]()) {
		return nil
	}
	return func(k K) (own K) {
		if _, err := c.Decode(c.Append(nil, &k), &own); err != nil {
			panic(fmt.Sprintf("codec: a key doesn't decode: %v", err))
		}
		return own
	}
}

func holdsText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Array:
		return holdsText(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsText(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}
