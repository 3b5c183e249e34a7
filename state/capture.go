package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/keygroup"
)

// A capture is a table's content as it was when its epoch ended, collected
// afterwards: the owner of the table walks it from end to end, and whatever is
// about to be changed before the walk has come there is collected first.
//
// The walk follows the order of the hashes, part by part. Parts that split keep
// that order, and the halves know what the whole had been walked for, so no
// entry is lost or comes twice.
type capture[K comparable, V any] struct {
	table *Table[K, V]
	epoch uint32
	next  uint64 // all parts below this hash have been walked
	// Values that the user can't reach are copied as they are and encoded when
	// they are written; others are encoded at once.
	copied  chunks[entry[K, V]]
	encoded chunks[entry[K, []byte]]
	arena   []byte
}

type entry[K, V any] struct {
	key   K
	value V
}

// A format is how a table's entries look in a snapshot.
type format[K, V any] struct {
	prefix    []byte // what stands between key group and key
	hash      func(*K) uint64
	appendKey func([]byte, *K) []byte
	value     codec.Codec[V]
}

// freeze ends the table's epoch.
func (t *Table[K, V]) freeze() capturing {
	c := &capture[K, V]{table: t, epoch: t.epoch}
	t.pending = append(t.pending, c)
	t.epoch++
	return c
}

// capturing is a capture whose types are forgotten.
type capturing interface {
	// step walks on, by about budget slots, and returns what is left of it; if
	// that is positive the capture is complete. Called on the table's goroutine,
	// as is drop.
	step(budget int) int
	// drop makes the table forget the capture.
	drop()
	// sort makes what was captured ready to be read in order. It is called on a
	// complete capture, from any goroutine.
	sort(groups keygroups) sorted
}

// sorted yields encoded entries in order of their keys, one key group at a time.
// The slices are good until yield returns.
type sorted interface {
	len() int
	each(group int, yield func(key, value []byte) bool) bool
}

// keygroups is a range of key groups, both ends inclusive, of max in all.
type keygroups struct{ max, first, last int }

func (c *capture[K, V]) step(budget int) int {
	t := c.table
	for budget > 0 && c.next < 1<<32 {
		p := t.part(uint32(c.next))
		budget--
		if p.walked < c.epoch {
			budget -= t.visit(p)
		}
		c.next += 1 << (32 - p.depth)
	}
	if c.next < 1<<32 {
		return 0
	}
	c.drop()
	return max(budget, 1)
}

func (c *capture[K, V]) drop() {
	c.table.pending = slices.DeleteFunc(c.table.pending, func(o *capture[K, V]) bool { return o == c })
}

func (c *capture[K, V]) add(k *K, v *V) {
	if !c.table.shared {
		c.copied.add(entry[K, V]{*k, *v})
		return
	}
	if len(c.arena) > arenaSize*3/4 || c.arena == nil {
		c.arena = make([]byte, 0, arenaSize)
	}
	start := len(c.arena)
	c.arena = c.table.format.value.Append(c.arena, v)
	c.encoded.add(entry[K, []byte]{*k, c.arena[start:len(c.arena):len(c.arena)]})
}

const arenaSize = 64 << 10

func (c *capture[K, V]) sort(groups keygroups) sorted {
	f := &c.table.format
	if c.table.shared {
		return newRun(c.encoded, f, groups, func(dst []byte, v *[]byte) []byte { return append(dst, *v...) })
	}
	return newRun(c.copied, f, groups, f.value.Append)
}

// chunks is a list that never moves what it holds.
type chunks[E any] [][]E

func (c *chunks[E]) add(e E) {
	last := len(*c) - 1
	if last < 0 || len((*c)[last]) == cap((*c)[last]) {
		*c = append(*c, make([]E, 0, 64<<min(len(*c), 6)))
		last++
	}
	(*c)[last] = append((*c)[last], e)
}

// A run is entries laid out by key group; within a group they are put in order
// when it is their turn, while they are in the processor's cache.
type run[K, V any] struct {
	entries   []entry[K, V]
	ends      []int // of each group's entries, from groups.first on
	groups    keygroups
	prefix    []byte
	appendKey func([]byte, *K) []byte
	value     func([]byte, *V) []byte
	order     []rank
	spare     []rank
	key, data []byte
}

