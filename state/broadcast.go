package state

import (
	"bytes"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/weirstream/weir/codec"
)

// A Broadcast is a map that every subtask of an operator holds alike: each does
// the same to it, as when all of them get the same records in the same order.
type Broadcast[K comparable, V any] struct {
	keys    codec.Key[K]
	own     func(K) K // what the map keeps of a key; nil: the key itself
	entries map[K]V
	order   []K // the keys in order; nil if that isn't known
}

// NewBroadcast declares a map on the operator, as NewSplit does a list. Every
// subtask saves its own copy, and in a restored job every subtask gets one of
// these, whatever the parallelism: subtask i has the copy of subtask i, and where
// there are more subtasks than copies, they begin again with the first.
func NewBroadcast[K comparable, V any](op Subtask, name string) *Broadcast[K, V] {
	keys, keyErr := codec.KeyFor[K]()
	values, valueErr := codec.For[V]()
	s := &Broadcast[K, V]{keys: keys, entries: map[K]V{}}
	d := Declared{Name: name, Kind: BroadcastKind}
	err := errors.Join(keyErr, valueErr)
	if err == nil {
		s.own = codec.Detach(keys)
		d.UserKey, d.Value = keys.Schema(), values.Schema()
	}
	op.Lists().declare(d, err, func() (items [][]byte) {
		for k, v := range s.All() {
			items = append(items, values.Append(keys.Append(nil, &k), &v))
		}
		return items
	}, func(item []byte) error {
		var k K
		var v V
		n, err := keys.Decode(item, &k)
		if err == nil {
			err = decode(values, item[n:], &v)
		}
		s.Put(k, v)
		return err
	})
	return s
}

// Get returns what the map holds for k, or the zero value.
func (s *Broadcast[K, V]) Get(k K) V { return s.entries[k] }

// Lookup returns what the map holds for k, and whether it does.
func (s *Broadcast[K, V]) Lookup(k K) (v V, ok bool) {
	v, ok = s.entries[k]
	return v, ok
}

// Put sets what the map holds for k.
func (s *Broadcast[K, V]) Put(k K, v V) {
	if _, ok := s.entries[k]; !ok {
		s.order = nil
		if s.own != nil {
			k = s.own(k)
		}
	}
	s.entries[k] = v
}

// Remove removes k from the map.
func (s *Broadcast[K, V]) Remove(k K) {
	delete(s.entries, k)
	s.order = nil
}

// All yields the map in the order of its keys. The map may be changed meanwhile:
// what is removed before its turn doesn't come, and what is added doesn't either.
func (s *Broadcast[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if s.order == nil {
			s.order = s.sorted()
		}
		for _, k := range s.order {
			if v, ok := s.entries[k]; ok && !yield(k, v) {
				return
			}
		}
	}
}

func (s *Broadcast[K, V]) sorted() []K {
	var a, b []byte
	return slices.SortedFunc(maps.Keys(s.entries), func(x, y K) int {
		a, b = s.keys.Append(a[:0], &x), s.keys.Append(b[:0], &y)
		return bytes.Compare(a, b)
	})
}

// Len is the number of entries.
func (s *Broadcast[K, V]) Len() int { return len(s.entries) }

// Clear empties the map.
func (s *Broadcast[K, V]) Clear() {
	clear(s.entries)
	s.order = nil
}
