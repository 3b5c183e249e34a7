package datagen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// situation stands in for the engine: it is a Reading and an Enumeration.
type situation struct {
	parallelism int
	splits      []Split
}

func (s *situation) Subtask() int           { return 0 }
func (s *situation) Parallelism() int       { return max(s.parallelism, 1) }
func (s *situation) Log() *slog.Logger      { return slog.New(slog.DiscardHandler) }
func (s *situation) Position() []byte       { return nil }
func (s *situation) Assign(splits ...Split) { s.splits = append(s.splits, splits...) }
func (s *situation) Save([]byte)            {}
func (s *situation) SetBacklog(bool)        {}
func (s *situation) Done()                  {}

func enumerate[T any](t testing.TB, s Source[T]) []Split {
	t.Helper()
	var e situation
	if err := s.Enumerate(context.Background(), &e); err != nil {
		t.Fatal(err)
	}
	return e.splits
}

func open[T any](t testing.TB, s Source[T]) connector.Reader[T, Split] {
	t.Helper()
	r, err := s.Open(context.Background(), &situation{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sample is a record that shows what it was made from.
type sample struct {
	N    int64
	Bits [3]uint64
}

func makeSample(n int64, r *rand.Rand) sample {
	s := sample{N: n}
	for i := range r.IntN(len(s.Bits) + 1) { // some draw more than others
		s.Bits[i] = r.Uint64()
	}
	return s
}

// Splits are read in pieces, by readers that take turns and are replaced at any
// position: what comes is the records 0 to count, each once and each the same.
func TestRecordIsTheSameWhoeverMakesIt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, count := range []int64{1, 2, 3, 7, 100, 1024, 5000, 1_050_000} {
		src := Source[sample]{Make: makeSample, Count: count, Seed: seed}
		splits := enumerate(t, src)
		if want := min(count, ranges); int64(len(splits)) > want {
			t.Errorf("%d splits of %d records", len(splits), count)
		}
		seen := make([]bool, count)
		readers := []connector.Reader[sample, Split]{open(t, src), open(t, src), open(t, src)}
		alone := open(t, src).(*reader[sample])
		for len(splits) > 0 {
			i, r := random.IntN(len(splits)), random.IntN(len(readers))
			if random.IntN(10) == 0 {
				readers[r] = open(t, src)
			}
			b := record.Batch[sample]{Values: make([]sample, 0, 1+random.IntN(1024))}
			err := readers[r].Read(context.Background(), &splits[i], &b)
			for _, v := range b.Values {
				alone.bits.state = mix(alone.start + uint64(v.N)*gamma)
				if want := makeSample(v.N, alone.random); seen[v.N] || v != want {
					t.Fatalf("got %+v, want %+v; seen: %v", v, want, seen[v.N])
				}
				seen[v.N] = true
			}
			switch {
			case err == io.EOF:
				splits = slices.Delete(splits, i, i+1)
			case err != nil || b.Len() == 0:
				t.Fatal(b.Len(), err)
			}
		}
		if i := slices.Index(seen, false); i >= 0 {
			t.Errorf("count %d: record %d is missing", count, i)
		}
	}
}

func TestEndlessSourceLeavesNothingOut(t *testing.T) {
	src := Source[int64]{Make: func(n int64, _ *rand.Rand) int64 { return n }}
	splits, r, seen := enumerate(t, src), open(t, src), map[int64]bool{}
	if src.Bounded() || len(splits) != strides {
		t.Fatalf("%d splits", len(splits))
	}
	const each = 100
	for range 10 {
		for i := range splits {
			b := record.Batch[int64]{Values: make([]int64, 0, each/10)}
			if err := r.Read(context.Background(), &splits[i], &b); err != nil || b.Len() != each/10 {
				t.Fatal(b.Len(), err)
			}
			for _, n := range b.Values {
				if seen[n] {
					t.Fatalf("%d comes twice", n)
				}
				seen[n] = true
			}
		}
	}
	for n := range int64(each * strides) {
		if !seen[n] {
			t.Fatalf("%d is missing", n)
		}
	}
}

// What is drawn for a record has nothing to do with what is drawn for its
// neighbours, nor with the same record of another seed.
func TestDrawsAreEvenAndIndependent(t *testing.T) {
	coin := func(_ int64, r *rand.Rand) bool { return r.IntN(2) == 1 }
	draw := func(seed uint64) (tosses []bool) {
		src := Source[bool]{Make: coin, Count: 100_000, Seed: seed}
		r := open(t, src)
		for _, at := range enumerate(t, src) {
			b := record.Batch[bool]{Values: make([]bool, 0, 1000)}
			if err := r.Read(context.Background(), &at, &b); err != io.EOF {
				t.Fatal(err)
			}
			tosses = append(tosses, b.Values...)
		}
		return tosses
	}
	even := func(what string, n, of int) {
		if mean, most := of/2, 5*158; n < mean-most || n > mean+most { // 158: a deviation of 100,000 tosses
			t.Errorf("%s: %d of %d", what, n, of)
		}
	}
	a, b := draw(0), draw(1)
	heads, repeats, equal := 0, 0, 0
	for i := range a {
		if a[i] {
			heads++
		}
		if i > 0 && a[i] == a[i-1] {
			repeats++
		}
		if a[i] == b[i] {
			equal++
		}
	}
	even("heads", heads, len(a))
	even("like the one before", repeats, len(a))
	even("like that of another seed", equal, len(a))
}

// The sequence of a seed is a promise: a job that is resumed by a later version
// goes on with the same records.
func TestSequenceIsFixedForEver(t *testing.T) {
	src := Source[uint64]{Make: func(_ int64, r *rand.Rand) uint64 { return r.Uint64() }, Count: 3, Seed: 42}
	var got []uint64
	for _, at := range enumerate(t, src) {
		b := record.Batch[uint64]{Values: make([]uint64, 0, 3)}
		if err := open(t, src).Read(context.Background(), &at, &b); err != io.EOF {
			t.Fatal(err)
		}
		got = append(got, b.Values...)
	}
	if want := []uint64{14241928491073317330, 7138415436909018950, 622664797948044658}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTimesAreThoseOfTheRecords(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	src := Source[int64]{
		Make:  func(n int64, _ *rand.Rand) int64 { return -n },
		Time:  func(n, v int64) time.Time { return start.Add(time.Duration(n-v) * time.Second) },
		Count: 9,
	}
	for _, at := range enumerate(t, src) {
		b := record.Batch[int64]{Values: make([]int64, 0, 9)}
		if err := open(t, src).Read(context.Background(), &at, &b); err != io.EOF {
			t.Fatal(err)
		}
		for i, v := range b.Values {
			if want := start.Add(time.Duration(-2*v) * time.Second).UnixNano(); b.Times[i] != want {
				t.Errorf("%d has time %d, want %d", v, b.Times[i], want)
			}
		}
	}
}

// Half of the readers keep to half of the rate; what they are behind of the
// clock is at most a step, and endless splits go on side by side.
func TestRateIsKept(t *testing.T) {
	for _, rate := range []float64{0.5, 60, 10_000, 1_000_000} {
		for _, count := range []int64{0, int64(max(2, 4*rate))} {
			t.Run(fmt.Sprint(rate, " of ", count), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := Source[int64]{Make: func(n int64, _ *rand.Rand) int64 { return n }, Count: count, Rate: rate}
					r, err := src.Open(t.Context(), &situation{parallelism: 2})
					if err != nil {
						t.Fatal(err)
					}
					splits, made, most, began := enumerate(t, src), 0, int64(0), time.Now()
					for i := 0; time.Since(began) < 8*time.Second && len(splits) > 0; i++ {
						b := record.Batch[int64]{Values: make([]int64, 0, 1024)}
						switch err := r.Read(t.Context(), &splits[0], &b); {
						case err == io.EOF:
							splits = splits[1:]
						case err != nil:
							t.Fatal(err)
						case count == 0:
							splits = append(splits[1:], splits[0])
						}
						made += b.Len()
						most = max(most, b.Values[b.Len()-1])
						due, step := time.Since(began).Seconds()*rate/2, 2+rate/200+rate/100/strides
						if ahead := float64(made) - due; ahead > step || ahead < -step {
							t.Fatalf("%d records after %v, not %v", made, time.Since(began), due)
						}
						if ahead := most - int64(made); count == 0 && ahead > int64(strides+rate/100) {
							t.Fatalf("record %d has come as number %d", most, made)
						}
					}
				})
			})
		}
	}
}

func TestSlowReaderStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := Source[int64]{Make: func(n int64, _ *rand.Rand) int64 { return n }, Rate: 0.001}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		r, at, b := open(t, src), enumerate(t, src)[0], record.Batch[int64]{Values: make([]int64, 0, 9)}
		err := r.Read(ctx, &at, &b)
		if err == nil {
			err = r.Read(ctx, &at, &b)
		}
		if !errors.Is(err, context.DeadlineExceeded) || b.Len() != 1 {
			t.Errorf("got %d records, %v", b.Len(), err)
		}
	})
}

func TestSourceThatCanNotWorkSaysSo(t *testing.T) {
	made := func(n int64, _ *rand.Rand) int64 { return n }
	for want, s := range map[string]Source[int64]{
		"no Make":                {},
		"count -1":               {Make: made, Count: -1},
		"rate -1 can't be negat": {Make: made, Rate: -1},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	type small struct {
		Key   int64
		Value uint32
	}
	bench(b, "number", func(n int64, _ *rand.Rand) int64 { return n })
	bench(b, "random", func(n int64, r *rand.Rand) small { return small{n, r.Uint32()} })
}

func bench[T any](b *testing.B, name string, f func(int64, *rand.Rand) T) {
	b.Run(name, func(b *testing.B) {
		src := Source[T]{Make: f}
		r, splits := open(b, src), enumerate(b, src)
		batch := record.Batch[T]{Values: make([]T, 0, 1024)}
		b.ReportAllocs()
		n := 0
		for i := 0; b.Loop(); i++ {
			batch.Reset()
			if err := r.Read(context.Background(), &splits[i%strides], &batch); err != nil {
				b.Fatal(err)
			}
			n += batch.Len()
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
	})
}
