package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirstream/weir/codec"
)

// sameHash is a codec of keys that all have one hash.
type sameHash struct{ codec.Key[string] }

func (sameHash) Hash(*string) uint64 { return 0xfeed }

// S61: keys of equal hash stay separate, also where they fill a part that no
// split can divide.
func TestKeysOfEqualHashStaySeparate(t *testing.T) {
	keys, err := codec.KeyFor[string]()
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{}
	open := func() (*op[string], Value[int64]) {
		o := &op[string]{ks: NewKeyspace[string](sameHash{keys}, 128, 0, 127, m), keys: sameHash{keys}}
		return o, NewValue[int64](o, "n")
	}
	name := func(i int64) string { return strings.Repeat("long ", int(i%4)) + fmt.Sprint(i) }
	const n = 1500
	o, v := open()
	for i := range int64(n) {
		o.at(name(i))
		v.Set(i)
	}
	for i := int64(0); i < n; i += 3 {
		o.at(name(i))
		v.Clear()
	}
	restored, w := open()
	if _, err := restored.ks.Restore(t.Context(), []Handle{snapshot(t, o, m)}, m, false); err != nil {
		t.Fatal(err)
	}
	for i := range int64(n) {
		o.at(name(i))
		restored.at(name(i))
		a, ok := v.Lookup()
		b, okb := w.Lookup()
		if ok != (i%3 != 0) || ok != okb || ok && a != i || a != b {
			t.Fatalf("key %d: %d, %v; restored %d, %v", i, a, ok, b, okb)
		}
	}
}

func newCounts() *Table[uint64, int64] {
	return newTable(format[uint64, int64]{}, func(k *uint64) uint64 { return spread(*k) }, false)
}

func spread(k uint64) uint64 { return k * 0x9e3779b97f4a7c15 }

// TestRemovalsLeaveNothingBehind: after any number of insertions and removals a
// part that is empty is as good as a new one.
func TestRemovalsLeaveNothingBehind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	table := newCounts()
	var in []uint64
	for i := range uint64(200_000) {
		if n := r.IntN(300); n < len(in) {
			if !table.remove(in[n], spread(in[n])) {
				t.Fatalf("key %d isn't there", in[n])
			}
			in = slices.Delete(in, n, n+1)
		} else {
			table.Ref(i, spread(i))
			in = append(in, i)
		}
	}
	for _, k := range in {
		table.remove(k, spread(k))
	}
	for _, p := range table.dir {
		if p.used != 0 || table.Len() != 0 || p.buckets != ([buckets]bucket[uint64, int64]{}) {
			t.Fatalf("used %d, buckets %v", p.used, p.buckets)
		}
	}
}

func TestAccessAllocatesNothing(t *testing.T) {
	o := newOp[string](t, nil)
	v := NewValue[int64](o, "v")
	m := NewMap[string, int64](o, "m")
	o.at("a")
	v.Set(1)
	m.Put("u", 1)
	if n := testing.AllocsPerRun(100, func() {
		v.Set(v.Get() + 1)
		m.Put("u", m.Get("u")+1)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// TestKeysOwnTheirMemory: a word cut out of a large text doesn't keep the text.
func TestKeysOwnTheirMemory(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	words, err := codec.KeyFor[string]()
	if err != nil {
		t.Fatal(err)
	}
	own := codec.Detach(words)
	word := own(text[10:20])
	if word != text[10:20] || unsafe.StringData(word) == unsafe.StringData(text[10:20]) {
		t.Error("the word is still a part of the text")
	}
	table := newTable(format[string, int]{own: own}, func(*string) uint64 { return 1 }, false)
	table.Ref(text[10:20], 1)
	if b, i := table.locate(text[10:20], 1); unsafe.StringData(b.keys[i]) == unsafe.StringData(text[10:20]) {
		t.Error("the table keeps a part of the text")
	}
}

// TestRefsAreThoseOfRef draws runs of keys, some of them new and some twice in a
// run, across every growth of the table.
func TestRefsAreThoseOfRef(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	table, want := newCounts(), map[uint64]int64{}
	var hashes [Together]uint64
	var to [Together]*int64
	for total := uint64(1); total < 200_000; total += total/50 + 1 {
		keys := make([]uint64, 1+r.IntN(Together))
		for i := range keys {
			if keys[i] = r.Uint64N(total); i > 0 && r.IntN(8) == 0 {
				keys[i] = keys[r.IntN(i)]
			}
			hashes[i] = spread(keys[i])
		}
		for range 40 {
			table.Ahead(hashes[:len(keys)])
			fresh := table.Refs(keys, hashes[:len(keys)], to[:])
			for i, k := range keys {
				n, known := want[k]
				if *to[i] != n || (fresh>>i&1 != 0) == known {
					t.Fatalf("key %d of %d: %d, fresh %b, want %d", k, table.Len(), *to[i], fresh>>i&1, n)
				}
				*to[i]++
				want[k]++
			}
			for i := range keys {
				keys[i] = (keys[i] + uint64(r.IntN(3))) % (2 * total)
				hashes[i] = spread(keys[i])
			}
		}
	}
	if table.Len() != len(want) {
		t.Errorf("%d entries, want %d", table.Len(), len(want))
	}
	for k, n := range want {
		if v := table.find(k, spread(k)); v == nil || *v != n {
			t.Fatalf("key %d: %v, want %d", k, v, n)
		}
	}
}
