package jobmaster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/commit"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/enumerate"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

// A bench is a job master in a world where one thing happens at a time, in an
// order drawn from a seed: its loop, its background work, its timers, and a
// worker that is a model of a source chained to a sink. Each split is a record
// of the output.
type bench struct {
	t     *testing.T
	rng   *rand.Rand
	calm  bool // nothing fails any more
	now   time.Time
	ready []task // what may happen next
	hold  string // the name of work that takes its time
	clock []timer
	disk  *filesystem.Memory
	log   strings.Builder

	settings Settings
	master   *Master
	worker   map[int]*subtask
	attempt  control.Deploy // the worker's
	run      bool           // Start has come

	splits    int
	prepared  map[string][]uint64 // output that isn't visible yet, by file
	committed map[string][]uint64 // output that is
	sinkOpen  bool
	sinkFails error          // what the next commit says
	works     map[string]int // how often each was begun
	ended     []Outcome
	endFails  error // what the next attempt to record the end says
	asked     int   // savepoints
}

type task struct {
	name string
	f    func()
}

type timer struct {
	at  time.Time
	f   func()
	off *bool
}

var (
	sourceID = graph.ID{1}
	sinkID   = graph.ID{2}
)

const benchDir = "/cp/0123456789abcdef0123456789abcdef"

func newBench(t *testing.T, seed uint64) *bench {
	b := &bench{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), calm: true, now: time.Unix(1e9, 0), disk: filesystem.NewMemory(),
		splits: 20, prepared: map[string][]uint64{}, committed: map[string][]uint64{}, works: map[string]int{},
	}
	operators := []graph.Operator{
		{ID: sourceID, UID: "numbers", Name: "numbers", Kind: graph.Source, Parallelism: 2, MaxParallelism: 128, Derived: true},
		{ID: sinkID, UID: "out", Name: "out", Kind: graph.Sink, Commits: true, Parallelism: 2, MaxParallelism: 128, Derived: true},
	}
	b.settings = Settings{
		Executor: b,
		Graph:    &graph.JobGraph{Tasks: []graph.Task{{ID: sourceID, Name: "numbers -> out", Parallelism: 2, MaxParallelism: 128, Operators: operators}}},
		JobID:    "0123456789abcdef0123456789abcdef",
		JobName:  "bench",
		Sources:  map[graph.ID]enumerate.Source{sourceID: enumerate.New[uint64](numbers{b}, number{})},
		Sinks:    map[graph.ID]commit.Sink{sinkID: commit.New(sink{b}, name{})},
		Storage: &snapshot.Directory{
			Files: &filesystem.Faulty{FileSystem: b.disk, Before: func(string, string) error { return b.fault(200) }},
			Path:  benchDir, URI: "file://" + benchDir, Random: b.rng.Uint64, Log: slog.New(slog.DiscardHandler),
		},
		Fallback: true,
		Policy:   checkpoint.Policy{Interval: 100 * time.Millisecond, Timeout: time.Second, Savepoint: time.Second, Concurrent: 1, Retained: 2, Tolerable: 3},
		Strategy: &FixedDelay{Attempts: 1000, Delay: time.Second},
		Send:     func(c control.Command) { b.message(c, func() { b.take(c) }) },
		Ended: func(o Outcome) error {
			b.ended = append(b.ended, o)
			return b.endFails
		},
		Note:   b.note,
		Load:   b.load,
		Random: b.rng.Uint64,
		Log:    slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	return b
}

// start makes a master and begins the job.
func (b *bench) start() {
	b.worker = map[int]*subtask{}
	b.master = New(b.settings)
	b.master.Start()
}

// Now implements executor.Executor.
func (b *bench) Now() time.Time { return b.now }

// After implements executor.Executor.
func (b *bench) After(d time.Duration, f func()) func() {
	off := new(bool)
	b.clock = append(b.clock, timer{b.now.Add(d), f, off})
	return func() { *off = true }
}

// Go implements executor.Executor.
func (b *bench) Go(name string, work func()) {
	b.works[name]++
	b.ready = append(b.ready, task{name, work})
}

// Reach implements executor.Executor.
func (b *bench) Reach(string) error { return b.fault(100) }

// Loop implements executor.Executor.
func (b *bench) Loop(name string, step func() executor.Progress) func() {
	awake := false
	var once func()
	wake := func() {
		if !awake {
			awake = true
			b.ready = append(b.ready, task{name, once})
		}
	}
	once = func() {
		awake = false
		if step() == executor.Worked {
			wake()
		}
	}
	return wake
}

// fault is an error once in n times.
func (b *bench) fault(n int) error {
	if !b.calm && b.rng.IntN(n) == 0 {
		return errors.New("injected")
	}
	return nil
}

