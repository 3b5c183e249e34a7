package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/weirstream/weir/codec"
)

// Lists is the state of one operator in one subtask that doesn't belong to keys:
// lists whose items are dealt out anew when the parallelism changes. It belongs
// to the subtask's goroutine. The zero Lists has none.
type Lists struct {
	lists  []list
	sealed bool
	err    error
}

// Subtask is an operator at work in one subtask.
type Subtask interface{ Lists() *Lists }

// A list is a Split, its type forgotten.
type list struct {
	name    string
	freeze  func() FrozenList
	restore func(schema codec.Schema, items [][]byte) error
}

// A FrozenList is what a list held at a moment, encoded.
type FrozenList struct {
	Name   string
	Schema codec.Schema // of one item
	Items  [][]byte
}

// Seal ends the declaration of lists; one that comes later is an error.
func (l *Lists) Seal() { l.sealed = true }

// Err returns what was wrong with the first bad declaration.
func (l *Lists) Err() error { return l.err }

// Freeze returns what the lists hold.
func (l *Lists) Freeze() []FrozenList {
	var frozen []FrozenList
	for _, one := range l.lists {
		frozen = append(frozen, one.freeze())
	}
	return frozen
}

// Restore adds items to the list of a name. If none is declared by that name it
// is ErrUndeclared.
func (l *Lists) Restore(name string, schema codec.Schema, items [][]byte) error {
	err := ErrUndeclared
	if i := l.find(name); i >= 0 {
		err = l.lists[i].restore(schema, items)
	}
	if err != nil {
		return fmt.Errorf("restore list %q: %w", name, err)
	}
	return nil
}

func (l *Lists) find(name string) int {
	return slices.IndexFunc(l.lists, func(one list) bool { return one.name == name })
}

// A Split is a list of items of one subtask. When the parallelism changes, the
// items of all subtasks are dealt out among the new ones.
type Split[T any] struct {
	codec codec.Codec[T]
	items []T
}

// NewSplit declares a list on the operator. It is called in the operator's
// constructor. What is wrong with the name or the type is the operator's error.
func NewSplit[T any](op Subtask, name string) *Split[T] {
	l, s := op.Lists(), &Split[T]{}
	var err error
	s.codec, err = codec.For[T]()
	if err = declarable(name, l.find(name) >= 0, l.sealed, inKind(listKind, err)); err == nil {
		l.lists = append(l.lists, list{name, func() FrozenList { return s.freeze(name) }, s.restore})
	} else if l.err == nil {
		l.err = err
	}
	return s
}

// Append adds items.
func (s *Split[T]) Append(items ...T) { s.items = append(s.items, items...) }

// All yields the items in order. What is appended meanwhile isn't among them.
func (s *Split[T]) All() iter.Seq[T] { return slices.Values(s.items) }

// Len is the number of items.
func (s *Split[T]) Len() int { return len(s.items) }

// Clear removes all items.
func (s *Split[T]) Clear() { s.items = nil }

func (s *Split[T]) freeze(name string) FrozenList {
	f := FrozenList{Name: name, Schema: s.codec.Schema()}
	for i := range s.items {
		f.Items = append(f.Items, s.codec.Append(nil, &s.items[i]))
	}
	return f
}

func (s *Split[T]) restore(schema codec.Schema, items [][]byte) error {
	if schema != s.codec.Schema() {
		return mistake{fmt.Errorf("stored as %s, declared as %s", describe(schema), describe(s.codec.Schema()))}
	}
	for i, item := range items {
		var v T
		if err := decode(s.codec, item, &v); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		s.items = append(s.items, v)
	}
	return nil
}
