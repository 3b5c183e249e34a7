package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// owner says whose function each point is, as the error names it.
var owner = map[string]string{
	"open source": "short", "read": "short", "key": "short",
	"construct": "count", "record": "count", "end": "count",
	"open sink": "sink", "write": "sink", "prepare": "sink",
}

// strike makes a user whose function fails when it has been called some times.
func strike(point string, calls int64, fault func() error) user {
	var called atomic.Int64
	return user{fault: func(p string) error {
		if p != point || called.Add(1) != calls {
			return nil
		}
		return fault()
	}}
}

func thisIsWhereItPanicked() error { panic("oh no") }

// A panic in any function of the user is reported once, with the operator's name
// and the stack of where it came from, and leads to the end of all subtasks.
func TestPanicIsReportedOnce(t *testing.T) {
	for point, name := range owner {
		for calls := int64(1); calls <= 2; calls++ {
			x := newSimulated(uint64(calls))
			m, _ := run(strike(point, calls, thisIsWhereItPanicked), x.random, Settings{Executor: x})
			m.start()
			x.hurry = 20
			if !x.until(m.isOver) || m.err != nil {
				t.Fatalf("%s: it hangs: %v", point, m.err)
			}
			if len(m.failures) != 1 {
				t.Errorf("%s: failures %v, want 1", point, m.failures)
				continue
			}
			f := m.failures[0]
			named := strings.Contains(f.Err.Error(), fmt.Sprintf("operator %q", name)) ||
				name == "short" && strings.Contains(f.Err.Error(), `operator "long"`)
			if !named || !strings.Contains(f.Err.Error(), "oh no") || !strings.Contains(f.Stack, "thisIsWhereItPanicked") {
				t.Errorf("%s: %v\n%s", point, f.Err, f.Stack)
			}
		}
	}
}

// A user function that ends its goroutine, as FailNow of a test does, fails the
// job; it doesn't hang.
func TestGoexitFailsTheJob(t *testing.T) {
	for _, point := range []string{"open source", "read", "construct", "record", "end", "write", "prepare"} {
		u := strike(point, 1, func() error { runtime.Goexit(); return nil })
		m, _ := run(u, rand.New(rand.NewPCG(1, 1)), Settings{Executor: executor.Real{}})
		finish(t, m)
		if m.err != nil || len(m.failures) != 1 || !strings.Contains(m.failures[0].Err.Error(), "ended its goroutine") {
			t.Errorf("%s: %v %v", point, m.err, m.failures)
		}
	}
}

// What Close does wrong is in the log; nothing else changes.
func TestFaultsWhileClosingChangeNothing(t *testing.T) {
	for _, point := range []string{"close", "close sink", "close reader"} {
		for _, fault := range []func() error{thisIsWhereItPanicked, func() error { return errors.New("no") }} {
			x := newSimulated(1)
			m, out := run(strike(point, 1, fault), x.random, Settings{Executor: x})
			m.start()
			if !x.until(m.isOver) || m.err != nil || len(m.failures) > 0 || out.check() != nil {
				t.Errorf("%s: %v %v %v", point, m.err, m.failures, out.check())
			}
		}
	}
}

// An error of any function fails the job, but for that of Prepare, after which
// the next checkpoint has everything.
func TestErrorNamesItsOperator(t *testing.T) {
	broken := errors.New("broken")
	for point, name := range owner {
		x := newSimulated(1)
		m, out := run(strike(point, 1, func() error { return broken }), x.random, Settings{Executor: x})
		m.start()
		switch {
		case !x.until(m.isOver) || m.err != nil:
			t.Fatalf("%s: it hangs: %v", point, m.err)
		case point == "prepare":
			if len(m.failures) > 0 || out.check() != nil || len(m.declined) != 1 || !strings.Contains(m.declined[0].Reason, `operator "sink": prepare: broken`) {
				t.Errorf("%v %v %v", m.failures, m.declined, out.check())
			}
		case len(m.failures) != 1 || !errors.Is(m.failures[0].Err, broken) && point != "key":
			t.Errorf("%s: %v", point, m.failures)
		case !strings.Contains(m.failures[0].Err.Error(), fmt.Sprintf("operator %q", name)) && name != "short":
			t.Errorf("%s: %v", point, m.failures[0].Err)
		}
	}
}

// S04: a subtask that declines says so downstream; nobody waits there for a
// barrier that doesn't come. The clock never moves.
func TestDeclineReleasesThoseDownstreamAtOnce(t *testing.T) {
	for seed := range uint64(50) {
		x := newSimulated(seed)
		refuse := false
		x.reach = func(point string) error {
			if point == "freeze" && refuse {
				refuse = false
				return errors.New("no room")
			}
			return nil
		}
		m, out := run(user{}, x.random, Settings{Executor: x, SliceMax: 3})
		m.silent = true
		m.start()
		for !m.started() || x.random.IntN(20) > 0 {
			x.step()
		}
		refuse = true
		began := x.now
		m.trigger()
		x.settle()
		if x.now != began || len(m.life.ended) != len(m.subtasks) || len(m.declined) != 1 {
			t.Fatalf("seed %d: ended %d of %d, declined %v", seed, len(m.life.ended), len(m.subtasks), m.declined)
		}
		if !x.until(m.isOver) || out.check() != nil {
			t.Fatalf("seed %d: %v", seed, out.check())
		}
	}
}

func (m *master) started() bool { return m.life != nil && m.life.started }

