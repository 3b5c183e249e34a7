package jobmaster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/commit"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/enumerate"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

// Settings are what a job master works with.
type Settings struct {
	Executor executor.Executor
	Graph    *graph.JobGraph
	JobID    string // 32 hexadecimal digits
	JobName  string
	Sources  map[graph.ID]enumerate.Source // by operator
	Sinks    map[graph.ID]commit.Sink      // by operator; those that commit
	Storage  snapshot.Storage

	// From loads and verifies what the job starts from as long as it has no
	// checkpoint of its own, and says which URI its files are relative to. Nil: it
	// starts empty.
	From func(ctx context.Context) (cp *snapshot.Checkpoint, dir string, err error)
	// Savepoint is what was put on record by Note when the job ran before; zero: nothing
	// was. Load loads and verifies what is in a directory, as From does.
	Savepoint Savepoint
	Note      func(Savepoint) error
	Load      func(ctx context.Context, dir string) (*snapshot.Checkpoint, error)
	Allowed   snapshot.Permission
	Fallback  bool // pass over checkpoints that don't verify

	Policy        checkpoint.Policy
	Strategy      Strategy
	KeepCancelled bool          // a cancelled job leaves its checkpoints
	StopTimeout   time.Duration // how long committers and enumerators may take to stop; 0: for ever

	// Send tells the workers. It is called from one goroutine at a time and must
	// not block.
	Send func(control.Command)
	// Ended puts the job's end on record, before anything is deleted. It is called
	// once, beside the loop.
	Ended  func(Outcome) error
	Random func() uint64
	Log    *slog.Logger
}

// A Savepoint is one of the job that its restarts go on from, unless there is a newer
// checkpoint.
type Savepoint struct {
	Checkpoint uint64
	Dir        string // the URI of its directory
	// Committed says that outputs were committed for it, or may have been. If the job
	// went on from an older checkpoint, they would come twice.
	Committed bool
}

// An Outcome is how a job has ended.
type Outcome struct {
	Status Status
	Err    error // why it has failed
	// Latest is the checkpoint from which the job would go on, 0 if it has none of
	// its own, and Dir the URI of its directory.
	Latest uint64
	Dir    string
	// Savepoint is the URI of the one that the job was stopped with; empty: it wasn't.
	Savepoint string
	// Opened says that the committers were open once: only then can the job have
	// had an effect.
	Opened bool
}

// A View is what there is to see of a job.
type View struct {
	Status      Status
	Since       time.Time
	Attempt     graph.Attempt
	Executions  []graph.Execution
	Failures    []Failure // the last ones, oldest first
	Checkpoints checkpoint.Stats
	Latest      uint64 // newest complete checkpoint, 0 if there is none
}

// Checkpoints is what there is to tell about a job's checkpoints in this process.
type Checkpoints struct {
	checkpoint.Stats
	checkpoint.Sample
	Restores int     // how often an attempt began from a checkpoint
	Restored Restore // the last time; zero if it never did
}

// A Restore is that an attempt began from a checkpoint.
type Restore struct {
	Checkpoint uint64
	Savepoint  bool
	At         time.Time
	Dir        string // the URI of its directory, empty in memory
}

// Master runs a job: it does what Life and the checkpoint coordinator say.
// Everything it does happens on one loop; what is slow runs beside it, and comes
// back as mail.
type Master struct {
	Settings
	name string // of this process's attempts
	wake func()
	done chan struct{}

	mailbox sync.Mutex // guards mail
	mail    []func()

	mu          sync.Mutex // guards all below: the loop holds it while it works, View while it looks
	life        *Life
	executions  *graph.ExecutionGraph
	run         *run                    // the current or last attempt's
	coordinator *checkpoint.Coordinator // nil until it is known what the job starts from
	silence     func()                  // cancels the alarm
	untick      func()                  // cancels the coordinator's next Tick
	tickAt      time.Time
	errands     map[*errand]bool          // work beside the loop that hasn't come back
	closing     bool                      // Close is under way
	turns       map[uint64][]func()       // work on one checkpoint's files, one at a time
	requests    map[uint64]request        // not answered yet
	asked       uint64                    // how many there were
	savepoints  map[uint64]snapshot.Place // of this process, begun or complete
	stopped     string                    // the URI of the savepoint that the job has ended with
	restores    int
	restored    Restore // the last time
	cleaned     bool
	opened      bool     // an attempt's committers were
	complete    []uint64 // the job's own checkpoints that it could go on from, oldest first
	outcome     *Outcome
}

