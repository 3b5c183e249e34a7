package codec

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// codecs holds the codecs that For has built: by reflect.Type, a Codec of it.
var codecs sync.Map

// For builds the codec of T: for records, state and splits. It refuses a type
// whose values would not come back as they were, and says which part of it is
// to blame: unexported fields, interfaces, functions, channels, types that hold
// themselves. Pointers are fine inside of T, where they are taken for trees:
// what two of them share is doubled.
//
// A type that implements [encoding.BinaryUnmarshaler] and one of
// [encoding.BinaryMarshaler] and [encoding.BinaryAppender] is encoded by these.
func For[T any]() (Codec[T], error) {
	t := reflect.TypeFor[T]()
	if known, ok := codecs.Load(t); ok {
		return known.(Codec[T]), nil
	}
	built, err := build[T](t)
	if err != nil {
		return nil, err
	}
	known, _ := codecs.LoadOrStore(t, built)
	return known.(Codec[T]), nil
}

func build[T any](t reflect.Type) (Codec[T], error) {
	if t.Kind() == reflect.Pointer {
		return nil, refuse(rootOf(t), "a pointer: whoever gets the value would share what it points to; use %s itself", t.Elem())
	}
	var c compiler
	p, err := c.compile(t, rootOf(t))
	if err != nil {
		return nil, err
	}
	switch {
	case p.is(raw):
		return &flat[T]{p}, nil
	case p.is(text):
		return &plainText[T]{p}, nil
	}
	return &composite[T]{p}, nil
}

// rootOf is how paths to the parts of a type begin.
func rootOf(t reflect.Type) string {
	if name := t.Name(); name != "" {
		return name
	}
	return t.String()
}

// refuse says why the part at path rules out a codec.
func refuse(path, reason string, args ...any) error {
	return fmt.Errorf("%s: "+reason, append([]any{path}, args...)...)
}

// refuseType says why the type at path rules out a codec.
func refuseType(path string, t reflect.Type, reason string) error {
	if path == rootOf(t) {
		return fmt.Errorf("%v %s", t, reason)
	}
	return refuse(path, "%v %s", t, reason)
}

// flat is the codec of values whose encoding is how they lie in memory.
type flat[T any] struct{ *program }

func (c *flat[T]) Append(dst []byte, v *T) []byte {
	return append(dst, memory(unsafe.Pointer(v), c.least)...)
}

func (c *flat[T]) Decode(src []byte, v *T) (int, error) {
	if len(src) < c.least {
		return 0, c.failed(errShort)
	}
	return copy(memory(unsafe.Pointer(v), c.least), src), nil
}

// plainText is the codec of strings.
type plainText[T any] struct{ *program }

func (c *plainText[T]) Append(dst []byte, v *T) []byte {
	return appendString(dst, *(*string)(unsafe.Pointer(v)))
}

func (c *plainText[T]) Decode(src []byte, v *T) (int, error) {
	rest, err := cutString(src, (*string)(unsafe.Pointer(v)))
	if err != nil {
		return 0, c.failed(err)
	}
	return len(src) - len(rest), nil
}

// composite is the codec of everything else.
type composite[T any] struct{ *program }

func (c *composite[T]) Append(dst []byte, v *T) []byte {
	return c.append(dst, unsafe.Pointer(v))
}

func (c *composite[T]) Decode(src []byte, v *T) (int, error) {
	rest, err := c.decode(src, unsafe.Pointer(v))
	if err != nil {
		return 0, c.failed(err)
	}
	return len(src) - len(rest), nil
}
