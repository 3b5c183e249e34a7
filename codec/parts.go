package codec

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// slicePart encodes slices.
type slicePart struct {
	elem *program
	t    reflect.Type
}

// header is how a slice lies in memory.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

func (s *slicePart) append(dst []byte, at unsafe.Pointer) []byte {
	h := (*header)(at)
	if h.data == nil {
		return append(dst, 0)
	}
	dst = appendLength(dst, h.len)
	if s.elem.solid() {
		return append(dst, memory(h.data, h.len*int(s.elem.size))...)
	}
	for i := range h.len {
		dst = s.elem.append(dst, unsafe.Add(h.data, uintptr(i)*s.elem.size))
	}
	return dst
}

func (s *slicePart) decode(src []byte, at unsafe.Pointer) (rest []byte, err error) {
	n, src, err := cutLength(src, s.elem.least)
	if err != nil {
		return nil, err
	}
	slice := reflect.NewAt(s.t, at).Elem()
	if n < 0 {
		slice.SetZero()
		return src, nil
	}
	slice.Set(reflect.MakeSlice(s.t, n, n))
	data := slice.UnsafePointer()
	if s.elem.solid() {
		return src[copy(memory(data, n*int(s.elem.size)), src):], nil
	}
	return decodeRun(src, s.elem, data, n)
}

// decodeRun decodes n values that lie one behind the other.
func decodeRun(src []byte, elem *program, data unsafe.Pointer, n int) (rest []byte, err error) {
	for i := range n {
		if src, err = elem.decode(src, unsafe.Add(data, uintptr(i)*elem.size)); err != nil {
			return nil, err
		}
	}
	return src, nil
}

// arrayPart encodes arrays.
type arrayPart struct {
	elem *program
	n    int
}

func (a *arrayPart) append(dst []byte, at unsafe.Pointer) []byte {
	for i := range a.n {
		dst = a.elem.append(dst, unsafe.Add(at, uintptr(i)*a.elem.size))
	}
	return dst
}

func (a *arrayPart) decode(src []byte, at unsafe.Pointer) ([]byte, error) {
	return decodeRun(src, a.elem, at, a.n)
}

// pointerPart encodes pointers.
type pointerPart struct {
	elem *program
	t    reflect.Type // of what is pointed to
}

func (p *pointerPart) append(dst []byte, at unsafe.Pointer) []byte {
	to := *(*unsafe.Pointer)(at)
	if to == nil {
		return append(dst, 0)
	}
	return p.elem.append(append(dst, 1), to)
}

func (p *pointerPart) decode(src []byte, at unsafe.Pointer) ([]byte, error) {
	var there bool
	src, err := cutFlag(src, &there)
	if err != nil {
		return nil, err
	}
	to := (*unsafe.Pointer)(at)
	if !there {
		*to = nil
		return src, nil
	}
	*to = reflect.New(p.t).UnsafePointer()
	return p.elem.decode(src, *to)
}

// mapPart encodes maps. Go walks a map in a random order, so the entries are
// encoded first and sorted then.
type mapPart struct {
	key   *keyProgram
	value *program
	t     reflect.Type
	rooms sync.Pool // of *room
}

// room is what is needed to encode or decode one map: a key and a value, and
// where they are.
type room struct {
	iter           reflect.MapIter
	key, value     reflect.Value
	keyAt, valueAt unsafe.Pointer
	bytes          []byte
	entries        []entry
}

// entry says where in room.bytes an entry is.
type entry struct{ from, to int }

func newRoom(t reflect.Type) *room {
	key, value := reflect.New(t.Key()), reflect.New(t.Elem())
	return &room{key: key.Elem(), value: value.Elem(), keyAt: key.UnsafePointer(), valueAt: value.UnsafePointer()}
}

