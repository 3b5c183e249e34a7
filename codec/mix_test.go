package codec

import (
	"math/rand/v2"
	"testing"
)

// Whatever is done eight at a time is what is done one at a time, and a seed comes
// back, at every length and place.
func TestAllAreMixedAsOneIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		room := make([]uint64, 3*n+3)
		seeds, mixed, back := room[1:1+n:1+n], room[2+n:2+2*n:2+2*n], room[3+2*n:]
		for i := range seeds {
			seeds[i] = random.Uint64() >> random.UintN(64) << random.UintN(64)
		}
		mixAll(seeds, mixed)
		unmixAll(mixed, back)
		for i, seed := range seeds {
			if mixed[i] != splitMix(seed) {
				t.Fatalf("%d of %d: %#x is mixed to %#x, want %#x", i, n, seed, mixed[i], splitMix(seed))
			}
			if back[i] != seed || unmix(mixed[i]) != seed {
				t.Fatalf("%d of %d: %#x comes back as %#x, and alone as %#x", i, n, seed, back[i], unmix(mixed[i]))
			}
		}
		if room[0] != 0 || room[1+n] != 0 || room[2+2*n] != 0 {
			t.Fatalf("%d: something was written beside the words", n)
		}
	}
}

func TestUnhash(t *testing.T) {
	t.Run("int64", unhashes[int64](true, -1, 0, 1<<62))
	t.Run("uint", unhashes[uint](true, 0, 1, 1<<63))
	type account int
	t.Run("account", unhashes[account](true, -7, 7))
	t.Run("int32", unhashes[int32](false, 1, 2))
	t.Run("string", unhashes(false, "a", "b"))
	t.Run("array", unhashes(false, [2]int{1, 2}, [2]int{3, 4}))
}

// unhashes checks that keys come back from their hashes, or that Unhash says that
// they can't and leaves everything as it is.
func unhashes[K comparable](can bool, keys ...K) func(*testing.T) {
	return func(t *testing.T) {
		c, err := KeyFor[K]()
		if err != nil {
			t.Fatal(err)
		}
		hashes, back := make([]uint64, len(keys)), make([]K, len(keys))
		HashAll(c, keys, hashes)
		if can = can && wide; Unhash(c, hashes, back) != can {
			t.Fatalf("Unhash doesn't say %t", can)
		}
		for i, k := range keys {
			if hashes[i] != c.Hash(&k) {
				t.Errorf("key %v: hash %#x of many, %#x alone", k, hashes[i], c.Hash(&k))
			}
			if want := keys[i]; can && back[i] != want || !can && back[i] != *new(K) {
				t.Errorf("key %v comes back as %v", want, back[i])
			}
		}
	}
}

func BenchmarkHashAll(b *testing.B) {
	c, err := KeyFor[uint64]()
	if err != nil {
		b.Fatal(err)
	}
	keys, hashes := make([]uint64, 128), make([]uint64, 128)
	for b.Loop() {
		HashAll(c, keys, hashes)
		Unhash(c, hashes, keys)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), "ns/key")
}
