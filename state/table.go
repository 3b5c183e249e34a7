package state

import "math/bits"

// A Table holds the values of one keyed state, typed, in memory.
//
// It is an extendible hash table. The directory is indexed by the high bits of
// the low half of a key's hash (key groups use up bits of the high half) and
// points to parts of 256 slots, each with key, value and epoch side by side. A
// part that is full becomes two; the directory is all that ever doubles.
//
//	hash   ................................ dddddddddddd....ttttttttgggggsss
//	       key group                        directory       tag     home slot
//
// Inside a part a key lies in its home slot. If another key is at home there
// too, it lies in some slot of the home's group of eight, or, if that was full,
// of a group after it. A byte of control per slot (0 if it is free, else a tag
// from the hash) lets a lookup that misses the home slot look at eight slots at
// once, and a count per group of the entries that passed it because it was full
// says where the lookup may stop.
//
// A table belongs to one goroutine.
type Table[K comparable, V any] struct {
	dir   []*part[K, V]
	shift uint8 // a hash's place in dir is its low half >> shift
	// shared says that values hold references which the user can reach.
	shared bool
	epoch  uint32 // counts up with each freeze, from 1
	count  int
	format format[K, V]
	// pending are the captures that haven't walked the whole table yet, oldest first.
	pending []*capture[K, V]
	seen    uint64 // what Ahead has read, so that it does
}

