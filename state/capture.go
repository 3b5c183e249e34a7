package state

import (
	"slices"

	"github.com/weirstream/weir/codec"
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
	own       func(K) K // what a table keeps of a key that it is given; nil: the key itself
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
	// sort makes what was captured ready to be read in order, and lets go of it.
	// It is called once, on a complete capture, from any goroutine.
	sort(groups keygroups) sorted
}

// keygroups is a range of key groups, both ends inclusive, of max in all.
type keygroups struct{ max, first, last int }

func (c *capture[K, V]) step(budget int) int {
	t := c.table
	for budget > 0 && c.next < 1<<32 {
		p := t.part(c.next)
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
	copied, encoded := c.copied, c.encoded
	c.copied, c.encoded, c.arena = nil, nil, nil
	if c.table.shared {
		return newRun(encoded, f, groups, func(dst []byte, v *[]byte) []byte { return append(dst, *v...) })
	}
	return newRun(copied, f, groups, f.value.Append)
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