// until lets things happen until done says so.
func (b *bench) until(done func() bool) {
	b.t.Helper()
	for range 100_000 {
		if done() {
			return
		}
		b.once()
	}
	b.t.Fatalf("it never comes: %+v\n%s", b.master.View(), b.log.String())
}

// once lets one thing happen.
func (b *bench) once() {
	b.clock = slices.DeleteFunc(b.clock, func(t timer) bool { return *t.off })
	if len(b.ready) == 0 || b.rng.IntN(20) == 0 {
		b.nudge()
	}
	if len(b.ready) == 0 || b.rng.IntN(100) == 0 {
		if len(b.clock) == 0 {
			return
		}
		slices.SortStableFunc(b.clock, func(a, b timer) int { return a.at.Compare(b.at) })
		t := b.clock[0]
		b.clock = b.clock[1:]
		if t.at.After(b.now) {
			b.now = t.at
		}
		t.f()
		return
	}
	i := b.rng.IntN(len(b.ready))
	next := b.ready[i]
	if next.name == b.hold {
		return
	}
	if strings.HasPrefix(next.name, "line") { // messages keep their order
		i = slices.IndexFunc(b.ready, func(t task) bool { return t.name == next.name })
		next = b.ready[i]
	}
	b.ready = slices.Delete(b.ready, i, i+1)
	b.now = b.now.Add(time.Millisecond)
	next.f()
}

// message puts a message on the line. Those that may be lost or repeated are.
func (b *bench) message(m any, arrive func()) {
	line := "line to worker"
	if _, report := m.(control.Report); report {
		line = "line to master"
	}
	switch m.(type) {
	case control.Trigger, control.Ack, control.Decline, control.Complete, control.Abort, control.Request, control.Assign, control.Ended:
		if b.fault(30) != nil {
			return
		}
		if b.fault(30) != nil {
			b.Go("late", arrive)
		}
	}
	b.Go(line, arrive)
}

func (b *bench) report(r control.Report) { b.message(r, func() { b.master.Report(r) }) }

// subtask is a model of a subtask. It reads a split the moment it gets it.
type subtask struct {
	index   int
	seen    uint64 // answers
	held    []control.Assign
	reached uint64
	written []uint64
	pending []snapshot.Pending
	over    bool
	failed  bool
}

// take carries out a command.
func (b *bench) take(c control.Command) {
	if d, ok := c.(control.Deploy); ok {
		if d.Attempt != b.attempt.Attempt {
			b.worker, b.run = map[int]*subtask{}, false
		}
		b.attempt = d
		b.worker[d.Subtask.Index] = &subtask{index: d.Subtask.Index, over: d.Restored[sourceID].Ended}
		b.report(control.Ready{Attempt: d.Attempt, Subtask: d.Subtask})
		return
	}
	if control.AttemptOf(c) != b.attempt.Attempt {
		return
	}
	if a, ok := c.(control.Assign); ok {
		b.assign(b.worker[a.Subtask.Index], a)
		return
	}
	for _, i := range slices.Sorted(maps.Keys(b.worker)) {
		b.tell(b.worker[i], c)
	}
}

func (b *bench) tell(s *subtask, c control.Command) {
	id := graph.Subtask{Task: sourceID, Index: s.index}
	switch c := c.(type) {
	case control.Start:
		b.run = true
	case control.Trigger:
		switch n := c.Barrier.Checkpoint; {
		case s.failed || n <= s.reached:
		case s.seen < c.Assigned[id]:
			b.report(control.Decline{Attempt: c.Attempt, Subtask: id, Checkpoint: n, Reason: "answers are missing", NotReady: true})
		default:
			b.barrier(s, id, n)
		}
	case control.Complete:
		s.pending = slices.DeleteFunc(s.pending, func(p snapshot.Pending) bool { return p.Checkpoint <= c.Checkpoint })
	case control.Abort:
		s.reached = max(s.reached, c.Checkpoint)
		b.release(s)
	case control.Stop, control.Finish:
		s.failed = true
		b.report(control.Stopped{Attempt: b.attempt.Attempt, Subtask: id})
	}
}

// barrier prepares what was written, and acknowledges.
func (b *bench) barrier(s *subtask, id graph.Subtask, n uint64) {
	s.reached = n - 1 // older barriers won't come
	b.release(s)
	if len(s.written) > 0 {
		file := fmt.Sprintf("%s-%d-%d", b.attempt.Name, s.index, n)
		b.prepared[file] = s.written
		s.pending = append(s.pending, snapshot.Pending{Checkpoint: n, Subtask: s.index, Data: []byte(file)})
		s.written = nil
	}
	b.report(control.Ack{Attempt: b.attempt.Attempt, Subtask: id, Checkpoint: n, State: snapshot.Task{
		sourceID: {Ended: s.over}, sinkID: {Pending: slices.Clone(s.pending)},
	}})
	s.reached = n
	b.release(s)
}

