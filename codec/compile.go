package codec

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	timeType        = reflect.TypeFor[time.Time]()
	appenderType    = reflect.TypeFor[encoding.BinaryAppender]()
	marshalerType   = reflect.TypeFor[encoding.BinaryMarshaler]()
	unmarshalerType = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

// A compiler turns a type into a program. It remembers the types that it is
// inside of, to find those that hold themselves.
type compiler struct{ within []reflect.Type }

// compile makes the program of the type that is found at path.
func (c *compiler) compile(t reflect.Type, path string) (*program, error) {
	if slices.Contains(c.within, t) {
		return nil, refuseType(path, t, "holds itself: values have a fixed depth; keep the links as keys or indexes")
	}
	c.within = append(c.within, t)
	defer func() { c.within = c.within[:len(c.within)-1] }()

	p, err := c.compileKind(t, path)
	if err != nil {
		return nil, err
	}
	p.size = t.Size()
	if p.least == 0 {
		p.steps, p.least = append(p.steps, step{code: filler}), 1
	}
	return p, nil
}

func (c *compiler) compileKind(t reflect.Type, path string) (*program, error) {
	if t == timeType {
		return single("time", timeBytes, timePart{}), nil
	}
	if hasOwn(t) {
		return c.compileOwn(t, path)
	}
	switch t.Kind() {
	case reflect.Bool:
		return &program{steps: []step{{code: flag}}, least: 1, text: "bool"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		n := int(t.Size())
		return &program{steps: []step{{code: raw, n: n}}, least: n, text: basicText(t.Kind())}, nil
	case reflect.String:
		return &program{steps: []step{{code: text}}, least: 1, text: "string"}, nil
	case reflect.Slice:
		return c.compileSlice(t, path)
	case reflect.Array:
		return c.compileArray(t, path)
	case reflect.Map:
		return c.compileMap(t, path)
	case reflect.Struct:
		return c.compileStruct(t, path)
	case reflect.Pointer:
		elem, err := c.compile(t.Elem(), path)
		if err != nil {
			return nil, err
		}
		return single("*"+elem.text, 1, &pointerPart{elem, t.Elem()}), nil
	case reflect.Interface:
		return nil, refuseType(path, t, "is an interface: whoever reads the bytes could not know what is inside; use a concrete type")
	}
	return nil, refuseType(path, t, "can't be written down: it means something in this process only")
}

// single is a program of one part.
func single(text string, least int, p part) *program {
	return &program{steps: []step{{code: other, part: p}}, least: least, text: text}
}

// basicText is the canonical name of a basic kind. int and uint are as wide as
// int64 and uint64, and so are their values.
func basicText(k reflect.Kind) string {
	switch k {
	case reflect.Int:
		return "int64"
	case reflect.Uint:
		return "uint64"
	}
	return k.String()
}

func (c *compiler) compileSlice(t reflect.Type, path string) (*program, error) {
	elem, err := c.compile(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	if t.Elem().Kind() == reflect.Uint8 && elem.solid() {
		return &program{steps: []step{{code: blob}}, least: 1, text: "[]" + elem.text}, nil
	}
	return single("[]"+elem.text, 1, &slicePart{elem, t}), nil
}

func (c *compiler) compileArray(t reflect.Type, path string) (*program, error) {
	elem, err := c.compile(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	p := &program{least: t.Len() * elem.least, text: fmt.Sprintf("[%d]%s", t.Len(), elem.text)}
	switch {
	case p.least == 0:
	case elem.solid():
		p.steps = []step{{code: raw, n: p.least}}
	default:
		p.steps = []step{{code: other, part: &arrayPart{elem, t.Len()}}}
	}
	return p, nil
}

func (c *compiler) compileMap(t reflect.Type, path string) (*program, error) {
	key, err := compileKey(t.Key(), path+"[key]")
	if err != nil {
		return nil, err
	}
	value, err := c.compile(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	m := &mapPart{key: key, value: value, t: t}
	m.rooms = sync.Pool{New: func() any { return newRoom(t) }}
	return single("map["+key.text+"]"+value.text, 1, m), nil
}

func (c *compiler) compileStruct(t reflect.Type, path string) (*program, error) {
	var p program
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" {
			continue
		}
		path := path + "." + f.Name
		if !f.IsExported() {
			return nil, refuse(path, "unexported field: it would be lost when records travel; "+
				"export it or give the type MarshalBinary and UnmarshalBinary")
		}
		field, err := c.compile(f.Type, path)
		if err != nil {
			return nil, err
		}
		p.add(field, f.Offset)
		fields = append(fields, f.Name+" "+field.text)
	}
	p.text = "{" + strings.Join(fields, "; ") + "}"
	return &p, nil
}

// add appends the steps of a field that lies at an offset.
func (p *program) add(field *program, offset uintptr) {
	p.least += field.least
	for _, s := range field.steps {
		s.at += offset
		if last := len(p.steps) - 1; last >= 0 && p.steps[last].code == raw && s.code == raw &&
			p.steps[last].at+uintptr(p.steps[last].n) == s.at {
			p.steps[last].n += s.n
			continue
		}
		p.steps = append(p.steps, s)
	}
}

// hasOwn reports whether a type brings a binary encoding of its own.
func hasOwn(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(unmarshalerType) && (p.Implements(marshalerType) || p.Implements(appenderType))
}

// compileOwn refuses a struct that has its encoding from an embedded field only,
// most often a time.Time: the other fields would silently be lost.
func (c *compiler) compileOwn(t reflect.Type, path string) (*program, error) {
	if t.Kind() == reflect.Struct && t.NumField() > 1 {
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous && (hasOwn(f.Type) || f.Type.Kind() == reflect.Pointer && hasOwn(f.Type.Elem())) {
				return nil, refuse(path+"."+f.Name, "an embedded %s makes its MarshalBinary that of the whole struct; give the field a name", f.Type)
			}
		}
	}
	return single("binary:"+t.PkgPath()+"."+t.Name(), 1, ownPart{t}), nil
}
