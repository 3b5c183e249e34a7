package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/weirstream/weir/codec"
)

// Kinds of state that doesn't belong to keys, as snapshots name them. A kind says
// what each subtask of a restored job gets of what all old ones had saved.
const (
	SplitKind     = "split"     // a run of all their items; at unchanged parallelism its own
	UnionKind     = "union"     // all items of all
	BroadcastKind = "broadcast" // what one of them had, since all had the same
)

// Lists is the state of one operator in one subtask that doesn't belong to keys:
// lists of items. It belongs to the subtask's goroutine. The zero Lists has none.
type Lists struct {
	lists  []list
	saved  []FrozenList
	sealed bool
	err    error
}

// Subtask is an operator at work in one subtask.
type Subtask interface{ Lists() *Lists }

// A list is a declared state, its type forgotten.
type list struct {
	Declared
	freeze func() [][]byte // its items
}

// A FrozenList is what a list held at a moment, encoded.
type FrozenList struct {
	Declared
	Items [][]byte
}

// NewLists returns the lists of an operator that is restored: each holds what was
// saved of it, in one or several parts, as soon as it is declared. Err is what went
// wrong with reading that.
func NewLists(saved []FrozenList, err error) *Lists { return &Lists{saved: saved, err: err} }

// Seal ends the declaration of lists; one that comes later is an error. A list
// that was saved and isn't declared is ErrUndeclared, unless allowDropped; then
// its name is returned.
func (l *Lists) Seal(allowDropped bool) (dropped []string, err error) {
	l.sealed = true
	for _, s := range l.saved {
		switch {
		case l.declares(s.Name):
		case !allowDropped:
			l.fail(fmt.Errorf("restore state %q: %w", s.Name, ErrUndeclared))
		case !slices.Contains(dropped, s.Name):
			dropped = append(dropped, s.Name)
		}
	}
	l.saved = nil
	return dropped, l.err
}

// Err returns the first thing that was wrong: with a declaration, or with what
// was to be restored.
func (l *Lists) Err() error { return l.err }

// Freeze returns what the lists hold.
func (l *Lists) Freeze() []FrozenList {
	var frozen []FrozenList
	for _, one := range l.lists {
		frozen = append(frozen, FrozenList{one.Declared, one.freeze()})
	}
	return frozen
}

func (l *Lists) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *Lists) declares(name string) bool {
	return slices.ContainsFunc(l.lists, func(one list) bool { return one.Name == name })
}

// declare adds a list and gives it, item by item, what was saved of it, unless
// something is wrong: then that is the operator's error. Err is what was wrong
// already.
func (l *Lists) declare(d Declared, err error, freeze func() [][]byte, load func(item []byte) error) {
	if err = declarable(d.Name, l.declares(d.Name), l.sealed, inKind(d.Kind, err)); err != nil {
		l.fail(err)
		return
	}
	l.lists = append(l.lists, list{d, freeze})
	if err := l.restore(d, load); err != nil {
		l.fail(fmt.Errorf("restore state %q: %w", d.Name, err))
	}
}

func (l *Lists) restore(d Declared, load func(item []byte) error) error {
	for _, s := range l.saved {
		if s.Name != d.Name {
			continue
		}
		if s.Declared != d {
			return mistake{fmt.Errorf("stored as %s, declared as %s", s.Declared, d)}
		}
		for i, item := range s.Items {
			if err := load(item); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
	}
	return nil
}

// Items are a list of one subtask that doesn't belong to a key.
type Items[T any] struct{ items []T }

// NewSplit declares a list on the operator. When the parallelism changes, the
// items of all subtasks are dealt out among the new ones, in contiguous runs;
// while it doesn't, each subtask keeps its own.
//
// It is called in the operator's constructor; what was restored is in the list
// when NewSplit returns. What is wrong with the name or the type is the
// operator's error.
func NewSplit[T any](op Subtask, name string) *Items[T] { return newItems[T](op, name, SplitKind) }

// NewUnion declares a list on the operator, as NewSplit does, of which every
// subtask of a restored job gets the items of all, in the order of the old
// subtasks, also at unchanged parallelism. A subtask that goes on saving what was
// another's multiplies it: it picks what is its own, and clears the rest.
func NewUnion[T any](op Subtask, name string) *Items[T] { return newItems[T](op, name, UnionKind) }

func newItems[T any](op Subtask, name, kind string) *Items[T] {
	s := &Items[T]{}
	d := Declared{Name: name, Kind: kind}
	c, err := codec.For[T]()
	if err == nil {
		d.Value = c.Schema()
	}
	op.Lists().declare(d, err, func() (items [][]byte) {
		for i := range s.items {
			items = append(items, c.Append(nil, &s.items[i]))
		}
		return items
	}, func(item []byte) error {
		var v T
		err := decode(c, item, &v)
		s.items = append(s.items, v)
		return err
	})
	return s
}

// Append adds items.
func (s *Items[T]) Append(items ...T) { s.items = append(s.items, items...) }

// All yields the items in order. What is appended meanwhile isn't among them.
func (s *Items[T]) All() iter.Seq[T] { return slices.Values(s.items) }

// Len is the number of items.
func (s *Items[T]) Len() int { return len(s.items) }

// Clear removes all items.
func (s *Items[T]) Clear() { s.items = nil }
