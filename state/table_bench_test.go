package state

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
)

// drawn is 1<<20 draws of n keys, with their hashes.
func drawn(n int) (keys, hashes []uint64) {
	c, _ := codec.KeyFor[uint64]()
	r := rand.New(rand.NewPCG(1, 2))
	for range 1 << 20 {
		k := r.Uint64N(uint64(n)) * 7919
		keys = append(keys, k)
		hashes = append(hashes, c.Hash(&k))
	}
	return keys, hashes
}

func filled(t testing.TB, n int) (*op[uint64], *Table[uint64, int64]) {
	o := newOp[uint64](t, &memory{})
	table := NewTable[int64](o, "n")
	for i := range uint64(n) {
		k := i * 7919
		v, _ := table.Ref(k, o.keys.Hash(&k))
		*v++
	}
	return o, table
}

// BenchmarkUpdate runs table, handle and Go map by turns, so that a noisy
// machine is unfair to all of them.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys, hashes := drawn(n)
			o, table := filled(b, n)
			value := Value[int64]{&current[uint64, int64]{o.ks, table}}
			m := make(map[uint64]int64, n)
			for i := range uint64(n) {
				m[i*7919]++
			}
			best := map[string]time.Duration{}
			turn := func(name string, do func()) {
				began := time.Now()
				do()
				if d := time.Since(began); best[name] == 0 || d < best[name] {
					best[name] = d
				}
			}
			for range max(b.N, 3) {
				turn("map", func() {
					for i, k := range keys {
						m[k] += int64(i)
					}
				})
				turn("table", func() {
					for i, k := range keys {
						v, _ := table.Ref(k, hashes[i])
						*v += int64(i)
					}
				})
				turn("refs", func() {
					var to [Together]*int64
					for i := 0; i < len(keys); i += Together {
						table.Ahead(hashes[min(i+Together, len(hashes)):])
						table.Refs(keys[i:i+Together], hashes[i:i+Together], to[:])
						for j, v := range to {
							*v += int64(i + j)
						}
					}
				})
				turn("value", func() {
					for i, k := range keys {
						o.ks.Set(k, hashes[i])
						value.Set(value.Get() + int64(i))
					}
				})
			}
			for name, d := range best {
				b.ReportMetric(float64(d.Nanoseconds())/float64(len(keys)), name+"-ns")
			}
			b.ReportMetric(float64(best["map"])/float64(best["table"]), "map/table")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{700_000, 1_000_000, 1_400_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				_, table := filled(b, n)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/entry")
				runtime.KeepAlive(table)
			}
		})
	}
}

func BenchmarkFreeze(b *testing.B) {
	o, _ := filled(b, 1_000_000)
	for b.Loop() {
		o.ks.Freeze().Drop()
	}
}

func BenchmarkCapture(b *testing.B) {
	o, _ := filled(b, 1_000_000)
	for b.Loop() {
		for f := o.ks.Freeze(); !f.Capture(4096); {
		}
	}
}