// New returns the master of a job and starts its loop; Start begins the job.
func New(s Settings) *Master {
	m := &Master{
		Settings:   s,
		name:       fmt.Sprintf("%012x", s.Random()>>16),
		done:       make(chan struct{}),
		executions: graph.NewExecution(s.Graph),
		errands:    map[*errand]bool{},
		turns:      map[uint64][]func(){},
		requests:   map[uint64]request{},
		savepoints: map[uint64]snapshot.Place{},
		silence:    func() {},
		untick:     func() {},
	}
	dice := func() float64 { return float64(s.Random()>>11) / (1 << 53) }
	m.life = NewLife(s.Executor.Now(), s.Graph.Subtasks(), s.Strategy, dice)
	m.mailbox.Lock() // mail waits until the loop can be woken
	defer m.mailbox.Unlock()
	m.wake = s.Executor.Loop("master", m.turn)
	return m
}

// Start begins the job.
func (m *Master) Start() { m.post(func() { m.step(Begin{}) }) }

// Cancel ends the job for good.
func (m *Master) Cancel() { m.post(func() { m.step(Cancel{}) }) }

// Suspend ends the job so that it can be resumed.
func (m *Master) Suspend() { m.post(func() { m.step(Suspend{}) }) }

// Report takes in what a worker says. It may be called from any goroutine and
// doesn't block.
func (m *Master) Report(r control.Report) { m.post(func() { m.take(r) }) }

// Done is closed when the job has ended.
func (m *Master) Done() <-chan struct{} { return m.done }

// Outcome says how the job has ended, once it has.
func (m *Master) Outcome() Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outcome == nil {
		return Outcome{}
	}
	return *m.outcome
}

// View shows the job as it is now.
func (m *Master) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{Attempt: m.life.Attempt(), Failures: m.life.Failures(), Latest: m.latest()}
	v.Status, v.Since = m.life.Status()
	v.Executions = slices.Clone(m.executions.Subtasks)
	for i := range v.Executions {
		v.Executions[i].Past = slices.Clone(v.Executions[i].Past)
	}
	if m.coordinator != nil {
		v.Checkpoints = m.coordinator.Stats()
	}
	return v
}

// Checkpoints says what has become of the job's checkpoints.
func (m *Master) Checkpoints() Checkpoints {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := Checkpoints{Restores: m.restores, Restored: m.restored}
	if m.coordinator != nil {
		c.Stats, c.Sample = m.coordinator.Stats(), m.coordinator.Sample()
	}
	return c
}

// post leaves mail for the loop.
func (m *Master) post(f func()) {
	m.mailbox.Lock()
	defer m.mailbox.Unlock()
	m.mail = append(m.mail, f)
	m.wake()
}

// turn is the loop: one piece of mail.
func (m *Master) turn() executor.Progress {
	m.mailbox.Lock()
	if len(m.mail) == 0 {
		m.mailbox.Unlock()
		return executor.Idle
	}
	f := m.mail[0]
	m.mail = m.mail[1:]
	m.mailbox.Unlock()

	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	if m.outcome != nil {
		close(m.done)
		return executor.Closed
	}
	return executor.Worked
}

// errand is work beside the loop. Work that calls the user's functions says whose.
type errand struct {
	at       place
	operator atomic.Pointer[string]
	stack    func() string // where it is now
}

// calls says that a function of an operator is called next.
func (e *errand) calls(operator string) { e.operator.Store(&operator) }

// work runs f beside the loop, and then, on the loop, tells then how it went.
// Close waits for it.
func (m *Master) work(name string, f func() error, then func(error)) {
	m.errand(name, func(*errand) error { return f() }, then)
}