func (m *mapPart) append(dst []byte, at unsafe.Pointer) []byte {
	all := reflect.NewAt(m.t, at).Elem()
	if all.IsNil() {
		return append(dst, 0)
	}
	r := m.rooms.Get().(*room)
	for r.iter.Reset(all); r.iter.Next(); {
		r.key.SetIterKey(&r.iter)
		r.value.SetIterValue(&r.iter)
		from := len(r.bytes)
		r.bytes = m.key.append(r.bytes, r.keyAt)
		r.bytes = m.value.append(r.bytes, r.valueAt)
		r.entries = append(r.entries, entry{from, len(r.bytes)})
	}
	// No key is the prefix of another, so comparing whole entries compares keys.
	slices.SortFunc(r.entries, func(a, b entry) int {
		return bytes.Compare(r.bytes[a.from:a.to], r.bytes[b.from:b.to])
	})
	dst = appendLength(dst, len(r.entries))
	for _, e := range r.entries {
		dst = append(dst, r.bytes[e.from:e.to]...)
	}
	r.clear()
	m.rooms.Put(r)
	return dst
}

// clear keeps memory and drops references.
func (r *room) clear() {
	r.iter.Reset(reflect.Value{})
	r.key.SetZero()
	r.value.SetZero()
	r.bytes, r.entries = r.bytes[:0], r.entries[:0]
}

func (m *mapPart) decode(src []byte, at unsafe.Pointer) (rest []byte, err error) {
	n, src, err := cutLength(src, m.key.least+m.value.least)
	if err != nil {
		return nil, err
	}
	all := reflect.NewAt(m.t, at).Elem()
	if n < 0 {
		all.SetZero()
		return src, nil
	}
	all.Set(reflect.MakeMapWithSize(m.t, n))
	r := newRoom(m.t)
	var before []byte
	for range n {
		rest, err := m.key.decode(src, r.keyAt)
		if err != nil {
			return nil, err
		}
		key := src[:len(src)-len(rest)]
		if bytes.Compare(before, key) >= 0 {
			return nil, errWrong // out of order, or twice
		}
		before = key
		if src, err = m.value.decode(rest, r.valueAt); err != nil {
			return nil, err
		}
		all.SetMapIndex(r.key, r.value)
	}
	return src, nil
}

// timePart encodes time.Time.
type timePart struct{}

const timeBytes = 16

func (timePart) append(dst []byte, at unsafe.Pointer) []byte {
	t := (*time.Time)(at)
	_, offset := t.Zone()
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.Unix()))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(t.Nanosecond()))
	return binary.LittleEndian.AppendUint32(dst, uint32(offset))
}

func (timePart) decode(src []byte, at unsafe.Pointer) ([]byte, error) {
	if len(src) < timeBytes {
		return nil, errShort
	}
	seconds := int64(binary.LittleEndian.Uint64(src))
	nanos := binary.LittleEndian.Uint32(src[8:])
	offset := int32(binary.LittleEndian.Uint32(src[12:]))
	if nanos >= 1e9 {
		return nil, errWrong
	}
	t := time.Unix(seconds, int64(nanos)).UTC()
	if offset != 0 {
		t = t.In(time.FixedZone("", int(offset)))
	}
	*(*time.Time)(at) = t
	return src[timeBytes:], nil
}

// ownPart encodes a type by the encoding that it brings.
type ownPart struct{ t reflect.Type }

func (o ownPart) append(dst []byte, at unsafe.Pointer) []byte {
	start := len(dst)
	dst, err := appendOwn(append(dst, 0), reflect.NewAt(o.t, at).Interface())
	if err != nil {
		panic(fmt.Errorf("encode %s: %w", o.t, err))
	}
	n := len(dst) - start - 1
	if n < 0x80 {
		dst[start] = byte(n)
		return dst
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Replace(dst, start, start+1, length[:binary.PutUvarint(length[:], uint64(n))]...)
}

func appendOwn(dst []byte, v any) ([]byte, error) {
	if a, ok := v.(encoding.BinaryAppender); ok {
		return a.AppendBinary(dst)
	}
	b, err := v.(encoding.BinaryMarshaler).MarshalBinary()
	return append(dst, b...), err
}

func (o ownPart) decode(src []byte, at unsafe.Pointer) ([]byte, error) {
	b, rest, err := cutBytes(src)
	if err != nil {
		return nil, err
	}
	v := reflect.NewAt(o.t, at)
	v.Elem().SetZero()
	if err := v.Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(b); err != nil {
		return nil, err
	}
	return rest, nil
}
