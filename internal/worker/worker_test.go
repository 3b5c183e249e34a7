package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
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

func keyOf[K comparable]() codec.Key[K] {
	c, err := codec.KeyFor[K]()
	if err != nil {
		panic(err)
	}
	return c
}

// span is a split: the numbers from Next to End, without End.
type span struct{ Next, End int }

func (s span) encoded() []byte { return codecOf[span]().Append(nil, &s) }

// spans cuts the numbers from first to end into splits of different lengths.
func spans(random *rand.Rand, first, end int) (all [][]byte) {
	for first < end {
		n := min(1+random.IntN(60), end-first)
		all = append(all, span{first, first + n}.encoded())
		first += n
	}
	return all
}

// user is the code of the job's user. Each of its functions asks fault first,
// which may return an error, panic, or take its time.
type user struct {
	fault func(point string) error
}

func (u user) at(point string) error {
	if u.fault == nil {
		return nil
	}
	return u.fault(point)
}

// numbers reads spans, a few numbers at a time, not the same few after a restart.
type numbers struct{ user }

func (numbers) Bounded() bool                                                { return true }
func (numbers) Enumerate(context.Context, connector.Enumeration[span]) error { return nil }

func (n numbers) Open(context.Context, connector.Reading) (connector.Reader[int, span], error) {
	return &reading{user: n.user}, n.at("open source")
}

type reading struct {
	user
	calls int
}

func (n *reading) Read(_ context.Context, at *span, into *record.Batch[int]) error {
	if err := n.at("read"); err != nil {
		return err
	}
	if cap(into.Values) == 0 {
		return errors.New("no room")
	}
	n.calls++
	for range 1 + n.calls*7%29 {
		if at.Next == at.End {
			return io.EOF
		}
		into.Add(at.Next)
		at.Next++
	}
	return nil
}

func (n *reading) Close() error { return n.at("close reader") }

func (u user) source() operator.Spec {
	return operator.Spec{Out: record.TypeOf(codecOf[int]()), Open: func(c *operator.Context, next []any) (operator.Operator, error) {
		return operator.NewSource(c, numbers{u}, codecOf[span](), operator.NewOutput[int](c, next))
	}}
}

// pair is a key and how often it has come.
type pair struct {
	Key   int
	Count int64
}

// keys is how many keys there are; a number's key is its remainder.
const keys = 7

type keyspace struct{ of *state.Keyspace[int] }

func (k keyspace) Keyspace() *state.Keyspace[int] { return k.of }

// count emits for each number its key and how often that has come.
func (u user) count() operator.Spec {
	return operator.Spec{Out: record.TypeOf(codecOf[pair]()), Open: func(c *operator.Context, next []any) (operator.Operator, error) {
		first, last := keygroup.Range(c.Index, c.Degree, c.MaxParallelism)
		store, err := c.Backend.Open(c)
		if err != nil {
			return nil, err
		}
		k := &operator.Keyed[int, int, pair]{Keys: state.NewKeyspace(keyOf[int](), c.MaxParallelism, first, last, store)}
		counts := state.NewTable[int64](keyspace{k.Keys}, "count")
		k.Body = func(in *record.Batch[int], out *operator.Output[pair]) error {
			for i, v := range in.Values {
				if err := u.at("record"); err != nil {
					return err
				}
				n, _ := counts.Ref(v%keys, in.Hashes[i])
				*n++
				out.Emit(pair{v % keys, *n})
			}
			return nil
		}
		k.Last = func() error { return u.at("end") }
		k.Quit = func() error { return u.at("close") }
		if err := u.at("construct"); err != nil {
			return nil, err
		}
		return k.Start(c, operator.NewOutput[pair](c, next))
	}}
}

// gather holds ten pairs back and emits them together (S08).
func (u user) gather() operator.Spec {
	return operator.Spec{Out: record.TypeOf(codecOf[pair]()), Open: func(c *operator.Context, next []any) (operator.Operator, error) {
		out, t := operator.NewOutput[pair](c, next), &operator.Transform[pair, pair]{}
		held := state.NewSplit[pair](c, "held")
		release := func() error {
			for p := range held.All() {
				out.Emit(p)
			}
			held.Clear()
			return nil
		}
		t.Body = func(in *record.Batch[pair], _ *operator.Output[pair]) error {
			for _, p := range in.Values {
				if held.Append(p); held.Len() == 10 {
					release()
				}
			}
			return nil
		}
		t.Last = release
		return t.Start(c, out)
	}}
}

// bundle is a committable; its name is that of no other.
type bundle struct {
	Name  string
	Pairs []pair
}

// bundles is a sink that commits what was written between two barriers.
type bundles struct {
	connector.ExactlyOnce
	user
}

func (b bundles) Open(_ context.Context, w connector.Writing) (connector.Writer[pair, bundle], error) {
	return &bundling{user: b.user, name: fmt.Sprintf("%s-%d", w.Attempt(), w.Subtask())}, b.at("open sink")
}

type bundling struct {
	user
	name   string
	number int
	pairs  []pair
}

func (b *bundling) Write(_ context.Context, in *record.Batch[pair]) error {
	if err := b.at("write"); err != nil {
		return err
	}
	b.pairs = append(b.pairs, in.Values...)
	return nil
}

func (b *bundling) Prepare(context.Context) ([]bundle, error) {
	if err := b.at("prepare"); err != nil || len(b.pairs) == 0 {
		return nil, err
	}
	b.number++
	all := []bundle{{fmt.Sprintf("%s-%d", b.name, b.number), b.pairs}}
	b.pairs = nil
	return all, nil
}

func (b *bundling) Close() error { return b.at("close sink") }

