package codec

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// ErrText says that a text isn't the JSON of a value.
var ErrText = errors.New("not the JSON of a value")

// Stored reads values by their schema, without the type that they were written
// from.
type Stored struct {
	t       reflect.Type // with fields of the same names
	program interface {
		append(dst []byte, at unsafe.Pointer) []byte
		decode(src []byte, at unsafe.Pointer) (rest []byte, err error)
	}
}

// ForStored returns what reads the values that a schema describes. A schema by
// another codec than For and KeyFor is an error.
func ForStored(s Schema) (*Stored, error) {
	p := typeText{rest: s.Type}
	t, err := p.read()
	if err == nil && p.rest != "" {
		err = fmt.Errorf("%q follows the type", p.rest)
	}
	stored := &Stored{t: t}
	switch {
	case err != nil:
	case s.Codec == "weir/1":
		stored.program, err = new(compiler).compile(t, s.Type)
	case s.Codec == "weir-key/1":
		stored.program, err = compileKey(t, s.Type)
	default:
		err = errors.New("unknown codec")
	}
	if err != nil {
		return nil, fmt.Errorf("schema %q: %w", s, err)
	}
	return stored, nil
}

// Decode reads one value from the front of src and returns it as JSON and how many
// bytes it took. A time is as RFC 3339 has it; bytes of a binary type, and all []byte,
// are hexadecimal digits; numbers that JSON doesn't know are texts.
func (s *Stored) Decode(src []byte) (value json.RawMessage, n int, err error) {
	v := reflect.New(s.t)
	rest, err := s.program.decode(src, v.UnsafePointer())
	if err != nil {
		return nil, 0, err
	}
	return appendJSON(nil, v.Elem()), len(src) - len(rest), nil
}

// Encode returns the encoding of a value that is given as JSON, or, if it is a
// string, as it is: what a person types to look for it.
func (s *Stored) Encode(text string) ([]byte, error) {
	v := reflect.New(s.t)
	if s.t.Kind() == reflect.String {
		v.Elem().SetString(text)
	} else if err := json.Unmarshal([]byte(text), v.Interface()); err != nil {
		return nil, fmt.Errorf("%q: %w: %w", text, ErrText, err)
	}
	return s.program.append(nil, v.UnsafePointer()), nil
}

// opaque stands for a type with a binary encoding of its own.
type opaque struct{ Bytes []byte }

// MarshalBinary implements encoding.BinaryMarshaler.
func (o opaque) MarshalBinary() ([]byte, error) { return o.Bytes, nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (o *opaque) UnmarshalBinary(b []byte) error {
	o.Bytes = append([]byte(nil), b...)
	return nil
}

var opaqueType = reflect.TypeFor[opaque]()

// A typeText is what is left of the text of a type.
type typeText struct{ rest string }

func (p *typeText) cut(prefix string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, prefix)
	return ok
}

// until cuts off what comes before a mark, and the mark.
func (p *typeText) until(mark string) (string, error) {
	before, after, ok := strings.Cut(p.rest, mark)
	if !ok {
		return "", fmt.Errorf("there is no %q in %q", mark, p.rest)
	}
	p.rest = after
	return before, nil
}

var basics = map[string]reflect.Type{
	"bool": reflect.TypeFor[bool](), "string": reflect.TypeFor[string](), "time": timeType,
	"int8": reflect.TypeFor[int8](), "int16": reflect.TypeFor[int16](), "int32": reflect.TypeFor[int32](), "int64": reflect.TypeFor[int64](),
	"uint8": reflect.TypeFor[uint8](), "uint16": reflect.TypeFor[uint16](), "uint32": reflect.TypeFor[uint32](), "uint64": reflect.TypeFor[uint64](),
	"float32": reflect.TypeFor[float32](), "float64": reflect.TypeFor[float64](),
	"complex64": reflect.TypeFor[complex64](), "complex128": reflect.TypeFor[complex128](),
}

// read makes a type of the text.
func (p *typeText) read() (reflect.Type, error) {
	switch {
	case p.cut("[]"):
		return p.of(reflect.SliceOf)
	case p.cut("*"):
		return p.of(reflect.PointerTo)
	case p.cut("map["):
		return p.readMap()
	case p.cut("["):
		return p.readArray()
	case p.cut("{"):
		return p.readStruct()
	case p.cut("binary:"):
		p.skipName()
		return opaqueType, nil
	}
	word := p.rest
	if end := strings.IndexAny(word, ";}]"); end >= 0 {
		word = word[:end]
	}
	if basics[word] == nil {
		return nil, fmt.Errorf("%q is no type", word)
	}
	p.rest = p.rest[len(word):]
	return basics[word], nil
}