// errand is work that may call the user's functions.
func (m *Master) errand(name string, f func(*errand) error, then func(error)) {
	var at executor.Goroutine
	e := &errand{at: part(name), stack: at.Stack}
	m.errands[e] = true
	m.Executor.Go(name, func() {
		at.Here()
		err := errors.New("it ended its goroutine") // runtime.Goexit, as a test's FailNow does
		defer func() { m.returned(e, func() { then(err) }) }()
		err = guarded(func() error { return f(e) })
	})
}

// returned ends an errand. If it has been given up, nobody hears how it went.
func (m *Master) returned(e *errand, then func()) {
	m.post(func() {
		if m.errands[e] {
			delete(m.errands, e)
			then()
			m.settle()
		}
	})
}

// panicked is a panic, of a connector say, as an error.
type panicked struct {
	what  any
	stack string
}

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.what) }

// guarded turns a panic into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked{r, string(debug.Stack())}
		}
	}()
	return f()
}

// step takes an event to the job's life.
func (m *Master) step(e Event) {
	for _, a := range m.life.Step(m.Executor.Now(), e) {
		m.do(a)
	}
}

// broke says that something of an attempt has failed.
func (m *Master) broke(a graph.Attempt, where place, err error, stack string, final bool) {
	if p := (panicked{}); errors.As(err, &p) {
		stack = p.stack
	}
	if a == m.life.Attempt() {
		attrs := append([]any{"attempt", a, "error", err}, where.attrs...)
		if stack != "" {
			attrs = append(attrs, "stack", stack)
		}
		m.Log.Error("attempt failed", attrs...)
	}
	m.step(Broke{Failure{Attempt: a, At: m.Executor.Now(), Where: where.name, Err: err, Stack: stack}, final})
}

func (m *Master) do(a Action) {
	switch a := a.(type) {
	case Load:
		m.begin(a.Attempt)
	case Open:
		m.open(m.run)
	case Deploy:
		m.deploy(m.run)
	case Start:
		m.start(m.run)
	case Finish:
		m.Send(control.Finish{Attempt: a.Attempt})
	case Stop:
		m.coordinate(checkpoint.Stopped{Attempt: a.Attempt})
		m.moveAll(graph.Canceling)
		m.Send(control.Stop{Attempt: a.Attempt})
	case Close:
		m.coordinate(checkpoint.Stopped{Attempt: a.Attempt})
		m.run.stop()
		m.closing = true
		m.watch()
		m.settle()
	case Wait:
		m.Log.Warn("the job restarts", "attempt", a.Attempt+1, "delay", a.Delay)
		m.alarm(a.Delay, func() { m.step(Elapsed{a.Attempt}) })
	case End:
		m.end(a)
	}
}

// ErrStuck is the error of a function that doesn't return.
var ErrStuck = errors.New("its goroutine can't be ended, and stays as long as the process")

// stuck gives up an operator's function.
func (m *Master) stuck(a graph.Attempt, where place, operator, stack string) {
	err := fmt.Errorf("operator %q didn't return within %v after it was told to stop; %w", operator, m.StopTimeout, ErrStuck)
	attrs := append([]any{"attempt", a, "operator", operator, "timeout", m.StopTimeout, "stack", stack}, where.attrs...)
	m.Log.Error("a function was told to stop and doesn't return", attrs...)
	m.step(Stuck{Failure{Attempt: a, At: m.Executor.Now(), Where: where.name, Err: err, Stack: stack}})
}

// watch sees to it that committers and enumerators return in time.
func (m *Master) watch() {
	if m.StopTimeout > 0 {
		m.alarm(m.StopTimeout, m.giveUp)
	}
}

// giveUp gives up the functions that Close waits for. What the engine does itself
// is waited for.
func (m *Master) giveUp() {
	for e := range m.errands {
		if operator := e.operator.Load(); operator != nil && m.closing {
			delete(m.errands, e)
			m.stuck(m.run.attempt, e.at, *operator, e.stack())
		}
	}
	m.settle()
}

// alarm runs f on the loop, d from now. What it was set for before isn't awaited
// any more.
func (m *Master) alarm(d time.Duration, f func()) {
	m.silence()
	m.silence = m.Executor.After(d, func() { m.post(f) })
}

