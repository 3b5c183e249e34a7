package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/keygroup"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

func codecOf[T any]() codec.Codec[T] {
	c, err := codec.For[T]()
	if err != nil {
		panic(err)
	}
	return c
}

func newContext() *Context {
	return &Context{Context: context.Background(), Chain: &Chain{}, Name: "op", Degree: 1, MaxParallelism: 128,
		Executor: &byHand{}, Logger: slog.New(slog.DiscardHandler), Origin: snapshot.Origin{}}
}

// byHand is an executor whose only loop is stepped by the test.
type byHand struct {
	executor.Real
	step func() executor.Progress
}

func (b *byHand) Loop(_ string, step func() executor.Progress) (wake func()) {
	b.step = step
	return func() {}
}

// collect is a receiver that keeps what it gets.
func collect[T any](into *[]T) any {
	return Receiver[T](func(b *record.Batch[T]) { *into = append(*into, b.Values...) })
}

func start[I, O any](t *testing.T, c *Context, tr *Transform[I, O], out *Output[O]) Operator {
	t.Helper()
	op, err := tr.Start(c, out)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func batchOf(from, to int) *record.Batch[int] {
	b := &record.Batch[int]{}
	for i := from; i < to; i++ {
		b.Add(i)
	}
	return b
}

func TestBodiesEmitWhatTheirFunctionsSay(t *testing.T) {
	even := func(v int) bool { return v%2 == 0 }
	twice := func(yield func(int) bool) { _ = yield(1) && yield(2) }
	for name, make := range map[string]func(*Output[int]) Body[int, int]{
		"map":     func(*Output[int]) Body[int, int] { return Map(func(v int) int { return v + 1 }) },
		"try map": func(*Output[int]) Body[int, int] { return TryMap(func(v int) (int, error) { return v + 1, nil }) },
		"filter":  func(*Output[int]) Body[int, int] { return Filter(even) },
		"each": func(o *Output[int]) Body[int, int] {
			return Each(func(v int, emit func(int)) error { emit(v); emit(v); return nil }, o)
		},
		"flat map": func(o *Output[int]) Body[int, int] { return FlatMap(func(int) iter.Seq[int] { return twice }, o) },
	} {
		for _, timed := range []bool{false, true} {
			c := newContext()
			var got []int
			var times []int64
			out := NewOutput[int](c, []any{Receiver[int](func(b *record.Batch[int]) {
				got, times = append(got, b.Values...), append(times, b.Times...)
			})})
			op := start(t, c, &Transform[int, int]{Body: make(out)}, out)
			in := batchOf(0, 3000)
			var want []int
			var wantTimes []int64
			for i, v := range in.Values {
				emitted := map[string][]int{"map": {v + 1}, "try map": {v + 1}, "each": {v, v}, "flat map": {1, 2}}[name]
				if name == "filter" && even(v) {
					emitted = []int{v}
				}
				if want = append(want, emitted...); timed {
					in.Times = append(in.Times, int64(i))
					wantTimes = append(wantTimes, slices.Repeat([]int64{int64(i)}, len(emitted))...)
				}
			}
			for from := 0; from < 3000; from += 700 {
				op.Slice(in, from, min(from+700, 3000))
			}
			if !slices.Equal(got, want) || !slices.Equal(times, wantTimes) {
				t.Errorf("%s, timed %v: %d records, %d times, want %d, %d", name, timed, len(got), len(times), len(want), len(wantTimes))
			}
		}
	}
}

// What a filter leaves out isn't held by the memory of its output.
func TestFilterForgetsWhatItLeavesOut(t *testing.T) {
	c := newContext()
	out := NewOutput[*int](c, nil)
	op := start(t, c, &Transform[*int, *int]{Body: Filter(func(v *int) bool { return *v%3 == 0 })}, out)
	for n := range 7 {
		in := &record.Batch[*int]{}
		for i := range n {
			in.Add(&i)
		}
		op.Slice(in, 0, n)
		for _, v := range out.batch.Values[:cap(out.batch.Values)] {
			if v != nil {
				t.Errorf("of %d records it holds %d", n, *v)
			}
		}
	}
}

func TestErrorStopsWhatComesAfterIt(t *testing.T) {
	c := newContext()
	var got []int
	out := NewOutput[int](c, []any{collect(&got)})
	op := start(t, c, &Transform[int, int]{Body: TryMap(func(v int) (int, error) {
		if v == 5 {
			return 0, errors.New("five")
		}
		return v, nil
	})}, out)
	op.Slice(batchOf(0, 10), 0, 10)
	if err := c.Chain.Err(); err == nil || err.Error() != `operator "op": five` || len(got) != 0 {
		t.Errorf("%v, emitted %v", err, got)
	}
}

// Emitting is for records, timers and the end of input; S08: never between a
// barrier and the snapshot.
func TestEmitOutsideOfFunctionsIsRefused(t *testing.T) {
	emitted := func(out *Output[int]) (said string) {
		defer func() { said = fmt.Sprint(recover()) }()
		out.Emit(1)
		return ""
	}
	c := newContext()
	var got []int
	out := NewOutput[int](c, []any{collect(&got)})
	for _, when := range []string{"in the constructor", "after a record", "after the end"} {
		if said := emitted(out); !strings.Contains(said, "emit outside of a handler's functions") {
			t.Errorf("%s: %s", when, said)
		}
		switch op := start(t, c, &Transform[int, int]{Body: Map(func(v int) int { return v }), Last: func() error { out.Emit(7); return nil }}, out); when {
		case "in the constructor":
			op.Slice(batchOf(0, 1), 0, 1)
		default:
			op.End()
		}
	}
	if !slices.Equal(got, []int{0, 7, 7}) {
		t.Errorf("got %v", got)
	}
}

// S08: what an operator holds back is in its snapshot, and comes out once.
func TestHeldBackRecordsAreInTheSnapshot(t *testing.T) {
	var got []int
	gather := func(c *Context) Operator {
		out, tr := NewOutput[int](c, []any{collect(&got)}), &Transform[int, int]{}
		held := state.NewSplit[int](c, "held")
		release := func() error {
			for v := range held.All() {
				out.Emit(v)
			}
			held.Clear()
			return nil
		}
		tr.Body = func(in *record.Batch[int], _ *Output[int]) error {
			for _, v := range in.Values {
				if held.Append(v); held.Len() == 10 {
					release()
				}
			}
			return nil
		}
		tr.Last = release
		return start(t, c, tr, out)
	}
	op := gather(newContext())
	op.Slice(batchOf(0, 17), 0, 17)
	saved := write(t, op)
	op.Slice(batchOf(17, 40), 0, 23) // lost in the crash
	got = got[:10]
	c := newContext()
	c.Restored = &saved
	op = gather(c)
	op.Slice(batchOf(17, 25), 0, 8)
	op.End()
	saved = write(t, op)
	c = newContext()
	c.Restored = &saved
	op = gather(c)
	op.End() // its End has run: not again
	if !slices.Equal(got, batchOf(0, 25).Values) {
		t.Errorf("got %v", got)
	}
}

// What was saved of a list is there in the constructor, so that it can pick what is
// its own of a union list before the next barrier.
func TestListsAreRestoredBeforeTheConstructorReturns(t *testing.T) {
	c := newContext()
	shared, rules := state.NewUnion[int](c, "shared"), state.NewBroadcast[string, int](c, "rules")
	shared.Append(1, 2, 3)
	rules.Put("a", 1)
	saved := write(t, start(t, c, &Transform[int, int]{Body: Map(same)}, NewOutput[int](c, nil)))
	// S65: the same of a subtask that gets no share.
	for _, restored := range []snapshot.State{saved, {}} {
		c = newContext()
		c.Restored = &restored
		shared, rules = state.NewUnion[int](c, "shared"), state.NewBroadcast[string, int](c, "rules")
		if n := len(restored.Lists); shared.Len() != n/2*3 || rules.Get("a") != n/2 {
			t.Errorf("of %d lists there are %d items and %d rules", n, shared.Len(), rules.Len())
		}
		shared.Clear()
		if again := write(t, start(t, c, &Transform[int, int]{Body: Map(same)}, NewOutput[int](c, nil))); len(again.Lists[0].Lengths) > 0 {
			t.Errorf("saved again with %v", again.Lists)
		}
	}
}

func TestListsThatNobodyDeclaresAreDroppedIfAllowed(t *testing.T) {
	c := newContext()
	state.NewUnion[int](c, "gone").Append(1)
	saved := write(t, start(t, c, &Transform[int, int]{Body: Map(same)}, NewOutput[int](c, nil)))
	var log strings.Builder
	c = newContext()
	c.Restored, c.DropUnclaimed, c.Logger = &saved, true, slog.New(slog.NewTextHandler(&log, nil))
	start(t, c, &Transform[int, int]{Body: Map(same)}, NewOutput[int](c, nil))
	if !strings.Contains(log.String(), "state dropped") || !strings.Contains(log.String(), "state=gone") {
		t.Errorf("log: %s", &log)
	}
}

func write(t *testing.T, op Operator) snapshot.State {
	t.Helper()
	part, err := op.Freeze(record.Barrier{Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	for !part.Capture(10) {
	}
	s, err := part.Write(context.Background(), snapshot.Target{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEndRunsOnceInTheLifeOfAJob(t *testing.T) {
	ends := 0
	var saved *snapshot.State
	for range 3 {
		c := newContext()
		c.Restored = saved
		op := start(t, c, &Transform[int, int]{Body: Map(same), Last: func() error { ends++; return nil }}, NewOutput[int](c, nil))
		op.End()
		op.End()
		s := write(t, op)
		saved = &s
	}
	if ends != 1 {
		t.Errorf("%d times", ends)
	}
}

func same(n int) int { return n }

// An operator that can't load its state is closed like any other.
func TestOperatorThatCannotStartIsHandedOutToBeClosed(t *testing.T) {
	c := newContext()
	c.Restored = &snapshot.State{Lists: []snapshot.List{{Declared: state.Declared{Name: "gone"}}}}
	closed := false
	op, err := (&Transform[int, int]{Body: Map(same), Quit: func() error { closed = true; return nil }}).Start(c, NewOutput[int](c, nil))
	if !errors.Is(err, state.ErrUndeclared) {
		t.Fatal(err)
	}
	if op.Close(); !closed {
		t.Error("not closed")
	}
}

// spread sends values through an edge to some channels, in slices, and returns
// what each channel got.
func spread(edge Edge, channels, max int, values []int) (got [][]int, hashes [][]uint64) {
	in := exchange.NewInbox(channels)
	r := Routing{MaxParallelism: max}
	for i := range channels {
		r.Senders = append(r.Senders, in.Sender(i, 4, func() {}))
	}
	router := edge.Route(r)
	receive := router.Receiver().(Receiver[int])
	got, hashes = make([][]int, channels), make([][]uint64, channels)
	take := func() {
		for lane, e, ok := in.Take(); ok; lane, e, ok = in.Take() {
			b := e.Batch.(*record.Batch[int])
			got[lane], hashes[lane] = append(got[lane], b.Values...), append(hashes[lane], b.Hashes...)
		}
	}
	for i, part := 0, (&record.Batch[int]{}); i < len(values); i += part.Len() {
		part.Values = values[i:min(len(values), i+1+i%1500)]
		receive(part)
		if i%3 == 0 {
			router.Flush()
		}
		if i%2 == 0 {
			take()
		}
	}
	router.Flush()
	take()
	return got, hashes
}

func TestHashSendsEachKeyToItsOwnerInOrder(t *testing.T) {
	keys, err := codec.KeyFor[int]()
	if err != nil {
		t.Fatal(err)
	}
	key := func(v int) int { return v % 1000 }
	values := batchOf(0, 20000).Values
	for _, p := range []int{1, 2, 3, 7} {
		got, hashes := spread(Hash(key, keys), p, 128, values)
		total := 0
		for subtask, vs := range got {
			total += len(vs)
			if !slices.IsSorted(vs) || len(hashes[subtask]) != len(vs) {
				t.Fatalf("channel %d of %d: not in order, or %d hashes for %d", subtask, p, len(hashes[subtask]), len(vs))
			}
			for i, v := range vs {
				k := key(v)
				h := keys.Hash(&k)
				if want := keygroup.Subtask(keygroup.Of(h, 128), p, 128); want != subtask || hashes[subtask][i] != h {
					t.Fatalf("%d went to %d of %d with hash %x, want %d and %x", v, subtask, p, hashes[subtask][i], want, h)
				}
			}
		}
		if total != len(values) {
			t.Errorf("%d of %d records", total, len(values))
		}
	}
}

func TestRebalanceIsEvenAndShuffleLosesNothing(t *testing.T) {
	values := batchOf(0, 20001).Values
	for name, edge := range map[string]Edge{"rebalance": Rebalance[int](), "shuffle": Shuffle[int](), "forward": Forward[int]()} {
		for _, p := range []int{1, 2, 5} {
			if name == "forward" {
				p = 1
			}
			got, _ := spread(edge, p, 128, values)
			var all []int
			for _, vs := range got {
				if all = append(all, vs...); !slices.IsSorted(vs) {
					t.Errorf("%s: not in order", name)
				}
				if each := len(values) / p; name == "rebalance" && len(vs)-each > 1 {
					t.Errorf("rebalance: %d of %d", len(vs), each)
				}
			}
			if slices.Sort(all); !slices.Equal(all, values) {
				t.Errorf("%s over %d: %d records of %d", name, p, len(all), len(values))
			}
		}
	}
}

// span is a split: the numbers from Next to End, without End.
type span struct{ Next, End int }

// erratic reads spans in batches whose size nobody can foresee.
type erratic struct{ random *rand.Rand }

func (e erratic) Enumerate(context.Context, connector.Enumeration[span]) error { return nil }
func (e erratic) Close() error                                                 { return nil }
func (e erratic) Open(context.Context, connector.Reading) (connector.Reader[int, span], error) {
	return e, nil
}

func (e erratic) Read(_ context.Context, at *span, into *record.Batch[int]) error {
	if cap(into.Values) < BatchSize {
		return errors.New("a small batch")
	}
	for range e.random.IntN(12) {
		if at.Next == at.End {
			return io.EOF
		}
		into.AddAt(at.Next, int64(at.Next))
		at.Next++
	}
	return nil
}

// TestSourceGoesOnInTheMiddleOfABatch freezes a source at random moments, also
// in the middle of what was fetched at once, and goes on from there with batches
// of other sizes: each split's records come once and in order.
func TestSourceGoesOnInTheMiddleOfABatch(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(300) {
		if err := walkSource(rand.New(rand.NewPCG(seed, i))); err != nil {
			t.Fatalf("seed %d %d: %v", seed, i, err)
		}
	}
}

func walkSource(random *rand.Rand) error {
	lengths := []int{random.IntN(60), 1 + random.IntN(60), random.IntN(5)}
	var got, kept []int
	var saved *snapshot.State
	for life := 0; ; life++ {
		c := newContext()
		c.Restored = saved
		got = slices.Clone(kept)
		op, err := NewSource(c, erratic{random}, codecOf[span](), NewOutput[int](c, []any{Receiver[int](func(b *record.Batch[int]) {
			if !slices.EqualFunc(b.Values, b.Times, func(v int, at int64) bool { return int64(v) == at }) {
				panic("times don't belong to their records")
			}
			got = append(got, b.Values...)
		})}))
		if err != nil {
			return err
		}
		src := op.(Source)
		in := exchange.NewInbox(1)
		src.Begin(Fetching{To: in.Sender(0, 4, src.Resume), Want: func() {}, Failed: func(e error, _ string) { err = e }, Done: func() {}})
		if life == 0 {
			var splits [][]byte
			for i, n := range lengths {
				splits = append(splits, codecOf[span]().Append(nil, &span{i * 1000, i*1000 + n}))
			}
			if err := src.Assign(splits, false); err != nil {
				return err
			}
		}
		if err := src.Assign(nil, true); err != nil {
			return err
		}
		step := c.Executor.(*byHand).step
		var at, length int
		var e exchange.Element
		for range random.IntN(60) + life {
			switch {
			case e.Batch != nil:
				to := min(length, at+1+random.IntN(6))
				if to > at {
					src.Slice(e.Batch, at, to)
				}
				src.Consumed(e.Note, to, to == length)
				if at = to; at == length {
					e.Batch = nil
				}
			case random.IntN(2) == 0:
				step()
			default:
				_, taken, ok := in.Take()
				switch {
				case ok && taken.Kind == exchange.End:
					return complete(got, lengths)
				case ok:
					e, at, length = taken, 0, src.Length(taken.Batch)
				}
			}
			if err != nil {
				return err
			}
			if random.IntN(10) == 0 {
				part, _ := src.Freeze(record.Barrier{})
				s, _ := part.Write(context.Background(), nil)
				saved, kept = &s, slices.Clone(got)
			}
		}
		if saved == nil {
			part, _ := src.Freeze(record.Barrier{})
			s, _ := part.Write(context.Background(), nil)
			saved, kept = &s, slices.Clone(got)
		}
	}
}

// complete checks that the numbers of each split, which begin at its thousand,
// are there in order, each once.
func complete(got, lengths []int) error {
	next := make([]int, len(lengths))
	for _, v := range got {
		if next[v/1000] != v%1000 {
			return fmt.Errorf("%d after %d records of its split", v, next[v/1000])
		}
		next[v/1000]++
	}
	if !slices.Equal(next, lengths) {
		return fmt.Errorf("%v records of splits, want %v", next, lengths)
	}
	return nil
}