// Stop may come at any moment: each subtask answers once, when nothing of it
// runs any more.
func TestStopAtAnyMoment(t *testing.T) {
	for seed := range uint64(400) {
		x := newSimulated(seed)
		x.hurry = 20
		m, _ := run(user{}, x.random, Settings{Executor: x, SliceMax: 5})
		m.start()
		for range x.random.IntN(int(seed) + 2) {
			x.step()
		}
		if m.life == nil {
			continue
		}
		m.stop()
		if !x.until(m.isOver) || m.err != nil || len(m.failures) > 0 {
			t.Fatalf("seed %d: stopped %d of %d: %v", seed, len(m.life.stopped), len(m.subtasks), m.err)
		}
		x.settle()
		for _, l := range x.loops {
			if l.name != "master" {
				t.Fatalf("seed %d: %s still runs", seed, l.name)
			}
		}
	}
}

// A new attempt ends an older one that nobody has told.
func TestNewAttemptEndsTheOlder(t *testing.T) {
	x := newSimulated(1)
	m, _ := run(user{}, x.random, Settings{Executor: x})
	m.start()
	for !m.started() {
		x.step()
	}
	m.worker.Do(control.Deploy{Attempt: m.attempt + 1, Subtask: m.subtasks[0]})
	x.until(func() bool { return len(m.life.stopped) == len(m.subtasks) })
	x.settle()
	if len(x.loops) != 2 { // the master and the new subtask
		t.Errorf("%d loops", len(x.loops))
	}
}

// Functions that block until their context ends don't keep a job from stopping:
// while opening, in Read, in Write, in Prepare, while state is written.
func TestStopFreesWhoIsBlocked(t *testing.T) {
	for _, point := range []string{"open", "read", "write", "prepare", "persist"} {
		reached := make(chan struct{}, 1)
		block := func(ctx context.Context, at string) error {
			if at != point {
				return nil
			}
			select {
			case reached <- struct{}{}:
			default:
			}
			<-ctx.Done()
			return ctx.Err()
		}
		job := blockingJob(block)
		m := newMaster(job, map[graph.ID][][]byte{job.Graph.Tasks[0].ID: spans(rand.New(rand.NewPCG(1, 1)), 0, 100)}, Settings{Executor: executor.Real{}})
		go func() {
			<-reached
			m.worker.Do(control.Stop{Attempt: 1})
		}()
		finish(t, m)
		if m.err != nil || len(m.failures) > 0 {
			t.Errorf("%s: %v %v", point, m.err, m.failures)
		}
	}
}

// blocking is a source, a sink and operator state that wait for a context.
type blocking struct {
	connector.AtLeastOnce
	at func(ctx context.Context, point string) error
}

func (b blocking) Bounded() bool                                                { return true }
func (b blocking) Enumerate(context.Context, connector.Enumeration[span]) error { return nil }
func (b blocking) Close() error                                                 { return nil }

func (b blocking) Read(ctx context.Context, at *span, into *record.Batch[int]) error {
	if err := b.at(ctx, "read"); err != nil {
		return err
	}
	if into.Add(at.Next); at.Next+1 == at.End {
		return io.EOF
	}
	at.Next++
	return nil
}

type blockingSource struct{ blocking }

func (b blockingSource) Open(ctx context.Context, _ connector.Reading) (connector.Reader[int, span], error) {
	return b, b.at(ctx, "open")
}

type blockingSink struct{ blocking }

func (b blockingSink) Open(context.Context, connector.Writing) (connector.Writer[int, connector.None], error) {
	return b, nil
}

func (b blockingSink) Write(ctx context.Context, _ *record.Batch[int]) error {
	return b.at(ctx, "write")
}

func (b blockingSink) Prepare(ctx context.Context) ([]connector.None, error) {
	return nil, b.at(ctx, "prepare")
}

func blockingJob(at func(context.Context, string) error) Job {
	g, _, err := graph.Build(graph.StreamGraph{
		Nodes: []graph.Node{{UID: "source", Kind: graph.Source}, {UID: "sink", Kind: graph.Sink}},
		Edges: []graph.Edge{{From: 0, To: 1, Partition: graph.Rebalance}},
	}, graph.Defaults{Chaining: true})
	if err != nil {
		panic(err)
	}
	return Job{Graph: g, Edges: []operator.Edge{operator.Rebalance[int]()}, Nodes: []operator.Spec{
		{Out: record.TypeOf(codecOf[int]()), Open: func(c *operator.Context, next []any) (operator.Operator, error) {
			op, err := operator.NewSource(c, blockingSource{blocking{at: at}}, codecOf[span](), operator.NewOutput[int](c, next))
			if err != nil {
				return nil, err
			}
			return slowSource{op.(operator.Source), at}, nil
		}},
		{Open: func(c *operator.Context, _ []any) (operator.Operator, error) {
			return operator.NewSink(c, blockingSink{blocking{at: at}}, codecOf[connector.None]())
		}},
	}}
}

// slowSource is a source whose state is written slowly.
type slowSource struct {
	operator.Source
	at func(context.Context, string) error
}

func (s slowSource) Freeze(record.Barrier) (operator.Part, error) {
	return slowPart{operator.Whole{}, s.at}, nil
}

type slowPart struct {
	operator.Whole
	at func(context.Context, string) error
}

func (p slowPart) Write(ctx context.Context, _ state.Target) (snapshot.State, error) {
	return snapshot.State{}, p.at(ctx, "persist")
}
