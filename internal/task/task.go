// Package task is a subtask: a chain of operators, one inbox, one loop.
//
//	step: mail ─► some capturing ─► the next slice, unless an output is full
//
// The loop takes a slice of the batch at hand, small enough to take about
// 100 µs, and looks at its mail again; so a barrier, a notice or the end waits
// for a slice at most. A barrier that has come down every channel freezes the
// state of the whole chain and goes on downstream; only then is the state
// captured, between slices, and written, beside.
package task

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/internal/align"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// A Plan says what a subtask is made of.
type Plan struct {
	Name          string
	Operators     []Step // the chain in topological order, the head first
	Outputs       []Output
	Inbox         *exchange.Inbox // a lane for each input channel; one, the fetcher's, for a source
	Inputs        int             // lanes
	BufferTimeout time.Duration   // how long a begun batch may wait
	SliceMax      int             // records in a slice at most
	AtLeastOnce   bool            // barriers are counted, and no channel waits for another
	StopTimeout   time.Duration   // how long a function may take to return when the subtask is stopped; 0: for ever
	Executor      executor.Executor
	Target        func(b record.Barrier) state.Target // where the files of a checkpoint go
	AckLimit      int64                               // bytes of an acknowledgement at most; 0: any number
	Reports       Reports
	Logger        *slog.Logger
}

// A Step is one operator of the chain.
type Step struct {
	ID   graph.ID
	Spec operator.Spec
	// Context is the operator's; the subtask fills in Context, Chain and Executor.
	Context *operator.Context
	Next    []graph.Link // to its consumers in the chain
	Outputs []int        // the edges that leave it, as indices into Outputs
}

// An Output is an edge to another task.
type Output struct {
	Edge    operator.Edge
	Routing operator.Routing
	Side    string // the tag of the side output that it carries; empty: the main output
}

// Reports is whom a subtask tells what became of it. The methods may be called
// from any goroutine and don't block.
type Reports interface {
	Ready()
	Request(n uint64)
	Ack(checkpoint uint64, t snapshot.Task, m snapshot.Measures)
	Decline(checkpoint uint64, reason string)
	NotReady(checkpoint uint64, reason string) // it declines, and there is nothing wrong
	Ended()
	Failed(err error, stack string) // Stopped follows
	Stopped()                       // nothing of it runs any more
	// Overdue says that a function of an operator doesn't return in time, and what
	// it is at. What it emits when it does goes nowhere.
	Overdue(operator, stack string)
}

// Subtask is one parallel copy of a task, in one attempt. Its exported methods
// may be called from any goroutine; all else belongs to its loop.
type Subtask struct {
	plan   Plan
	ctx    context.Context
	cancel context.CancelFunc
	life   life

	chain     operator.Chain
	operators []operator.Operator // in the plan's order; nil where not open
	source    operator.Source     // the head, if it is one
	routers   []operator.Router
	align     *align.Aligner
	openEnds  int // lanes whose end hasn't come
	intake    intake

	batch   exchange.Element // records at hand
	length  int              // of the batch
	at      int              // next record of it
	slice   int              // records to take at once
	flushed time.Time        // when the routers' batches were last flushed

	came     map[uint64]time.Time // when the first barrier of each checkpoint did, until it has been passed on
	pending  []*pending           // oldest first
	writing  map[uint64]*writing  // snapshots being written
	requests requests
	again    func() // cancels the timer that repeats reports

	goroutine executor.Goroutine
	free      atomic.Bool // of the user's functions, for ever
	gone      atomic.Bool // Stopped was reported
	patience  func()      // cancels the timer for Overdue
}

// life is how far a subtask has got. It only rises.
type life int

const (
	opening life = iota
	waiting      // open, and told so
	running
	ended   // all input has come and all output has gone; it answers barriers
	closing // what runs beside is still at work
	closed
)

// intake is whether a subtask takes what comes. Only that of a source changes.
type intake int

const (
	taking   intake = iota
	paused          // until Start
	draining        // its input ends with the next turn
	drained
)