func (b *bench) assign(s *subtask, a control.Assign) {
	if a.Request == s.seen+1 && !s.failed {
		s.seen++
		s.held = append(s.held, a)
		b.release(s)
	}
}

// release takes in what was held back for barriers that have come.
func (b *bench) release(s *subtask) {
	for len(s.held) > 0 && s.held[0].After <= s.reached {
		for _, split := range s.held[0].Splits {
			n, _ := binary.Uvarint(split)
			s.written = append(s.written, n)
		}
		s.over = s.over || s.held[0].NoMore
		s.held = s.held[1:]
	}
}

// nudge has a subtask ask for a split, or say that it has ended, or fail.
func (b *bench) nudge() {
	s := b.worker[b.rng.IntN(2)]
	switch id := (graph.Subtask{Task: sourceID}); {
	case s == nil || s.failed || !b.run:
	case b.fault(40) != nil:
		id.Index = s.index
		s.failed = true
		b.report(control.Failed{Attempt: b.attempt.Attempt, Subtask: id, Err: errors.New("boom"), Stack: "stack"})
		b.report(control.Stopped{Attempt: b.attempt.Attempt, Subtask: id})
	case s.over:
		id.Index = s.index
		b.report(control.Ended{Attempt: b.attempt.Attempt, Subtask: id})
	case len(s.held) == 0:
		id.Index = s.index
		b.report(control.Request{Attempt: b.attempt.Attempt, Subtask: id, Request: s.seen + 1})
	}
}

// output returns the records that are visible, in order.
func (b *bench) output() (all []uint64) {
	for _, records := range b.committed {
		all = append(all, records...)
	}
	slices.Sort(all)
	return all
}

// errPanic as what a commit says makes it panic.
var errPanic = errors.New("oh")

// numbers is a source whose splits are the numbers from 0 on.
type numbers struct{ b *bench }

func (s numbers) Bounded() bool { return true }

func (s numbers) Open(context.Context, connector.Reading) (connector.Reader[uint64, uint64], error) {
	return nil, errors.New("not used")
}

func (s numbers) Enumerate(_ context.Context, e connector.Enumeration[uint64]) error {
	at := uint64(0)
	if p := e.Position(); p != nil {
		at, _ = binary.Uvarint(p)
	}
	for ; at < uint64(s.b.splits); at++ {
		if err := s.b.fault(50); err != nil {
			return err
		}
		e.Assign(at)
		e.Save(binary.AppendUvarint(nil, at+1))
	}
	return nil
}

// number and name are the codecs of splits and committables.
type number struct{}

func (number) Append(dst []byte, v *uint64) []byte { return binary.AppendUvarint(dst, *v) }
func (number) Schema() codec.Schema                { return codec.Schema{Codec: "test", Type: "number"} }
func (number) Decode(src []byte, v *uint64) (n int, err error) {
	*v, n = binary.Uvarint(src)
	return n, nil
}

type name struct{}

func (name) Append(dst []byte, v *string) []byte { return append(dst, *v...) }
func (name) Schema() codec.Schema                { return codec.Schema{Codec: "test", Type: "name"} }
func (name) Decode(src []byte, v *string) (int, error) {
	*v = string(src)
	return len(src), nil
}

// sink makes prepared files visible.
type sink struct{ b *bench }

func (s sink) OpenCommitter(context.Context, connector.Commitment) (connector.Committer[string], error) {
	if s.b.sinkOpen {
		s.b.t.Error("two committers at a time")
	}
	if err := s.b.fault(20); err != nil {
		return nil, err
	}
	s.b.sinkOpen = true
	return s, nil
}

func (s sink) Recover(ctx context.Context, pending []connector.Committable[string]) error {
	if err := s.Commit(ctx, pending); err != nil {
		return err
	}
	clear(s.b.prepared)
	return nil
}

func (s sink) Commit(_ context.Context, due []connector.Committable[string]) error {
	if err := s.b.sinkFails; err != nil {
		s.b.sinkFails = nil
		if err == errPanic {
			panic(err)
		}
		return err
	}
	for _, c := range due {
		if s.b.fault(30) != nil {
			return errors.New("commit: injected")
		}
		records, is := s.b.prepared[c.Value]
		if s.b.committed[c.Value] == nil && !is {
			s.b.t.Errorf("%s of checkpoint %d has vanished", c.Value, c.Checkpoint)
		}
		if is {
			s.b.committed[c.Value] = records
			delete(s.b.prepared, c.Value)
		}
	}
	return nil
}

func (s sink) Close() error {
	s.b.sinkOpen = false
	return nil
}
