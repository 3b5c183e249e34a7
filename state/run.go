package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/weirstream/weir/keygroup"
)

// sorted yields encoded entries in order of their keys, one key group at a time.
// The slices are good until yield returns.
type sorted interface {
	len() int
	each(group int, yield func(key, value []byte) bool) bool
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
	size  uint8 // of the key; 9 if it is longer than start
}

func newRun[K, V, T any](in chunks[entry[K, V]], f *format[K, T], groups keygroups, value func([]byte, *V) []byte) *run[K, V] {
	r := &run[K, V]{groups: groups, prefix: f.prefix, appendKey: f.appendKey, value: value}
	n := 0
	for _, chunk := range in {
		n += len(chunk)
	}
	r.entries = make([]entry[K, V], n)
	r.ends = make([]int, groups.last-groups.first+1)
	of := make([]uint16, 0, n) // the group of each entry
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
		if p.size < 9 {
			r.key = binary.BigEndian.AppendUint64(r.key[:fixed], p.start)[:fixed+int(p.size)]
		} else {
			r.key = r.appendKey(r.key[:fixed], &e.key)
		}
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
		copy(start[:], r.key)
		size := uint8(min(len(r.key), 9))
		long = long || size == 9
		r.order = append(r.order, rank{binary.BigEndian.Uint64(start[:]), uint32(i), size})
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
	var differ uint64 // the bits that do
	for _, p := range ranks {
		differ |= p.start ^ ranks[0].start
	}
	for shift := 0; shift < 64; shift += 8 {
		if uint8(differ>>shift) == 0 {
			continue
		}
		var ends [256]int
		for _, p := range ranks {
			ends[uint8(p.start>>shift)]++
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
