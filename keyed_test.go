package weir

import (
	"log/slog"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/heap"
)

// A fold takes up to state.Together records at once. However many there are, whatever
// their keys are made of, and whether or not they have times, each counts at its own
// key, in order, and what it brings about has its time.
func TestFoldsTakeEachRecordAtItsKey(t *testing.T) {
	type account int
	type place struct{ Street, Door int16 }
	t.Run("uint64", foldsBy(func(v int64) uint64 { return uint64(v) << 40 }))
	t.Run("account", foldsBy(func(v int64) account { return account(-v) }))
	t.Run("int16", foldsBy(func(v int64) int16 { return int16(-v) }))
	t.Run("string", foldsBy(func(v int64) string { return "key"[:v%4] + string(rune(v)) }))
	t.Run("struct", foldsBy(func(v int64) place { return place{int16(v % 7), int16(v)} }))
}

func foldsBy[K comparable](of func(int64) K) func(*testing.T) {
	key := func(v int64) K { return of(v * v % 499) }
	change := func(sum, v int64) int64 { return 3*sum + v + 1 } // which isn't v, also if sum is 0
	keep := func(all map[K]int64, k K, v int64) int64 {
		if n, known := all[k]; known {
			return change(n, v)
		}
		return v
	}
	return func(t *testing.T) {
		for _, timed := range []bool{false, true} {
			foldIs(t, key, timed, func(in KeyedStream[K, int64]) Stream[Pair[K, int64]] { return Reduce(in, "reduce", change) }, keep)
			foldIs(t, key, timed, func(in KeyedStream[K, int64]) Stream[Pair[K, int64]] { return Fold(in, "fold", change) },
				func(all map[K]int64, k K, v int64) int64 { return change(all[k], v) })
			foldIs(t, key, timed, func(in KeyedStream[K, int64]) Stream[Pair[K, int64]] { return Count(in, "count") },
				func(all map[K]int64, k K, _ int64) int64 { return all[k] + 1 })
		}
	}
}

// foldIs gives slices of many lengths to the operator that fold makes, and checks
// that it emits, for each record, its key and what next makes of it.
func foldIs[K comparable](t *testing.T, key func(int64) K, timed bool,
	fold func(KeyedStream[K, int64]) Stream[Pair[K, int64]], next func(all map[K]int64, k K, v int64) int64) {
	t.Helper()
	var job Job
	in := KeyBy(FromSlice[int64](&job, "in", nil), key)
	made := job.nodes[fold(in).from[0].node]
	var got record.Batch[Pair[K, int64]]
	op, err := made.spec.Open(&operator.Context{
		Context: t.Context(), Chain: &operator.Chain{}, Degree: 1, MaxParallelism: 128, Backend: heap.Backend{}, Logger: slog.New(slog.DiscardHandler),
	}, []any{operator.Receiver[Pair[K, int64]](func(b *record.Batch[Pair[K, int64]]) {
		got.Values, got.Times = append(got.Values, b.Values...), append(got.Times, b.Times...)
	})})
	if err != nil {
		t.Fatal(err)
	}
	const n = state.Together
	all, v := map[K]int64{}, int64(0)
	for _, length := range []int{1, n - 1, n, n + 1, 2 * n, 5*n + 7} {
		b, keys := &record.Batch[int64]{Hashes: make([]uint64, length+3)}, make([]K, length+3)
		for i := range keys {
			if v++; timed {
				b.AddAt(v, 10*v)
			} else {
				b.Add(v)
			}
			keys[i] = key(v)
		}
		codec.HashAll(in.codec, keys, b.Hashes)
		got.Reset()
		op.Slice(b, 2, 2)
		op.Slice(b, 2, 2+length)
		if got.Len() != length || timed != (len(got.Times) == length) {
			t.Fatalf("%d records: %d come of them, with %d times", length, got.Len(), len(got.Times))
		}
		for i, p := range got.Values {
			v := b.Values[2+i]
			all[keys[2+i]] = next(all, keys[2+i], v)
			if want := (Pair[K, int64]{keys[2+i], all[keys[2+i]]}); p != want || timed && got.Times[i] != 10*v {
				t.Fatalf("record %d of %d: %v, want %v; times %v", i, length, p, want, got.Times)
			}
		}
	}
}
