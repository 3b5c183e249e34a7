package state

import (
	"bytes"
	"errors"
	"iter"
	"math/bits"
	"slices"

	"github.com/weirstream/weir/codec"
)

// A Map is a map from UK to V per key. Every entry of it is an entry of the
// table: what is snapshotted of a large map is what was used of it.
type Map[UK comparable, V any] struct{ cell mapCell[UK, V] }

// NewMap declares a map on the operator, as NewValue does a value.
func NewMap[UK comparable, V any, K comparable](op Keyed[K], name string) Map[UK, V] {
	ks := op.Keyspace()
	m := &userMaps[K, UK, V]{ks: ks}
	m.declare(name)
	return Map[UK, V]{m}
}

// Get returns what the current key's map holds for k, or the zero value.
func (s Map[UK, V]) Get(k UK) V {
	v, _ := s.Lookup(k)
	return v
}

// Lookup returns what the current key's map holds for k, and whether it does.
func (s Map[UK, V]) Lookup(k UK) (v V, ok bool) {
	if p := s.cell.find(k); p != nil {
		return *p, true
	}
	return v, false
}

// Put sets what the current key's map holds for k.
func (s Map[UK, V]) Put(k UK, v V) { s.cell.put(k, v) }

// Remove removes k from the current key's map.
func (s Map[UK, V]) Remove(k UK) { s.cell.remove(k) }

// All yields the current key's map in the order of the encodings of its keys,
// which is that of the keys themselves. The map may be changed meanwhile: what
// is removed before its turn doesn't come, and what is added doesn't either.
func (s Map[UK, V]) All() iter.Seq2[UK, V] {
	return func(yield func(UK, V) bool) {
		for _, k := range s.cell.keys() {
			if p := s.cell.find(k); p != nil && !yield(k, *p) {
				return
			}
		}
	}
}

// Len is the number of entries of the current key's map.
func (s Map[UK, V]) Len() int { return s.cell.len() }

// Clear empties the current key's map.
func (s Map[UK, V]) Clear() {
	for _, k := range s.cell.keys() {
		s.cell.remove(k)
	}
}

// A mapCell is the current key's map, the key's type forgotten.
type mapCell[UK comparable, V any] interface {
	find(UK) *V
	put(UK, V)
	remove(UK)
	keys() []UK
	len() int
}

// userMaps is a map state: a table of all entries of all maps, and beside it, for
// each key, which user keys it has. Only the first is in snapshots.
type userMaps[K, UK comparable, V any] struct {
	ks      *Keyspace[K]
	inner   codec.Key[UK]
	entries *Table[pair[K, UK], V]
	index   *Table[K, members[UK]]
	user    UK // the one that is being hashed; on the stack it would escape
	ownUser func(UK) UK
}

type pair[K, UK comparable] struct {
	key  K
	user UK
}

// members are the user keys of one key.
type members[UK comparable] struct {
	// list holds them all, but also some that are gone, and some twice.
	list []UK
	// tidy says that list is in order and has neither.
	tidy bool
	len  int
}

func (m *userMaps[K, UK, V]) declare(name string) {
	inner, keyErr := codec.KeyFor[UK]()
	values, valueErr := codec.For[V]()
	m.inner = inner
	m.ownUser = codec.Detach(inner)
	outer := m.ks.codec
	m.entries = newTable(format[pair[K, UK], V]{
		prefix: prefixOf(name),
		hash:   func(p *pair[K, UK]) uint64 { return outer.Hash(&p.key) },
		appendKey: func(dst []byte, p *pair[K, UK]) []byte {
			return inner.Append(outer.Append(dst, &p.key), &p.user)
		},
		value: values,
		own:   m.own(codec.Detach(outer)),
	}, func(p *pair[K, UK]) uint64 { return mix(outer.Hash(&p.key), inner.Hash(&p.user)) }, !codec.Plain[V]())
	m.index = newTable(format[K, members[UK]]{own: codec.Detach(outer)}, outer.Hash, false)
	c := column{Declared: Declared{Name: name, Kind: mapKind}, freeze: m.entries.freeze, load: m.load}
	err := errors.Join(keyErr, valueErr)
	if err == nil {
		c.UserKey, c.Value = inner.Schema(), values.Schema()
	}
	m.ks.declare(c, inKind(mapKind, err))
}

