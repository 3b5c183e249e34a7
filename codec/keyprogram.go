package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// A keyProgram encodes keys of one type: a list of the integers and strings that
// a key consists of.
type keyProgram struct {
	steps []keyStep
	least int    // the fewest bytes that an encoding has, never 0
	text  string // the type, for Schema
}

type keyStep struct {
	code keyCode
	at   uintptr // where the part lies in the key
	n    int     // of keyRaw: its length
	flip uint64  // the sign bit of a signed integer
}

type keyCode uint8

const (
	key8      keyCode = iota // one byte
	key16                    // integers of 2, 4 and 8 bytes
	key32                    //
	key64                    //
	keyRaw                   // n unsigned bytes
	keyFlag                  // a bool
	keyText                  // a string
	keyFiller                // a zero byte, for a key that has nothing to say
)

// compileKey makes the program of the type of keys that is found at path.
func compileKey(t reflect.Type, path string) (*keyProgram, error) {
	p, err := compileKeyKind(t, path)
	if err == nil && p.least == 0 {
		p.steps, p.least = append(p.steps, keyStep{code: keyFiller}), 1
	}
	return p, err
}

func compileKeyKind(t reflect.Type, path string) (*keyProgram, error) {
	if t == timeType {
		return nil, refuseType(path, t, "is no key: equal times differ by zone and clock; use UnixNano of it")
	}
	switch k := t.Kind(); k {
	case reflect.Bool:
		return singleKey(t, keyStep{code: keyFlag}), nil
	case reflect.Uint8:
		return singleKey(t, keyStep{code: keyRaw, n: 1}), nil
	case reflect.Int8:
		return singleKey(t, keyStep{code: key8, flip: 1 << 7}), nil
	case reflect.Int16:
		return singleKey(t, keyStep{code: key16, flip: 1 << 15}), nil
	case reflect.Int32:
		return singleKey(t, keyStep{code: key32, flip: 1 << 31}), nil
	case reflect.Int, reflect.Int64:
		return singleKey(t, keyStep{code: key64, flip: 1 << 63}), nil
	case reflect.Uint16:
		return singleKey(t, keyStep{code: key16}), nil
	case reflect.Uint32:
		return singleKey(t, keyStep{code: key32}), nil
	case reflect.Uint, reflect.Uint64:
		return singleKey(t, keyStep{code: key64}), nil
	case reflect.String:
		return &keyProgram{steps: []keyStep{{code: keyText}}, least: 2, text: "string"}, nil
	case reflect.Array:
		return compileKeyArray(t, path)
	case reflect.Struct:
		return compileKeyStruct(t, path)
	}
	return nil, refuseType(path, t, "is no key: "+noKey(t.Kind()))
}

// singleKey is the program of a kind of fixed size.
func singleKey(t reflect.Type, s keyStep) *keyProgram {
	return &keyProgram{steps: []keyStep{s}, least: int(t.Size()), text: basicText(t.Kind())}
}

// noKey is why a kind can't be a key.
func noKey(k reflect.Kind) string {
	switch k {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return "NaN doesn't equal itself, and -0 equals 0; use an integer, or its bits"
	case reflect.Pointer, reflect.Chan, reflect.UnsafePointer, reflect.Uintptr:
		return "it means something in this process only; use what it stands for"
	case reflect.Interface:
		return "its values could be of any type; use a concrete one"
	}
	return "its values can't be compared; use a string or an array"
}

func compileKeyArray(t reflect.Type, path string) (*keyProgram, error) {
	elem, err := compileKey(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	p := &keyProgram{text: fmt.Sprintf("[%d]%s", t.Len(), elem.text)}
	for i := range t.Len() {
		p.add(elem, uintptr(i)*t.Elem().Size())
	}
	return p, nil
}

func compileKeyStruct(t reflect.Type, path string) (*keyProgram, error) {
	var p keyProgram
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" {
			continue
		}
		path := path + "." + f.Name
		if !f.IsExported() {
			return nil, refuse(path, "unexported field: it would be lost when keys travel; export it")
		}
		field, err := compileKey(f.Type, path)
		if err != nil {
			return nil, err
		}
		p.add(field, f.Offset)
		fields = append(fields, f.Name+" "+field.text)
	}
	p.text = "{" + strings.Join(fields, "; ") + "}"
	return &p, nil
}

