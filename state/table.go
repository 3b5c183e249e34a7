package state

import (
	"math/bits"
	"unsafe"
)

// A Table holds the values of one keyed state, typed, in memory.
//
// It is an extendible hash table. The directory is indexed by the high bits of
// the low half of a key's hash (key groups use up bits of the high half) and
// points to parts of 63 buckets. A part that is nearly full becomes two; the
// directory is all that ever doubles.
//
//	hash   .............tttttttbbbbbbbbbbbb dddddddddddd....................
//	       key group    tag    bucket       directory
//
// A key lies in the bucket that its hash names, or, where that is full, in one
// after it. A bucket has three slots and fills a cache line if key and value are
// of 8 bytes, so that most lookups read one line beside the directory. Its tags
// (0 where a slot is free, else a part of the hash) say which key to compare;
// the number of entries that passed it because it was full says where a lookup
// may stop.
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
	hash   func(*K) uint64 // what callers pass with a key
	// more holds what has no room in a part, where hashes don't tell keys apart.
	// It isn't in the part, so that one of plain keys and values has no pointers.
	more map[*part[K, V]]*part[K, V]
	// pending are the captures that haven't walked the whole table yet, oldest first.
	pending []*capture[K, V]
}

const (
	slots     = 3 // of a bucket
	buckets   = 63
	partSlots = slots * buckets
	// crowded is how many entries a part holds before it is split, and roomy how
	// many while the table is small: there, sparse parts are faster and memory
	// doesn't matter.
	crowded    = partSlots * 15 / 16
	roomy      = partSlots * 5 / 8
	smallTable = 64 // parts
	// Together is how many keys Refs takes at a time.
	Together = 64

	ones  = 0x010101
	highs = 0x808080
)

type part[K comparable, V any] struct {
	// walked is the newest epoch of which every entry here has been captured.
	walked  uint32
	used    uint16 // slots in use
	depth   uint8  // the number of hash bits that all its entries share
	chained bool   // there is more
	// With this a part of 8-byte keys and values is 4 kB, and its buckets are
	// cache lines.
	_       [56]byte
	buckets [buckets]bucket[K, V]
}

type bucket[K comparable, V any] struct {
	// tags is a byte for each slot, and above them the number of entries that
	// belong here and lie in a bucket after it.
	tags   uint32
	epochs [slots]uint32 // of each slot's last change or capture
	keys   [slots]K
	values [slots]V
}

const onePassed = 1 << (8 * slots)

func newTable[K comparable, V any](f format[K, V], hash func(*K) uint64, shared bool) *Table[K, V] {
	return &Table[K, V]{dir: []*part[K, V]{{}}, shift: 32, shared: shared, epoch: 1, format: f, hash: hash}
}

// Len is the number of entries.
func (t *Table[K, V]) Len() int { return t.count }

// Ref returns the value of a key to be changed in place, and whether it is
// fresh: zero, because the key wasn't there. The pointer is good until the next
// call on this table or the next freeze.
func (t *Table[K, V]) Ref(k K, hash uint64) (v *V, fresh bool) {
	v, fresh, _ = t.ref(k, hash)
	return v, fresh
}

// ref is Ref. It reports whether other entries were moved, too.
func (t *Table[K, V]) ref(k K, hash uint64) (v *V, fresh, moved bool) {
	p := t.part(hash)
	b := p.home(hash)
	i := first(b.tags, hash)
	if i == slots || b.keys[i] != k {
		if b, i = t.locate(k, hash); b == nil {
			v, moved = t.insert(k, hash)
			return v, true, moved
		}
	}
	if b.epochs[i] != t.epoch {
		t.touch(p, b, i)
	}
	return &b.values[i], false, false
}

// Ahead has the processor fetch what Refs is going to need for up to Together
// keys with these hashes. It pays where the table is larger than a cache and
// there is something else to do before that call, such as the Refs of the keys
// before these.
func (t *Table[K, V]) Ahead(hashes []uint64) {
	if len(t.dir) < smallTable {
		return
	}
	var at [Together]unsafe.Pointer
	for i, h := range hashes[:min(len(hashes), Together)] {
		at[i] = unsafe.Pointer(t.part(h).home(h))
	}
	prefetch(&at, min(len(hashes), Together))
}