// New makes a subtask and starts its loop, which opens the operators and reports
// Ready.
func New(plan Plan) *Subtask {
	s := &Subtask{plan: plan, openEnds: plan.Inputs, slice: min(16, plan.SliceMax), align: align.New(plan.Inputs, plan.AtLeastOnce), came: map[uint64]time.Time{}, writing: map[uint64]*writing{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.operators = make([]operator.Operator, len(plan.Operators))
	s.plan.Inbox.Attach(s.plan.Executor.Loop(plan.Name, s.step))
	return s
}

// Start lets the subtask take records, or go on with that after Pause.
func (s *Subtask) Start() { s.post(s.start) }

// Pause has a source subtask take no more records, whatever its fetcher has read.
func (s *Subtask) Pause() { s.post(func() { s.admits(taking, paused) }) }

// Drain ends the input of a source subtask where it is.
func (s *Subtask) Drain() { s.post(func() { s.admits(taking, draining) }) }

// Trigger puts a barrier into a source subtask that must have seen the answers
// to its first requests up to number assigned.
func (s *Subtask) Trigger(b record.Barrier, assigned uint64) {
	s.post(func() { s.trigger(b, assigned) })
}

// Completed says that a checkpoint, and so each older one, is complete.
func (s *Subtask) Completed(checkpoint uint64) { s.post(func() { s.completed(checkpoint) }) }

// Abort says that a checkpoint won't be completed.
func (s *Subtask) Abort(checkpoint uint64) { s.post(func() { s.abort(checkpoint) }) }

// Assign answers a Request. Splits that belong behind the barrier of checkpoint
// after are held back until then.
func (s *Subtask) Assign(a Assignment) { s.post(func() { s.assign(a) }) }

// Fail ends the subtask because of an error outside of it. The stack is that of a panic.
func (s *Subtask) Fail(err error, stack string) { s.post(func() { s.fail(err, stack) }) }

// Stop ends the subtask: at once, also if a user function is waiting for its
// context. It reports Stopped when nothing of it runs any more.
func (s *Subtask) Stop() {
	s.cancel()
	s.chain.Halt()
	if s.plan.StopTimeout > 0 && !s.gone.Load() {
		s.watch()
	}
	s.post(s.close)
}

// watch sees to it that functions return in time. The loop itself says what runs
// beside it, unless it is stuck.
func (s *Subtask) watch() {
	cancel := s.plan.Executor.After(s.plan.StopTimeout, func() {
		if s.free.Load() {
			s.plan.Inbox.Post(s.overdue)
		} else {
			s.plan.Reports.Overdue(s.chain.At(), s.goroutine.Stack())
		}
	})
	s.plan.Inbox.Post(func() {
		if s.patience != nil {
			s.patience()
		}
		s.patience = cancel
	})
}

// overdue reports what still runs beside the loop.
func (s *Subtask) overdue() {
	if s.source != nil && !s.source.Closed() {
		s.plan.Reports.Overdue(s.name(0), s.source.Stack())
		return
	}
	for _, w := range s.writing {
		s.plan.Reports.Overdue(s.name(int(w.at.Load())), w.goroutine.Stack())
		return
	}
}

// post leaves mail that is ignored once the subtask is closing.
func (s *Subtask) post(mail func()) {
	s.plan.Inbox.Post(func() {
		if s.life < closing {
			mail()
		}
	})
}

// step is one turn of the loop, whatever the user's functions do.
func (s *Subtask) step() (p executor.Progress) {
	s.goroutine.Here()
	returned := false
	defer operator.Caught(&returned, func(what any, stack string) {
		s.fail(fmt.Errorf("operator %q: panic: %v", s.chain.At(), what), stack)
		s.goroutine.Forget()
		p = executor.Worked
	})
	p = s.turn()
	returned = true
	return p
}

func (s *Subtask) turn() (p executor.Progress) {
	for mail := s.plan.Inbox.Mail(); mail != nil; mail = s.plan.Inbox.Mail() {
		mail()
	}
	switch s.life {
	case opening:
		s.open()
		p = executor.Worked
	case waiting:
		p = executor.Idle
	case running, ended:
		p = s.work()
	case closing:
		if p = executor.Idle; len(s.writing) == 0 && (s.source == nil || s.source.Closed()) {
			s.life, p = closed, executor.Closed
			s.operators, s.source, s.routers, s.batch = nil, nil, nil, exchange.Element{} // it may be long until the next attempt
			s.gone.Store(true)
			if s.patience != nil {
				s.patience()
			}
			s.plan.Reports.Stopped()
		}
		return p
	}
	if err := s.err(); err != nil {
		s.fail(err, "")
		return executor.Worked
	}
	return p
}

// err returns the first error of the chain or of an operator's state.
func (s *Subtask) err() error {
	if err := s.chain.Err(); err != nil {
		return err
	}
	for i, op := range s.operators {
		if op != nil && op.Err() != nil {
			return fmt.Errorf("operator %q: state: %w", s.name(i), op.Err())
		}
	}
	return nil
}

func (s *Subtask) name(operator int) string { return s.plan.Operators[operator].Context.Name }

// open makes the operators, the last ones first, since each needs its receivers.
func (s *Subtask) open() {
	for _, o := range s.plan.Outputs {
		o.Routing.Chain = &s.chain
		s.routers = append(s.routers, o.Edge.Route(o.Routing))
	}
	for i := len(s.plan.Operators) - 1; i >= 0; i-- {
		st := s.plan.Operators[i]
		var next []any
		for _, link := range st.Next {
			next = append(next, operator.To(link.Side, s.operators[link.To].Receiver()))
		}
		for _, o := range st.Outputs {
			next = append(next, operator.To(s.plan.Outputs[o].Side, s.routers[o].Receiver()))
		}
		c := st.Context
		c.Context, c.Chain, c.Executor = s.ctx, &s.chain, s.plan.Executor
		s.chain.Enter(c) // the head comes last, and so is at work when nobody else is
		op, err := st.Spec.Open(c, next)
		s.operators[i] = op
		if err != nil {
			s.chain.Fail(c.Name, fmt.Errorf("open: %w", err))
		}
		if s.chain.Err() != nil {
			return
		}
	}
	s.source, _ = s.operators[0].(operator.Source)
	s.life = waiting
	s.plan.Reports.Ready()
}

func (s *Subtask) start() {
	s.admits(paused, taking)
	if s.life != waiting {
		return
	}
	s.life, s.flushed = running, s.plan.Executor.Now()
	if s.source != nil {
		s.source.Begin(operator.Fetching{
			To:   s.plan.Inbox.Sender(0, fetchAhead, s.source.Resume),
			Want: func() { s.post(s.request) },
			Failed: func(err error, stack string) {
				s.post(func() { s.fail(err, stack) })
			},
			Done: s.plan.Inbox.Wake,
		})
	}
	s.repeat()
}

// admits changes what a source that is at work does with what comes.
func (s *Subtask) admits(from, to intake) {
	if s.life == running && s.intake == from {
		s.intake = to
	}
}

// fetchAhead is how many fetched batches may wait for their subtask.
const fetchAhead = 4

// captureBudget is how many entries of state are captured between two slices;
// it takes about as long as a slice.
const captureBudget = 4096

// work does the next thing there is to do.
func (s *Subtask) work() executor.Progress {
	captured := s.capture()
	if s.full() {
		return captured
	}
	switch s.intake {
	case paused, drained:
		s.flush()
		return captured
	case draining: // what its fetcher has read ahead isn't taken
		s.intake = drained
		s.end()
		return executor.Worked
	}
	if s.batch.Batch == nil {
		lane, e, ok := s.plan.Inbox.Take()
		if !ok {
			s.flush()
			return captured
		}
		s.take(lane, e)
	}
	if s.batch.Batch != nil {
		s.process()
	}
	return executor.Worked
}

func (s *Subtask) full() bool {
	for _, r := range s.routers {
		if r.Full() {
			return true
		}
	}
	return false
}

func (s *Subtask) flush() {
	for _, r := range s.routers {
		r.Flush()
	}
}

// take begins with an element of a lane.
func (s *Subtask) take(lane int, e exchange.Element) {
	switch e.Kind {
	case exchange.Records:
		s.batch, s.at = e, 0
		s.length = s.operators[0].Length(e.Batch)
	case exchange.Barrier:
		s.arrive(e.Barrier.Checkpoint)
		s.act(s.align.Step(align.Barrier{Channel: lane, Barrier: e.Barrier}))
	case exchange.Cancel:
		s.act(s.align.Step(align.Cancelled{Channel: lane, Checkpoint: e.Barrier.Checkpoint}))
	case exchange.End:
		if s.openEnds--; s.openEnds == 0 {
			s.end()
		}
	}
}

// process takes a slice of the batch at hand.
func (s *Subtask) process() {
	began := s.plan.Executor.Now()
	to := min(s.at+s.slice, s.length)
	if to > s.at {
		s.operators[0].Slice(s.batch.Batch, s.at, to)
	}
	now := s.plan.Executor.Now()
	s.fit(to-s.at, now.Sub(began))
	s.at = to
	whole := to == s.length
	if s.source != nil {
		s.source.Consumed(s.batch.Note, to, whole)
	}
	if whole {
		s.batch = exchange.Element{}
	}
	if now.Sub(s.flushed) >= s.plan.BufferTimeout {
		s.flush()
		s.flushed = now
	}
}

// sliceTime is how long a slice should take.
const sliceTime = 100 * time.Microsecond

// fit makes the next slice longer or shorter.
func (s *Subtask) fit(n int, took time.Duration) {
	switch {
	case took > 2*sliceTime && s.slice > 1:
		s.slice /= 2
	case took < sliceTime/2 && n == s.slice:
		s.slice = min(2*s.slice, s.plan.SliceMax)
	}
}

// end passes the end of input through the chain.
func (s *Subtask) end() {
	for _, op := range s.operators {
		op.End()
	}
	if s.err() != nil {
		return
	}
	s.forward(exchange.Element{Kind: exchange.End})
	s.life = ended
	s.plan.Reports.Ended()
}

func (s *Subtask) forward(e exchange.Element) {
	for _, r := range s.routers {
		r.Send(e)
	}
}

// fail closes the subtask because of an error, which is reported first: closing
// may take long. Once the subtask has been stopped an error is no failure.
func (s *Subtask) fail(err error, stack string) {
	switch {
	case s.life >= closing:
		return
	case s.ctx.Err() == nil:
		s.plan.Reports.Failed(err, stack)
	case stack != "":
		s.plan.Logger.Warn("a function panicked while it was told to stop", "error", err, "stack", stack)
	}
	s.close()
}

// close ends everything that runs for the subtask; Stopped follows when it has ended.
func (s *Subtask) close() {
	s.life = closing
	s.cancel()
	if s.again != nil {
		s.again()
	}
	for _, p := range s.pending {
		p.drop()
	}
	s.pending = nil
	for i, op := range s.operators {
		if op != nil {
			s.chain.Enter(s.plan.Operators[i].Context)
			s.closeOperator(s.name(i), op)
		}
	}
	s.free.Store(true)
}

// closeOperator closes one operator, whatever its Close does.
func (s *Subtask) closeOperator(name string, op operator.Operator) {
	defer func() {
		if r := recover(); r != nil {
			s.plan.Logger.Warn("an operator panicked while it closed", "operator", name, "error", r, "stack", string(debug.Stack()))
		}
	}()
	if err := op.Close(); err != nil {
		s.plan.Logger.Warn("an operator didn't close well", "operator", name, "error", err)
	}
}

// repeatAfter is when a report that should have had an answer is repeated.
const repeatAfter = time.Second

// repeat says again, from time to time, what may have been lost.
func (s *Subtask) repeat() {
	s.again = s.plan.Executor.After(repeatAfter, func() {
		s.post(func() {
			if s.requests.open {
				s.plan.Reports.Request(s.requests.number)
			}
			if s.life == ended {
				s.plan.Reports.Ended()
			}
			s.repeat()
		})
	})
}