// add appends the steps of a part that lies at an offset. Bytes that are
// neighbours become one step.
func (p *keyProgram) add(part *keyProgram, offset uintptr) {
	p.least += part.least
	for _, s := range part.steps {
		s.at += offset
		if last := len(p.steps) - 1; last >= 0 && p.steps[last].code == keyRaw && s.code == keyRaw &&
			p.steps[last].at+uintptr(p.steps[last].n) == s.at {
			p.steps[last].n += s.n
			continue
		}
		p.steps = append(p.steps, s)
	}
}

func (p *keyProgram) append(dst []byte, key unsafe.Pointer) []byte {
	for i := range p.steps {
		s := &p.steps[i]
		at := unsafe.Add(key, s.at)
		switch s.code {
		case key64:
			dst = binary.BigEndian.AppendUint64(dst, *(*uint64)(at)^s.flip)
		case key32:
			dst = binary.BigEndian.AppendUint32(dst, *(*uint32)(at)^uint32(s.flip))
		case key16:
			dst = binary.BigEndian.AppendUint16(dst, *(*uint16)(at)^uint16(s.flip))
		case key8:
			dst = append(dst, *(*uint8)(at)^uint8(s.flip))
		case keyRaw:
			dst = append(dst, memory(at, s.n)...)
		case keyFlag:
			dst = append(dst, *(*byte)(at))
		case keyText:
			dst = appendTextKey(dst, *(*string)(at))
		case keyFiller:
			dst = append(dst, 0)
		}
	}
	return dst
}

func (p *keyProgram) decode(src []byte, key unsafe.Pointer) (rest []byte, err error) {
	for i := range p.steps {
		s := &p.steps[i]
		at := unsafe.Add(key, s.at)
		switch s.code {
		case keyFlag:
			src, err = cutFlag(src, (*bool)(at))
		case keyFiller:
			src, err = cutFiller(src)
		case keyText:
			src, err = cutTextKey(src, (*string)(at))
		default:
			src, err = s.cut(src, at)
		}
		if err != nil {
			return nil, err
		}
	}
	return src, nil
}

// cut decodes a part of fixed size.
func (s *keyStep) cut(src []byte, at unsafe.Pointer) (rest []byte, err error) {
	if len(src) < s.width() {
		return nil, errShort
	}
	switch s.code {
	case key64:
		*(*uint64)(at) = binary.BigEndian.Uint64(src) ^ s.flip
	case key32:
		*(*uint32)(at) = binary.BigEndian.Uint32(src) ^ uint32(s.flip)
	case key16:
		*(*uint16)(at) = binary.BigEndian.Uint16(src) ^ uint16(s.flip)
	case key8:
		*(*uint8)(at) = src[0] ^ uint8(s.flip)
	case keyRaw:
		copy(memory(at, s.n), src)
	}
	return src[s.width():], nil
}

func (s *keyStep) width() int {
	switch s.code {
	case key64:
		return 8
	case key32:
		return 4
	case key16:
		return 2
	case key8:
		return 1
	}
	return s.n
}

func appendTextKey(dst []byte, s string) []byte {
	for {
		zero := strings.IndexByte(s, 0)
		if zero < 0 {
			return append(append(dst, s...), 0, 1)
		}
		dst = append(append(dst, s[:zero+1]...), 0xFF)
		s = s[zero+1:]
	}
}

func cutTextKey(src []byte, s *string) (rest []byte, err error) {
	var unescaped []byte // what came before src, if there was a zero byte in it
	for {
		zero := bytes.IndexByte(src, 0)
		if zero < 0 || zero+1 == len(src) {
			return nil, errShort
		}
		text, mark := src[:zero], src[zero+1]
		src = src[zero+2:]
		switch {
		case mark == 1 && unescaped == nil:
			*s = string(text)
			return src, nil
		case mark == 1:
			*s = string(append(unescaped, text...))
			return src, nil
		case mark != 0xFF:
			return nil, errWrong
		}
		unescaped = append(append(unescaped, text...), 0)
	}
}