// own returns what makes a pair share no memory, nil if none does.
func (m *userMaps[K, UK, V]) own(key func(K) K) func(pair[K, UK]) pair[K, UK] {
	if key == nil && m.ownUser == nil {
		return nil
	}
	return func(p pair[K, UK]) pair[K, UK] {
		if key != nil {
			p.key = key(p.key)
		}
		if m.ownUser != nil {
			p.user = m.ownUser(p.user)
		}
		return p
	}
}

func (m *userMaps[K, UK, V]) load(key, value []byte) error {
	var p pair[K, UK]
	n, err := m.ks.codec.Decode(key, &p.key)
	if err == nil {
		err = decode(m.inner, key[n:], &p.user)
	}
	var v V
	if err == nil {
		err = decode(m.entries.format.value, value, &v)
	}
	if hash := m.ks.codec.Hash(&p.key); err == nil && m.ks.owns(hash) {
		m.ks.Set(p.key, hash)
		m.put(p.user, v)
	}
	return err
}

// at returns the current key's entry for k, and the entry's hash.
func (m *userMaps[K, UK, V]) at(k UK) (pair[K, UK], uint64) {
	m.user = k
	return pair[K, UK]{m.ks.key, k}, mix(m.ks.hash, m.inner.Hash(&m.user))
}

// mix makes one hash of a key's and a user key's.
func mix(key, user uint64) uint64 { return key + bits.RotateLeft64(user, 17) }

func (m *userMaps[K, UK, V]) find(k UK) *V {
	return m.entries.find(m.at(k))
}

func (m *userMaps[K, UK, V]) put(k UK, v V) {
	p, fresh := m.entries.Ref(m.at(k))
	*p = v
	if !fresh {
		return
	}
	in, _ := m.index.Ref(m.ks.key, m.ks.hash)
	if m.ownUser != nil {
		k = m.ownUser(k)
	}
	in.list = append(in.list, k)
	in.tidy = len(in.list) == 1
	in.len++
	if len(in.list) > 2*in.len+16 {
		m.tidy(in)
	}
}

func (m *userMaps[K, UK, V]) remove(k UK) {
	if !m.entries.remove(m.at(k)) {
		return
	}
	in, _ := m.index.Ref(m.ks.key, m.ks.hash)
	in.tidy = false
	if in.len--; in.len == 0 {
		m.index.remove(m.ks.key, m.ks.hash)
	}
}

func (m *userMaps[K, UK, V]) keys() []UK {
	in := m.index.find(m.ks.key, m.ks.hash)
	if in == nil {
		return nil
	}
	if !in.tidy {
		m.tidy(in)
	}
	return in.list
}

func (m *userMaps[K, UK, V]) len() int {
	if in := m.index.find(m.ks.key, m.ks.hash); in != nil {
		return in.len
	}
	return 0
}

// tidy makes a new list of the members that are there, in order. Whoever walks
// the old one isn't disturbed.
func (m *userMaps[K, UK, V]) tidy(in *members[UK]) {
	type encoded struct {
		user UK
		key  []byte
	}
	all := make([]encoded, 0, len(in.list))
	var buf []byte
	for _, k := range in.list {
		if m.find(k) != nil {
			start := len(buf)
			buf = m.inner.Append(buf, &k)
			all = append(all, encoded{k, buf[start:len(buf):len(buf)]})
		}
	}
	slices.SortFunc(all, func(a, b encoded) int { return bytes.Compare(a.key, b.key) })
	in.list = make([]UK, 0, in.len)
	for i, e := range all {
		if i == 0 || e.user != all[i-1].user {
			in.list = append(in.list, e.user)
		}
	}
	in.tidy = true
}
