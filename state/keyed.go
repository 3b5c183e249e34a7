package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/weirstream/weir/codec"
)

// Kinds of keyed state, as snapshots name them.
const (
	valueKind       = "value"
	listKind        = "list"
	mapKind         = "map"
	reducingKind    = "reducing"
	aggregatingKind = "aggregating"
)

// A Value is one value of type T per key. The zero Value is of no use; NewValue
// makes one.
//
// What is read from a state and refers to memory, such as a slice, isn't kept
// beyond the handler's call. Whoever changes it in place sets it again.
type Value[T any] struct{ cell cell[T] }

// NewValue declares a value on the operator. It is called in the operator's
// constructor. What is wrong with the name or the type is the operator's error.
func NewValue[T any, K comparable](op Keyed[K], name string) Value[T] {
	return Value[T]{declareCell[T](op, name, valueKind, codec.Plain[T]())}
}

// Get returns the current key's value, or the zero value if there is none.
func (s Value[T]) Get() T {
	v, _ := s.Lookup()
	return v
}

// Lookup returns the current key's value and whether there is one.
func (s Value[T]) Lookup() (v T, ok bool) {
	if p := s.cell.find(); p != nil {
		return *p, true
	}
	return v, false
}

// Set sets the current key's value.
func (s Value[T]) Set(v T) {
	p, _ := s.cell.ref()
	*p = v
}

// Clear removes the current key's value.
func (s Value[T]) Clear() { s.cell.remove() }

// A List is a list of items per key.
type List[T any] struct{ cell cell[[]T] }

// NewList declares a list on the operator, as NewValue does a value.
func NewList[T any, K comparable](op Keyed[K], name string) List[T] {
	// The items can't be reached by the user, and a list only grows at its end or
	// is replaced, so its header can be captured as it is.
	return List[T]{declareCell[[]T](op, name, listKind, codec.Plain[T]())}
}

// Append adds items to the current key's list.
func (s List[T]) Append(items ...T) {
	if len(items) == 0 {
		return
	}
	p, _ := s.cell.ref()
	*p = append(*p, items...)
}

// All yields the items of the current key's list. What is appended meanwhile
// isn't among them.
func (s List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		if p := s.cell.find(); p != nil {
			slices.Values(*p)(yield)
		}
	}
}

// Len is the number of items in the current key's list.
func (s List[T]) Len() int {
	if p := s.cell.find(); p != nil {
		return len(*p)
	}
	return 0
}

// Set replaces the current key's list by a copy of items.
func (s List[T]) Set(items []T) {
	if len(items) == 0 {
		s.cell.remove()
		return
	}
	p, _ := s.cell.ref()
	*p = slices.Clone(items)
}

// Clear empties the current key's list.
func (s List[T]) Clear() { s.cell.remove() }

// A Reducing is one value per key into which others are merged.
type Reducing[T any] struct {
	cell  cell[T]
	merge func(a, b T) T
}

// NewReducing declares a reducing state on the operator, as NewValue does a
// value. Merge gets what is there and what is added. It doesn't use state.
func NewReducing[T any, K comparable](op Keyed[K], name string, merge func(a, b T) T) Reducing[T] {
	return Reducing[T]{declareCell[T](op, name, reducingKind, codec.Plain[T]()), merge}
}

// Add merges v into the current key's value, or makes it the value if there is none.
func (s Reducing[T]) Add(v T) {
	p, fresh := s.cell.ref()
	if !fresh {
		v = s.merge(*p, v)
	}
	*p = v
}

// Get returns the current key's value, or the zero value if there is none.
func (s Reducing[T]) Get() (v T) {
	if p := s.cell.find(); p != nil {
		v = *p
	}
	return v
}

// Clear removes the current key's value.
func (s Reducing[T]) Clear() { s.cell.remove() }