// Refs is Ref for up to Together keys, which may be equal: to[i] becomes the
// value of keys[i], and bit i of fresh says whether it was added for it. The
// pointers are good until the next call or freeze.
func (t *Table[K, V]) Refs(keys []K, hashes []uint64, to []*V) (fresh uint64) {
	hashes, to = hashes[:len(keys)], to[:len(keys)]
	for missed := t.ready(keys, hashes, to); missed != 0; missed &= missed - 1 {
		n := bits.TrailingZeros64(missed)
		v, isNew, moved := t.ref(keys[n], hashes[n])
		if to[n] = v; isNew {
			fresh |= 1 << n
		}
		if moved {
			for m := range keys {
				if missed>>m&1 == 0 {
					to[m], _ = t.Ref(keys[m], hashes[m])
				}
			}
		}
	}
	return fresh
}

// ready is Refs for the keys for which there is nothing to do but to look into the
// bucket that their hash names: most of them. Bits of missed name the others. Where
// keys are compared without a call it calls nothing, so that all it uses stays in
// registers.
//
//go:noinline
func (t *Table[K, V]) ready(keys []K, hashes []uint64, to []*V) (missed uint64) {
	keys, to = keys[:len(hashes)], to[:len(hashes)]
	dir, shift, epoch := t.dir, t.shift&63, t.epoch
	for n, hash := range hashes {
		b := &dir[uint64(uint32(hash))>>shift].buckets[homeOf(hash)]
		if i := first(b.tags, hash); i < slots && b.keys[i] == keys[n] && b.epochs[i] == epoch {
			to[n] = &b.values[i]
		} else {
			missed |= 1 << n
		}
	}
	return missed
}

// find returns the value of a key to be read, or nil.
func (t *Table[K, V]) find(k K, hash uint64) *V {
	p := t.part(hash)
	b := p.home(hash)
	i := first(b.tags, hash)
	if i == slots || b.keys[i] != k {
		if b, i = t.locate(k, hash); b == nil {
			return nil
		}
	}
	if t.shared && b.epochs[i] != t.epoch && len(t.pending) > 0 {
		t.touch(p, b, i) // the reader may change what the value refers to
	}
	return &b.values[i]
}

// remove removes a key and reports whether it was there.
func (t *Table[K, V]) remove(k K, hash uint64) bool {
	b, i := t.locate(k, hash)
	if b == nil {
		return false
	}
	p := t.part(hash)
	t.touch(p, b, i)
	for ; !p.release(b, i, hash); p = t.more[p] {
	}
	t.count--
	return true
}

// touch comes before the first change of an entry in this epoch: what pending
// captures lack of it is captured now. P is the entry's part in the directory.
func (t *Table[K, V]) touch(p *part[K, V], b *bucket[K, V], i int) {
	t.save(p, b, i)
	b.epochs[i] = t.epoch
}

// save captures an entry for every pending capture that lacks it.
func (t *Table[K, V]) save(p *part[K, V], b *bucket[K, V], i int) {
	for _, c := range t.pending {
		if b.epochs[i] <= c.epoch && p.walked < c.epoch {
			c.add(&b.keys[i], &b.values[i])
		}
	}
}

// visit saves all entries of a part and returns how many it looked at.
func (t *Table[K, V]) visit(p *part[K, V]) (n int) {
	t.entries(p, func(b *bucket[K, V], i int) { t.save(p, b, i) })
	p.walked = t.epoch - 1
	for ; p != nil; p = t.next(p) {
		n += partSlots
	}
	return n
}

// entries shows all entries of a part and of those behind it.
func (t *Table[K, V]) entries(p *part[K, V], show func(b *bucket[K, V], i int)) {
	for ; p != nil; p = t.next(p) {
		for n := range p.buckets {
			b := &p.buckets[n]
			for m := b.tags & highs; m != 0; m &= m - 1 {
				show(b, bits.TrailingZeros32(m)/8)
			}
		}
	}
}

func (t *Table[K, V]) part(hash uint64) *part[K, V] {
	return t.dir[uint64(uint32(hash))>>(t.shift&63)]
}

// next returns the part behind one, nil if there is none.
func (t *Table[K, V]) next(p *part[K, V]) *part[K, V] {
	if !p.chained {
		return nil
	}
	return t.more[p]
}

// insert adds a key. It reports whether other entries were moved.
func (t *Table[K, V]) insert(k K, hash uint64) (v *V, moved bool) {
	p := t.part(hash)
	for p.full(len(t.dir) < smallTable) && t.split(p, hash) {
		p, moved = t.part(hash), true
	}
	t.count++
	if t.format.own != nil {
		k = t.format.own(k)
	}
	b, i := t.place(p, hash)
	b.keys[i], b.epochs[i] = k, t.epoch
	return &b.values[i], moved
}

