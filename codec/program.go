package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// A program encodes the values of one type. It is a list of steps over the
// memory of a value: nested structs are laid flat, and neighbours that are
// encoded as they lie in memory become one step, so that most structs are few
// copies.
type program struct {
	steps []step
	size  uintptr // of a value in memory
	least int     // the fewest bytes that an encoding has, never 0: what is left of the input bounds every length by it
	text  string  // the type, for Schema
}

// A step encodes a part of a value.
type step struct {
	code code
	at   uintptr // where the part lies in the value
	n    int     // of raw: its length
	part part    // of other
}

type code uint8

const (
	raw    code = iota // n bytes as they lie in memory
	flag               // a bool
	text               // a string
	blob               // a slice of bytes
	filler             // a zero byte, for a value that has nothing to say
	other              // ask the part
)

// A part is a step that needs more than a few instructions.
type part interface {
	append(dst []byte, at unsafe.Pointer) []byte
	// decode returns what follows in src.
	decode(src []byte, at unsafe.Pointer) (rest []byte, err error)
}

var (
	errShort = errors.New("the bytes end too early")
	errWrong = errors.New("the bytes are no encoding of the type")
)

// Schema describes the program's bytes.
func (p *program) Schema() Schema { return Schema{Codec: "weir/1", Type: p.text} }

func (p *program) failed(err error) error { return fmt.Errorf("decode %s: %w", p.text, err) }

// is reports whether the program is one step of the given code, at the start of
// the value.
func (p *program) is(c code) bool {
	return len(p.steps) == 1 && p.steps[0].code == c && p.steps[0].at == 0
}

// solid reports whether values lie in memory as they are encoded, without gaps.
func (p *program) solid() bool { return p.is(raw) && p.least == int(p.size) }

func (p *program) append(dst []byte, value unsafe.Pointer) []byte {
	for i := range p.steps {
		s := &p.steps[i]
		at := unsafe.Add(value, s.at)
		switch s.code {
		case raw:
			dst = append(dst, memory(at, s.n)...)
		case flag:
			dst = append(dst, *(*byte)(at))
		case text:
			dst = appendString(dst, *(*string)(at))
		case blob:
			dst = appendBlob(dst, *(*[]byte)(at))
		case filler:
			dst = append(dst, 0)
		default:
			dst = s.part.append(dst, at)
		}
	}
	return dst
}

func (p *program) decode(src []byte, value unsafe.Pointer) (rest []byte, err error) {
	for i := range p.steps {
		s := &p.steps[i]
		at := unsafe.Add(value, s.at)
		switch s.code {
		case raw:
			if len(src) < s.n {
				return nil, errShort
			}
			copy(memory(at, s.n), src)
			src = src[s.n:]
		case flag:
			if src, err = cutFlag(src, (*bool)(at)); err != nil {
				return nil, err
			}
		case text:
			if src, err = cutString(src, (*string)(at)); err != nil {
				return nil, err
			}
		case blob:
			if src, err = cutBlob(src, (*[]byte)(at)); err != nil {
				return nil, err
			}
		case filler:
			if src, err = cutFiller(src); err != nil {
				return nil, err
			}
		default:
			if src, err = s.part.decode(src, at); err != nil {
				return nil, err
			}
		}
	}
	return src, nil
}

// memory is the n bytes that lie at a place.
func memory(at unsafe.Pointer, n int) []byte { return unsafe.Slice((*byte)(at), n) }

// Lengths of slices and maps are written plus one, with 0 for nil.

func appendLength(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)+1) }

// cutLength takes the length of a slice or a map off src: -1 for nil. There can't
// be more elements than what is left of src has room for, each of at least the
// given number of bytes.
func cutLength(src []byte, least int) (n int, rest []byte, err error) {
	u, k := binary.Uvarint(src)
	if k <= 0 {
		return 0, nil, errShort
	}
	rest = src[k:]
	if u > uint64(len(rest)/least)+1 {
		return 0, nil, errShort
	}
	return int(u) - 1, rest, nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBlob(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(appendLength(dst, len(b)), b...)
}

// cutBytes takes bytes with their length before them off src, without a copy.
func cutBytes(src []byte) (b, rest []byte, err error) {
	n, k := binary.Uvarint(src)
	if k <= 0 || n > uint64(len(src)-k) {
		return nil, nil, errShort
	}
	end := k + int(n)
	return src[k:end], src[end:], nil
}

func cutString(src []byte, s *string) ([]byte, error) {
	b, rest, err := cutBytes(src)
	if err != nil {
		return nil, err
	}
	*s = string(b)
	return rest, nil
}

func cutBlob(src []byte, b *[]byte) ([]byte, error) {
	n, rest, err := cutLength(src, 1)
	if err != nil {
		return nil, err
	}
	*b = nil
	if n >= 0 {
		*b = append(make([]byte, 0, n), rest[:n]...)
		rest = rest[n:]
	}
	return rest, nil
}

func cutFlag(src []byte, b *bool) ([]byte, error) {
	if len(src) == 0 {
		return nil, errShort
	}
	if src[0] > 1 {
		return nil, errWrong
	}
	*b = src[0] == 1
	return src[1:], nil
}

func cutFiller(src []byte) ([]byte, error) {
	var b bool
	rest, err := cutFlag(src, &b)
	if b {
		return nil, errWrong
	}
	return rest, err
}