// An Aggregate says how values of type In are brought together in an accumulator,
// and what comes of it. Its functions don't use state.
type Aggregate[In, Acc, Out any] struct {
	// Add returns the accumulator with v in it; the first one is the zero Acc. It
	// may change the accumulator in place.
	Add func(all Acc, v In) Acc
	// Result returns what the accumulator amounts to. It doesn't change it.
	Result func(all Acc) Out
}

// An Aggregating is one accumulator per key, to which values are added. It is the
// accumulator that is stored.
type Aggregating[In, Acc, Out any] struct {
	cell cell[Acc]
	by   Aggregate[In, Acc, Out]
}

// NewAggregating declares an aggregating state on the operator, as NewValue does
// a value.
func NewAggregating[In, Acc, Out any, K comparable](op Keyed[K], name string, by Aggregate[In, Acc, Out]) Aggregating[In, Acc, Out] {
	return Aggregating[In, Acc, Out]{declareCell[Acc](op, name, aggregatingKind, codec.Plain[Acc]()), by}
}

// Add adds v to what the current key has.
func (s Aggregating[In, Acc, Out]) Add(v In) {
	p, _ := s.cell.ref()
	*p = s.by.Add(*p, v)
}

// Get returns the result of all that was added for the current key, or the zero
// value if nothing was.
func (s Aggregating[In, Acc, Out]) Get() (result Out) {
	if p := s.cell.find(); p != nil {
		result = s.by.Result(*p)
	}
	return result
}

// Clear removes what was added for the current key.
func (s Aggregating[In, Acc, Out]) Clear() { s.cell.remove() }

// NewTable declares a value on the operator, as NewValue does, and returns the
// table itself, for operators that loop over many records: they find keys on
// their own and don't set the keyspace's.
func NewTable[T any, K comparable](op Keyed[K], name string) *Table[K, T] {
	return declareTable[T](op.Keyspace(), name, valueKind, codec.Plain[T]())
}

// A cell is the current key's place in a table, the key's type forgotten.
type cell[T any] interface {
	find() *T
	ref() (v *T, fresh bool)
	remove()
}

type current[K comparable, T any] struct {
	ks    *Keyspace[K]
	table *Table[K, T]
}

func (c *current[K, T]) find() *T        { return c.table.find(c.ks.key, c.ks.hash) }
func (c *current[K, T]) ref() (*T, bool) { return c.table.Ref(c.ks.key, c.ks.hash) }
func (c *current[K, T]) remove()         { c.table.remove(c.ks.key, c.ks.hash) }

func declareCell[T any, K comparable](op Keyed[K], name, kind string, plain bool) cell[T] {
	ks := op.Keyspace()
	return &current[K, T]{ks, declareTable[T](ks, name, kind, plain)}
}

// declareTable adds a state of one value per key. Plain says that the user can't
// reach what values refer to.
func declareTable[T any, K comparable](ks *Keyspace[K], name, kind string, plain bool) *Table[K, T] {
	values, err := codec.For[T]()
	t := newTable(format[K, T]{prefix: prefixOf(name), hash: ks.codec.Hash, appendKey: ks.codec.Append, value: values, own: codec.Detach(ks.codec)}, ks.codec.Hash, !plain)
	c := column{Declared: Declared{Name: name, Kind: kind}, freeze: t.freeze}
	var k K // in the closure it would be allocated for each entry
	c.load = func(key, value []byte) error {
		if err := decode(ks.codec, key, &k); err != nil {
			return err
		}
		hash := ks.codec.Hash(&k)
		if !ks.owns(hash) {
			return nil
		}
		v, _ := t.Ref(k, hash)
		return decode(values, value, v)
	}
	if err == nil {
		c.Value = values.Schema()
	}
	ks.declare(c, inKind(kind, err))
	return t
}

// inKind says of what kind of state an error is.
func inKind(kind string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", kind, err)
}

func prefixOf(name string) []byte { return append([]byte(name), 0) }