func (u user) sink() operator.Spec {
	return operator.Spec{Open: func(c *operator.Context, _ []any) (operator.Operator, error) {
		return operator.NewSink(c, bundles{user: u}, codecOf[bundle]())
	}}
}

// newJob is two sources of different length, the union of which is counted by
// key, gathered, and committed.
//
//	short ─┐
//	long  ─┴─hash─► count ─rebalance─► gather ──► sink
func newJob(u user) Job {
	g, _, err := graph.Build(graph.StreamGraph{
		Nodes: []graph.Node{
			{UID: "short", Kind: graph.Source, Bounded: true, Parallelism: 1},
			{UID: "long", Kind: graph.Source, Bounded: true, Parallelism: 2},
			{UID: "count", Keyed: true, Parallelism: 3},
			{UID: "gather", Parallelism: 2},
			{UID: "sink", Kind: graph.Sink, Parallelism: 2},
		},
		Edges: []graph.Edge{
			{From: 0, To: 2, Partition: graph.Hash},
			{From: 1, To: 2, Partition: graph.Hash},
			{From: 2, To: 3, Partition: graph.Rebalance},
			{From: 3, To: 4},
		},
	}, graph.Defaults{Parallelism: 1, Chaining: true})
	if err != nil {
		panic(err)
	}
	key := func(v int) int {
		if err := u.at("key"); err != nil {
			panic(err)
		}
		return v % keys
	}
	hash := operator.Hash(key, keyOf[int]())
	return Job{
		ID:    "0123456789abcdef0123456789abcdef",
		Graph: g,
		Nodes: []operator.Spec{u.source(), u.source(), u.count(), u.gather(), u.sink()},
		Edges: []operator.Edge{hash, hash, operator.Rebalance[pair](), operator.Rebalance[pair]()},
	}
}

// total is how many numbers there are, and short how many of them come from the
// short source.
const total, short = 2000, 300

// output is what has been committed.
type output struct {
	bundles map[string]bool
	pairs   []pair
}

func (o *output) commit(p snapshot.Pending) {
	var b bundle
	if _, err := codecOf[bundle]().Decode(p.Data, &b); err != nil {
		panic(err)
	}
	if !o.bundles[b.Name] {
		o.bundles[b.Name] = true
		o.pairs = append(o.pairs, b.Pairs...)
	}
}

// check holds the output to the law: each key has the counts 1, 2, ... once each.
func (o *output) check() error {
	counts := map[int][]int64{}
	for _, p := range o.pairs {
		counts[p.Key] = append(counts[p.Key], p.Count)
	}
	for key := range keys {
		got := counts[key]
		slices.Sort(got)
		if want := (total - key + keys - 1) / keys; len(got) != want {
			return fmt.Errorf("key %d has %d counts, want %d", key, len(got), want)
		}
		for i, n := range got {
			if n != int64(i+1) {
				return fmt.Errorf("key %d: count %d in place of %d", key, n, i+1)
			}
		}
	}
	return nil
}

// run makes a master of the job.
func run(u user, random *rand.Rand, settings Settings) (*master, *output) {
	job := newJob(u)
	splits := map[graph.ID][][]byte{}
	for i, from := range [][2]int{{0, short}, {short, total}} {
		splits[job.Graph.Tasks[i].ID] = spans(random, from[0], from[1])
	}
	out := &output{bundles: map[string]bool{}}
	m := newMaster(job, splits, settings)
	m.commit = out.commit
	return m, out
}

// TestOutputIsExactWhateverTheMastersLineDoes runs a job again and again under
// another order of events, with control messages that are lost, late and
// repeated, with aborted checkpoints, and with crashes. In every checkpoint each
// split is with the enumerator or with a reader (S115), records behind a barrier
// aren't in it (S01), a source that has ended holds nobody up (S05), late
// triggers are dropped (S07), and what is held back is in it (S08): otherwise
// the output wouldn't be exact after a restart.
func TestOutputIsExactWhateverTheMastersLineDoes(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(200) {
		if err := simulate(seed+i, i%2 == 1); err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
	}
}

func simulate(seed uint64, encode bool) error {
	x := newSimulated(seed)
	m, out := run(user{}, x.random, Settings{Executor: x, SliceMax: 1 + x.random.IntN(20), BufferTimeout: time.Second, Encode: encode})
	m.chaos, m.restarts, x.hurry = x.random, 5, 50
	m.start()
	switch {
	case !x.until(m.isOver):
		return fmt.Errorf("stuck: ready %d, ended %d, stopped %d of %d", len(m.life.ready), len(m.life.ended), len(m.life.stopped), len(m.subtasks))
	case m.err != nil:
		return m.err
	case len(m.failures) > 0:
		return m.failures[0].Err
	}
	x.settle()
	for _, l := range x.loops {
		if l.name != "master" {
			return fmt.Errorf("%s still runs", l.name)
		}
	}
	return out.check()
}

// The same in goroutines, for the race detector.
func TestOutputIsExactInGoroutines(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, i))
		m, out := run(user{}, random, Settings{Executor: executor.Real{}, SliceMax: 5, BufferTimeout: time.Millisecond, Encode: i%2 == 1})
		finish(t, m)
		if err := errors.Join(m.err, out.check()); err != nil || len(m.failures) > 0 {
			t.Fatalf("seed %d %d: %v %v", seed, i, err, m.failures)
		}
	}
}

// finish starts the job and waits for its end.
func finish(t *testing.T, m *master) {
	t.Helper()
	done := make(chan struct{})
	m.done = sync.OnceFunc(func() { close(done) })
	m.start()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the job hangs")
	}
}