const (
	partSlots = 256
	groups    = partSlots / 8
	// roomy is how many entries a part holds before it is split while the table is
	// small: there, sparse parts are faster and memory doesn't matter.
	roomy      = 160
	smallTable = 64 // parts

	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

type part[K comparable, V any] struct {
	passed [groups]uint8
	depth  uint8  // the number of hash bits that all its entries share
	used   uint16 // slots in use
	// walked is the newest epoch of which every entry here has been captured.
	walked uint32
	// next holds what has no room here, where hashes don't tell keys apart.
	next *part[K, V]
	// With this, and the word that Go puts before a large object that holds
	// pointers, slots begin with a cache line: none of 32 bytes lies in two.
	_       [8]byte
	slots   [partSlots]slot[K, V]
	control [groups]uint64
}

type slot[K comparable, V any] struct {
	hash  uint32
	epoch uint32 // of its last change or capture; 0 if the slot is free
	key   K
	value V
}

func newTable[K comparable, V any](f format[K, V], shared bool) *Table[K, V] {
	return &Table[K, V]{dir: []*part[K, V]{{}}, shift: 32, shared: shared, epoch: 1, format: f}
}

// Len is the number of entries.
func (t *Table[K, V]) Len() int { return t.count }

// Ref returns the value of a key to be changed in place, and whether it is
// fresh: zero, because the key wasn't there. The pointer is good until the next
// call on this table or the next freeze.
func (t *Table[K, V]) Ref(k K, hash uint64) (v *V, fresh bool) {
	h := uint32(hash)
	p := t.part(h)
	s := p.home(h)
	if s.hash != h || s.key != k || s.epoch == 0 {
		q, i := p.locate(k, h)
		if q == nil {
			return t.insert(k, h), true
		}
		s = &q.slots[i]
	}
	if s.epoch != t.epoch {
		t.touch(p, s)
	}
	return &s.value, false
}

// Ahead reads where some keys should be, given by their hashes, so that the
// processor fetches all of that at the same time. It pays where the next few
// dozen keys are known and the table is larger than a cache.
func (t *Table[K, V]) Ahead(hashes []uint64) {
	if len(t.dir) < smallTable {
		return
	}
	seen := uint64(0)
	for _, hash := range hashes {
		h := uint32(hash)
		p := t.part(h)
		seen += uint64(p.home(h).hash) + p.control[uint8(h)/8]
	}
	t.seen = seen
}

// find returns the value of a key to be read, or nil.
func (t *Table[K, V]) find(k K, hash uint64) *V {
	h := uint32(hash)
	p := t.part(h)
	s := p.home(h)
	if s.hash != h || s.key != k || s.epoch == 0 {
		q, i := p.locate(k, h)
		if q == nil {
			return nil
		}
		s = &q.slots[i]
	}
	if t.shared && s.epoch != t.epoch && len(t.pending) > 0 {
		t.touch(p, s) // the reader may change what the value refers to
	}
	return &s.value
}

// remove removes a key and reports whether it was there.
func (t *Table[K, V]) remove(k K, hash uint64) bool {
	h := uint32(hash)
	p := t.part(h)
	q, i := p.locate(k, h)
	if q == nil {
		return false
	}
	t.touch(p, &q.slots[i])
	q.free(h, i)
	t.count--
	return true
}

// touch comes before the first change of an entry in this epoch: what pending
// captures lack of it is captured now. P is the entry's part in the directory.
func (t *Table[K, V]) touch(p *part[K, V], s *slot[K, V]) {
	t.save(p, s)
	s.epoch = t.epoch
}

// save captures an entry for every pending capture that lacks it.
func (t *Table[K, V]) save(p *part[K, V], s *slot[K, V]) {
	for _, c := range t.pending {
		if s.epoch <= c.epoch && p.walked < c.epoch {
			c.add(&s.key, &s.value)
		}
	}
}

// visit saves all entries of a part and returns how many it looked at.
func (t *Table[K, V]) visit(p *part[K, V]) (n int) {
	for q := p; q != nil; q = q.next {
		for i := range q.slots {
			if s := &q.slots[i]; s.epoch != 0 {
				t.save(p, s)
			}
		}
		n += partSlots
	}
	p.walked = t.epoch - 1
	return n
}

func (t *Table[K, V]) part(h uint32) *part[K, V] {
	return t.dir[uint64(h)>>(t.shift&63)]
}

func (t *Table[K, V]) insert(k K, h uint32) *V {
	p := t.part(h)
	for t.crowded(p) && t.split(p, h) {
		p = t.part(h)
	}
	t.count++
	if t.format.own != nil {
		k = t.format.own(k)
	}
	s := p.place(h)
	*s = slot[K, V]{hash: h, epoch: t.epoch, key: k}
	return &s.value
}

func (t *Table[K, V]) crowded(p *part[K, V]) bool {
	return p.used == partSlots || p.used >= roomy && len(t.dir) < smallTable
}

// split makes a part two. It reports false where that would let the directory
// grow out of proportion, because hashes don't tell the part's keys apart.
func (t *Table[K, V]) split(p *part[K, V], h uint32) bool {
	if p.depth == 32-t.shift {
		if len(t.dir) > t.count/8 || t.shift == 8 {
			return false
		}
		t.double()
	}
	var halves [2]*part[K, V]
	for i := range halves {
		halves[i] = &part[K, V]{depth: p.depth + 1, walked: p.walked}
	}
	for q := p; q != nil; q = q.next {
		for i := range q.slots {
			if s := &q.slots[i]; s.epoch != 0 {
				*halves[s.hash>>(31-p.depth)&1].place(s.hash) = *s
			}
		}
	}
	span := len(t.dir) >> p.depth
	first := int(uint64(h)>>t.shift) &^ (span - 1)
	for i := range span {
		t.dir[first+i] = halves[2*i/span]
	}
	return true
}

func (t *Table[K, V]) double() {
	dir := make([]*part[K, V], 0, 2*len(t.dir))
	for _, p := range t.dir {
		dir = append(dir, p, p)
	}
	t.dir = dir
	t.shift--
}

// locate finds a key in a part or those behind it.
func (p *part[K, V]) locate(k K, h uint32) (*part[K, V], uint8) {
	tag := uint64(tagOf(h)) * ones
	for ; p != nil; p = p.next {
		g := uint8(h) / 8
		for range groups {
			m := p.control[g] ^ tag
			for m = (m - ones) &^ m & highs; m != 0; m &= m - 1 {
				i := g*8 + uint8(bits.TrailingZeros64(m)/8)
				if p.slots[i].key == k {
					return p, i
				}
			}
			if p.passed[g] == 0 {
				break
			}
			g = (g + 1) % groups
		}
	}
	return nil, 0
}

// place takes a free slot for a hash, in the part or one behind it.
func (p *part[K, V]) place(h uint32) *slot[K, V] {
	for p.used == partSlots {
		if p.next == nil {
			p.next = &part[K, V]{}
		}
		p = p.next
	}
	p.used++
	i := uint8(h)
	switch {
	case p.slots[i].epoch == 0:
	case p.foreign(i):
		p.move(i)
	default:
		i = p.spill(h)
	}
	p.control[i/8] |= control(h, i)
	return &p.slots[i]
}

// home is the slot where a key of that hash lies unless it was crowded out.
func (p *part[K, V]) home(h uint32) *slot[K, V] { return &p.slots[uint8(h)] }

// foreign says that the entry in slot i isn't at home there.
func (p *part[K, V]) foreign(i uint8) bool { return uint8(p.slots[i].hash) != i }

// move makes room in slot i.
func (p *part[K, V]) move(i uint8) {
	h := p.slots[i].hash
	j := p.spill(h)
	p.control[j/8] |= control(h, j)
	p.slots[j] = p.slots[i]
	p.vacate(h, i)
}

// spill finds a free slot for a hash that is crowded out of its home.
func (p *part[K, V]) spill(h uint32) uint8 {
	g := uint8(h) / 8
	for p.control[g]&highs == highs {
		p.passed[g]++
		g = (g + 1) % groups
	}
	return g*8 + uint8(bits.TrailingZeros64(^p.control[g]&highs)/8)
}

// free gives back the slot i of an entry with hash h.
func (p *part[K, V]) free(h uint32, i uint8) {
	p.vacate(h, i)
	p.used--
}

func (p *part[K, V]) vacate(h uint32, i uint8) {
	for g := uint8(h) / 8; g != i/8; g = (g + 1) % groups {
		p.passed[g]--
	}
	p.control[i/8] &^= 0xff << (i % 8 * 8)
	p.slots[i] = slot[K, V]{}
}

// control is the control byte of an entry in slot i, at its place in the word.
func control(h uint32, i uint8) uint64 { return uint64(tagOf(h)) << (i % 8 * 8) }

// tagOf is what the control byte of an entry holds: never 0.
func tagOf(h uint32) uint8 { return uint8(h>>8) | 0x80 }