func (p *part[K, V]) full(small bool) bool {
	return p.used >= crowded || small && p.used >= roomy
}

// split makes a part two. It reports false where that would let the directory
// grow out of proportion, because hashes don't tell the part's keys apart.
func (t *Table[K, V]) split(p *part[K, V], hash uint64) bool {
	if p.depth == 32-t.shift {
		if len(t.dir) > t.count/8 || t.shift == 0 {
			return false
		}
		t.double()
	}
	var halves [2]*part[K, V]
	for i := range halves {
		halves[i] = &part[K, V]{depth: p.depth + 1, walked: p.walked}
	}
	t.entries(p, func(b *bucket[K, V], i int) {
		h := t.hash(&b.keys[i])
		c, j := t.place(halves[uint32(h)>>(31-p.depth)&1], h)
		c.keys[j], c.values[j], c.epochs[j] = b.keys[i], b.values[i], b.epochs[i]
	})
	for q := p; q != nil; {
		next := t.next(q)
		delete(t.more, q)
		q = next
	}
	span := len(t.dir) >> p.depth
	first := int(uint64(uint32(hash))>>t.shift) &^ (span - 1)
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

// locate finds a key in its part or those behind it; without it b is nil.
func (t *Table[K, V]) locate(k K, hash uint64) (b *bucket[K, V], i int) {
	for p := t.part(hash); p != nil; p = t.next(p) {
		at := homeOf(hash)
		for range buckets {
			b := &p.buckets[at]
			for m := match(b.tags, hash); m != 0; m &= m - 1 {
				if i := bits.TrailingZeros32(m) / 8; b.keys[i] == k {
					return b, i
				}
			}
			if b.tags < onePassed {
				break
			}
			at = after(at)
		}
	}
	return nil, 0
}

// place takes a free slot for a hash, in the part or one behind it.
func (t *Table[K, V]) place(p *part[K, V], hash uint64) (b *bucket[K, V], i int) {
	for p.used == partSlots {
		if !p.chained {
			if t.more == nil {
				t.more = map[*part[K, V]]*part[K, V]{}
			}
			t.more[p] = &part[K, V]{}
			p.chained = true
		}
		p = t.more[p]
	}
	p.used++
	at := homeOf(hash)
	for b = &p.buckets[at]; b.tags&highs == highs; b = &p.buckets[at] {
		b.tags += onePassed
		at = after(at)
	}
	i = bits.TrailingZeros32(^b.tags&highs) / 8
	b.tags |= tagOf(hash) << (8 * i)
	return b, i
}

// release frees the slot of an entry with that hash, if the bucket is one of p.
func (p *part[K, V]) release(b *bucket[K, V], i int, hash uint64) bool {
	at, n := homeOf(hash), 0
	for ; &p.buckets[at] != b; at = after(at) {
		if n++; n == buckets {
			return false
		}
	}
	for at = homeOf(hash); n > 0; n-- {
		p.buckets[at].tags -= onePassed
		at = after(at)
	}
	b.tags &^= 0xff << (8 * i)
	b.keys[i], b.values[i], b.epochs[i] = *new(K), *new(V), 0
	p.used--
	return true
}

// home is the bucket that a hash names.
func (p *part[K, V]) home(hash uint64) *bucket[K, V] { return &p.buckets[homeOf(hash)] }

func homeOf(hash uint64) int { return int(hash >> 32 & 0xfff * buckets >> 12) }

// after is the bucket that follows one, in a circle.
func after(at int) int {
	if at++; at == buckets {
		return 0
	}
	return at
}

// match has the highest bit of each byte of a bucket's tags set whose slot may hold
// a key of that hash. A byte above one that does may be wrong.
func match(tags uint32, hash uint64) uint32 {
	m := tags ^ tagOf(hash)*ones
	return (m - ones) &^ m & highs
}

// first is the first slot that may hold a key of that hash, slots if none does.
func first(tags uint32, hash uint64) int {
	return bits.TrailingZeros32(match(tags, hash)|1<<31) / 8
}

// tagOf is what the tag of an entry is: never 0.
func tagOf(hash uint64) uint32 { return uint32(hash>>44)&0x7f | 0x80 }