// A rank is where an entry is in its group, and the first bytes of its key.
type rank struct {
	start uint64
	index uint32
}

func newRun[K, V, T any](in chunks[entry[K, V]], f *format[K, T], groups keygroups, value func([]byte, *V) []byte) *run[K, V] {
	r := &run[K, V]{groups: groups, prefix: f.prefix, appendKey: f.appendKey, value: value}
	var of []uint16 // the group of each entry
	r.ends = make([]int, groups.last-groups.first+1)
	for _, chunk := range in {
		for i := range chunk {
			g := keygroup.Of(f.hash(&chunk[i].key), groups.max) - groups.first
			of = append(of, uint16(g))
			r.ends[g]++
		}
	}
	// The counts become the starts, and these, while filling, the ends.
	sum := 0
	for g, n := range r.ends {
		r.ends[g] = sum
		sum += n
	}
	r.entries = make([]entry[K, V], sum)
	for _, chunk := range in {
		for i := range chunk {
			r.entries[r.ends[of[i]]] = chunk[i]
			r.ends[of[i]]++
		}
		of = of[len(chunk):]
	}
	return r
}

func (r *run[K, V]) len() int { return len(r.entries) }

func (r *run[K, V]) each(group int, yield func(key, value []byte) bool) bool {
	g, start := group-r.groups.first, 0
	if g > 0 {
		start = r.ends[g-1]
	}
	entries := r.entries[start:r.ends[g]]
	r.arrange(entries)
	r.key = append(binary.BigEndian.AppendUint16(r.key[:0], uint16(group)), r.prefix...)
	fixed := len(r.key)
	for _, p := range r.order {
		e := &entries[p.index]
		r.key = r.appendKey(r.key[:fixed], &e.key)
		r.data = r.value(r.data[:0], &e.value)
		if !yield(r.key, r.data) {
			return false
		}
	}
	return true
}

// arrange sets r.order to the order of the entries' encoded keys.
func (r *run[K, V]) arrange(entries []entry[K, V]) {
	r.order = r.order[:0]
	long := false
	for i := range entries {
		r.key = r.appendKey(r.key[:0], &entries[i].key)
		var start [8]byte
		n := copy(start[:], r.key)
		long = long || n < len(r.key)
		r.order = append(r.order, rank{binary.BigEndian.Uint64(start[:]), uint32(i)})
	}
	r.order, r.spare = radix(r.order, r.spare)
	if !long {
		return
	}
	var a, b []byte
	full := func(p, q rank) int {
		a = r.appendKey(a[:0], &entries[p.index].key)
		b = r.appendKey(b[:0], &entries[q.index].key)
		return bytes.Compare(a, b)
	}
	for rest := r.order; len(rest) > 0; {
		same := 1
		for same < len(rest) && rest[same].start == rest[0].start {
			same++
		}
		slices.SortFunc(rest[:same], full)
		rest = rest[same:]
	}
}

// radix sorts ranks by their start. It returns the sorted ones and the memory
// that they don't use.
func radix(ranks, spare []rank) (sorted, unused []rank) {
	if len(ranks) < 128 {
		slices.SortFunc(ranks, func(p, q rank) int { return cmp.Compare(p.start, q.start) })
		return ranks, spare
	}
	spare = slices.Grow(spare[:0], len(ranks))[:len(ranks)]
	for shift := 0; shift < 64; shift += 8 {
		var ends [256]int
		for _, p := range ranks {
			ends[uint8(p.start>>shift)]++
		}
		if ends[uint8(ranks[0].start>>shift)] == len(ranks) {
			continue
		}
		sum := 0
		for b, n := range ends {
			ends[b] = sum
			sum += n
		}
		for _, p := range ranks {
			b := uint8(p.start >> shift)
			spare[ends[b]] = p
			ends[b]++
		}
		ranks, spare = spare, ranks
	}
	return ranks, spare
}