// move notes what has become of a subtask. What doesn't fit was said twice.
func (m *Master) move(s graph.Subtask, to graph.State) {
	if e := m.executions.Find(s); e != nil {
		_ = e.To(to)
	}
}

func (m *Master) moveAll(to graph.State) {
	for i := range m.executions.Subtasks {
		_ = m.executions.Subtasks[i].To(to)
	}
}

// take takes in what a worker says. Of earlier attempts only what they wrote
// matters: it is to be deleted.
func (m *Master) take(r control.Report) {
	if r, ok := r.(control.Ack); ok {
		m.coordinate(checkpoint.Ack{Attempt: r.Attempt, Subtask: r.Subtask, Checkpoint: r.Checkpoint, State: r.State, Measures: r.Measures})
		return
	}
	if control.AttemptOf(r) != m.life.Attempt() {
		return
	}
	switch r := r.(type) {
	case control.Ready:
		m.move(r.Subtask, graph.Initializing)
		m.step(Ready{r.Attempt, r.Subtask})
	case control.Request:
		m.request(r)
	case control.Decline:
		m.coordinate(checkpoint.Decline{Attempt: r.Attempt, Subtask: r.Subtask, Checkpoint: r.Checkpoint, Reason: r.Reason, NotReady: r.NotReady})
	case control.Ended:
		m.move(r.Subtask, graph.Finished)
		m.coordinate(checkpoint.Ended{Attempt: r.Attempt, Subtask: r.Subtask})
	case control.Failed:
		if e := m.executions.Find(r.Subtask); e != nil {
			_ = e.Fail(r.Err)
		}
		m.broke(r.Attempt, m.subtask(r.Subtask), r.Err, r.Stack, r.Final)
	case control.Overdue:
		m.stuck(r.Attempt, m.subtask(r.Subtask), r.Operator, r.Stack)
		m.step(Stopped{r.Attempt, r.Subtask})
	case control.Stopped:
		if status, _ := m.life.Status(); status != Finishing {
			m.move(r.Subtask, graph.Canceled)
		} else {
			m.move(r.Subtask, graph.Finished)
		}
		m.step(Stopped{r.Attempt, r.Subtask})
	}
}

// called is how the user knows an operator.
func called(op graph.Operator) string { return cmp.Or(op.UID, op.Name) }

// place is a part of a job, as people know it and as the log does.
type place struct {
	name  string
	attrs []any
}

// part is one of the engine's.
func part(name string) place { return place{name, []any{"part", name}} }

// whole is all of a task.
func whole(t graph.Task) place { return place{t.Name, []any{"task", t.Name}} }

func (m *Master) subtask(s graph.Subtask) place {
	t := m.Graph.Task(s.Task)
	return place{fmt.Sprintf("%s (%d/%d)", t.Name, s.Index+1, t.Parallelism), []any{"task", t.Name, "subtask", s.Index}}
}

// latest is the newest complete checkpoint, 0 if there is none.
func (m *Master) latest() uint64 {
	if len(m.complete) == 0 {
		return 0
	}
	return m.complete[len(m.complete)-1]
}

// end puts the job's end on record; then, by its policy, checkpoints go.
func (m *Master) end(e End) {
	o := Outcome{Status: e.Status, Err: e.Err, Latest: m.latest(), Opened: m.opened}
	if e.Status == Finished {
		o.Savepoint = m.stopped
	}
	switch {
	case m.Savepoint.Checkpoint > o.Latest:
		o.Latest, o.Dir = m.Savepoint.Checkpoint, m.Savepoint.Dir
	case o.Latest > 0:
		o.Dir = m.Storage.Dir(o.Latest)
	}
	m.work("end", func() error {
		if err := m.Ended(o); err != nil {
			return fmt.Errorf("record that the job is %v: %w", o.Status, err)
		}
		if o.Status == Finished || o.Status == Canceled && !m.KeepCancelled {
			if err := m.Storage.Clear(); err != nil {
				m.Log.Warn("checkpoints of an ended job are left", "error", err)
			}
		}
		return nil
	}, func(err error) {
		o.Err = errors.Join(o.Err, err)
		m.silence()
		m.outcome = &o
		m.Log.Info("the job has ended", "status", o.Status) // the error is the caller's to show
	})
}