func (p *typeText) of(make func(reflect.Type) reflect.Type) (reflect.Type, error) {
	elem, err := p.read()
	if err != nil {
		return nil, err
	}
	return make(elem), nil
}

func (p *typeText) readMap() (reflect.Type, error) {
	key, err := p.read()
	if err == nil && (!p.cut("]") || !key.Comparable()) {
		err = errors.New("there is a map with a wrong key")
	}
	if err != nil {
		return nil, err
	}
	return p.of(func(value reflect.Type) reflect.Type { return reflect.MapOf(key, value) })
}

func (p *typeText) readArray() (reflect.Type, error) {
	digits, err := p.until("]")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return nil, err
	}
	elem, err := p.read()
	if err == nil && uint64(elem.Size())*n > math.MaxInt32 {
		err = fmt.Errorf("an array of %d is too large", n)
	}
	if err != nil {
		return nil, err
	}
	return reflect.ArrayOf(int(n), elem), nil
}

func (p *typeText) readStruct() (reflect.Type, error) {
	var fields []reflect.StructField
	names := map[string]bool{}
	for more := !p.cut("}"); more; more = !p.cut("}") {
		if len(fields) > 0 && !p.cut("; ") {
			return nil, fmt.Errorf("no field begins at %q", p.rest)
		}
		name, err := p.until(" ")
		if err == nil && (!token.IsIdentifier(name) || !token.IsExported(name) || names[name]) {
			err = fmt.Errorf("%q is no name of a field", name)
		}
		if err != nil {
			return nil, err
		}
		t, err := p.read()
		if err != nil {
			return nil, err
		}
		names[name] = true
		fields = append(fields, reflect.StructField{Name: name, Type: t})
	}
	return reflect.StructOf(fields), nil
}

// skipName skips the name of a binary type: it ends with what it lies in.
func (p *typeText) skipName() {
	depth := 0
	for i, c := range p.rest {
		switch {
		case c == '[':
			depth++
		case c == ']' && depth > 0:
			depth--
		case depth == 0 && strings.ContainsRune("]};", c):
			p.rest = p.rest[i:]
			return
		}
	}
	p.rest = ""
}

// appendJSON appends a value. Fields stand in their order, entries of maps in
// that of their keys' JSON.
func appendJSON(dst []byte, v reflect.Value) []byte {
	switch v.Type() {
	case timeType:
		return strconv.AppendQuote(dst, v.Interface().(time.Time).Format(time.RFC3339Nano))
	case opaqueType:
		return appendHex(dst, v.Field(0).Bytes())
	}
	switch k := v.Kind(); k {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return strconv.AppendQuote(dst, fmt.Sprint(f))
		}
	case reflect.Complex64, reflect.Complex128:
		return strconv.AppendQuote(dst, fmt.Sprint(v.Complex()))
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return append(dst, "null"...)
		}
		return appendParts(dst, v)
	case reflect.Array, reflect.Struct:
		return appendParts(dst, v)
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic(fmt.Sprintf("codec: JSON of %s: %v", v.Type(), err))
	}
	return append(dst, text...)
}

func appendHex(dst, b []byte) []byte { return append(hex.AppendEncode(append(dst, '"'), b), '"') }

// appendParts appends a value that has parts.
func appendParts(dst []byte, v reflect.Value) []byte {
	open, end := byte('['), byte(']')
	var parts [][]byte
	switch v.Kind() {
	case reflect.Pointer:
		return appendJSON(dst, v.Elem())
	case reflect.Struct:
		open, end = '{', '}'
		for i := range v.NumField() {
			name := strconv.AppendQuote(nil, v.Type().Field(i).Name)
			parts = append(parts, appendJSON(append(name, ':'), v.Field(i)))
		}
	case reflect.Map:
		open, end = '{', '}'
		parts = entriesJSON(v)
	default:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			return appendHex(dst, v.Bytes())
		}
		for i := range v.Len() {
			parts = append(parts, appendJSON(nil, v.Index(i)))
		}
	}
	dst = append(dst, open)
	for i, part := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, part...)
	}
	return append(dst, end)
}

func entriesJSON(m reflect.Value) (entries [][]byte) {
	for i := m.MapRange(); i.Next(); {
		name := appendJSON(nil, i.Key())
		if name[0] != '"' {
			name = strconv.AppendQuote(nil, string(name))
		}
		entries = append(entries, appendJSON(append(name, ':'), i.Value()))
	}
	slices.SortFunc(entries, bytes.Compare)
	return entries
}
