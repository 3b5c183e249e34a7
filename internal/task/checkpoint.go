package task

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/internal/align"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// pending is a snapshot that isn't captured yet.
type pending struct {
	barrier  record.Barrier
	parts    []operator.Part // in the order of the chain
	captured int             // parts that need no more capturing
	frozen   time.Time
	measures snapshot.Measures
}

// drop ends the capturing.
func (p *pending) drop() {
	for _, part := range p.parts {
		part.Drop()
	}
}

// An Assignment is the answer to a request for splits.
type Assignment struct {
	Request uint64
	Splits  [][]byte
	NoMore  bool
	// After is the checkpoint behind whose barrier the splits belong.
	After uint64
}

// requests is what a source subtask knows of the splits it asked for.
type requests struct {
	number  uint64       // of the newest request
	open    bool         // it has had no answer
	held    []Assignment // answers that belong behind a barrier that hasn't come
	reached uint64       // newest checkpoint that has come, or won't
}

func (s *Subtask) request() {
	s.requests.number++
	s.requests.open = true
	s.plan.Reports.Request(s.requests.number)
}

// answered is how many requests have had their answer.
func (r *requests) answered() uint64 {
	if r.open {
		return r.number - 1
	}
	return r.number
}

func (s *Subtask) assign(a Assignment) {
	if !s.requests.open || a.Request != s.requests.number {
		return // a repeated answer
	}
	s.requests.open = false
	s.requests.held = append(s.requests.held, a)
	s.admit(s.requests.reached)
}

// admit takes in the splits that belong before or behind barriers up to n.
func (s *Subtask) admit(n uint64) {
	held := s.requests.held
	s.requests.held = nil
	for _, a := range held {
		if a.After > n {
			s.requests.held = append(s.requests.held, a)
		} else if err := s.source.Assign(a.Splits, a.NoMore); err != nil {
			s.chain.Fail(s.name(0), err)
		}
	}
}

// reach notes that barrier n has been sent, or won't be: splits that were held
// back for it come in.
func (s *Subtask) reach(n uint64) {
	s.requests.reached = max(s.requests.reached, n)
	maps.DeleteFunc(s.came, func(k uint64, _ time.Time) bool { return k <= n })
	if s.source != nil {
		s.admit(s.requests.reached)
	}
}

func (s *Subtask) trigger(b record.Barrier, assigned uint64) {
	switch {
	case s.life < running:
		s.plan.Reports.NotReady(b.Checkpoint, "the subtask is starting")
	case b.Checkpoint <= s.requests.reached: // it comes late
	case s.requests.answered() < assigned:
		s.plan.Reports.NotReady(b.Checkpoint, "splits of the source are still on their way")
		s.plan.Reports.Request(s.requests.number) // the answer is lost, or late
		s.act(s.align.Step(align.Cancelled{Checkpoint: b.Checkpoint}))
	default:
		s.admit(b.Checkpoint - 1)
		s.arrive(b.Checkpoint)
		s.act(s.align.Step(align.Barrier{Barrier: b}))
	}
}

// abort gives up a checkpoint. A source says so in the stream, as somebody
// downstream may be waiting for its barrier.
func (s *Subtask) abort(n uint64) {
	s.pending = slices.DeleteFunc(s.pending, func(p *pending) bool {
		if p.barrier.Checkpoint == n {
			p.drop()
		}
		return p.barrier.Checkpoint == n
	})
	if w := s.writing[n]; w != nil {
		w.cancel()
	}
	if s.source != nil {
		s.act(s.align.Step(align.Cancelled{Checkpoint: n}))
	} else {
		s.act(s.align.Step(align.Aborted{Checkpoint: n}))
	}
}

// completed lets operators forget what was kept for checkpoints up to n.
func (s *Subtask) completed(n uint64) {
	for _, op := range s.operators {
		if op != nil {
			op.Completed(n)
		}
	}
}

// act does what the aligner says.
func (s *Subtask) act(actions []align.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case align.Hold:
			s.plan.Inbox.Hold(a.Channel)
			if err := s.plan.Executor.Reach("align"); err != nil {
				s.chain.Fail(s.name(0), err)
			}
		case align.Release:
			s.plan.Inbox.Release()
		case align.Complete:
			s.freeze(a.Barrier)
			s.reach(a.Barrier.Checkpoint)
		case align.Cancel:
			s.forward(exchange.Element{Kind: exchange.Cancel, Barrier: record.Barrier{Checkpoint: a.Checkpoint}})
			s.reach(a.Checkpoint)
		}
	}
}

// arrive notes when the first barrier of a checkpoint is here.
func (s *Subtask) arrive(n uint64) {
	if _, again := s.came[n]; !again && n > s.requests.reached {
		s.came[n] = s.plan.Executor.Now()
	}
}

// freeze takes the state of the chain at a barrier and lets the barrier go on.
func (s *Subtask) freeze(b record.Barrier) {
	began, came := s.plan.Executor.Now(), s.came[b.Checkpoint]
	p := &pending{barrier: b, measures: snapshot.Measures{
		StartDelay: max(0, came.Sub(time.Unix(0, b.At))), Alignment: began.Sub(came),
	}}
	for i, op := range s.operators {
		outer := s.chain.Enter(s.plan.Operators[i].Context)
		part, err := op.Freeze(b)
		if s.chain.Enter(outer); err == nil {
			p.parts = append(p.parts, part)
			err = s.plan.Executor.Reach("freeze")
		}
		if err != nil {
			p.drop()
			s.plan.Reports.Decline(b.Checkpoint, fmt.Sprintf("operator %q: %v", s.name(i), err))
			s.forward(exchange.Element{Kind: exchange.Cancel, Barrier: b})
			return
		}
	}
	p.frozen = s.plan.Executor.Now()
	p.measures.Sync = p.frozen.Sub(began)
	s.forward(exchange.Element{Kind: exchange.Barrier, Barrier: b})
	s.pending = append(s.pending, p)
}

// capture copies some of the oldest frozen state, and hands it over to be
// written when all is copied. It says whether there is more to copy.
func (s *Subtask) capture() executor.Progress {
	for len(s.pending) > 0 {
		p := s.pending[0]
		if err := s.plan.Executor.Reach("capture"); err != nil {
			s.pending = s.pending[1:]
			p.drop()
			s.plan.Reports.Decline(p.barrier.Checkpoint, err.Error())
			continue
		}
		for p.captured < len(p.parts) {
			outer := s.chain.Enter(s.plan.Operators[p.captured].Context)
			done := p.parts[p.captured].Capture(captureBudget)
			if s.chain.Enter(outer); !done {
				return executor.Worked
			}
			p.captured++
		}
		s.pending = s.pending[1:]
		s.persist(p)
	}
	return executor.Idle
}

// writing is a snapshot being written.
type writing struct {
	cancel    context.CancelFunc
	at        atomic.Int64 // the operator, as an index into the chain
	goroutine executor.Goroutine
}

// persist writes a captured snapshot, beside, and acknowledges it.
func (s *Subtask) persist(p *pending) {
	n := p.barrier.Checkpoint
	ctx, cancel := context.WithCancel(s.ctx)
	w := &writing{cancel: cancel}
	s.writing[n] = w
	s.plan.Executor.Go("persist", func() {
		w.goroutine.Here()
		t, stack, err := s.write(ctx, p, &w.at)
		s.plan.Inbox.Post(func() {
			delete(s.writing, n)
			unwanted := ctx.Err() != nil
			cancel()
			switch {
			case stack != "":
				s.fail(err, stack)
			case err == nil: // also if nobody wants it any more: then it is to be deleted
				s.plan.Reports.Ack(n, t, p.measures)
			case !unwanted:
				s.plan.Reports.Decline(n, err.Error())
			}
		})
	})
}

// write stores a snapshot and says which operator's it is at. The stack is that of
// a panic.
func (s *Subtask) write(ctx context.Context, p *pending, at *atomic.Int64) (t snapshot.Task, stack string, err error) {
	defer func() {
		if r := recover(); r != nil {
			stack, err = string(debug.Stack()), fmt.Errorf("operator %q: write snapshot: panic: %v", s.name(int(at.Load())), r)
		}
	}()
	t, target, m := snapshot.Task{}, &counting{Target: s.plan.Target(p.barrier)}, &p.measures
	for i, part := range p.parts {
		at.Store(int64(i))
		if err := s.plan.Executor.Reach("write"); err != nil {
			return nil, "", err
		}
		written, err := part.Write(ctx, target)
		if err != nil {
			return nil, "", fmt.Errorf("operator %q: write snapshot: %w", s.name(i), err)
		}
		written.Ended = written.Ended && !p.barrier.Drained
		t[s.plan.Operators[i].ID] = written
		m.State += written.Bytes()
		m.Written += written.Loose()
	}
	m.Written += target.written.Load()
	m.Async = s.plan.Executor.Now().Sub(p.frozen)
	if most := s.plan.AckLimit; most > 0 {
		return t, "", t.Fits(most)
	}
	return t, "", nil
}

// counting is a target that knows how much has been written to it.
type counting struct {
	state.Target
	written atomic.Int64
}

// Create implements state.Target.
func (c *counting) Create(ctx context.Context) (state.TargetFile, error) {
	f, err := c.Target.Create(ctx)
	if err != nil {
		return nil, err
	}
	return counted{f, c}, nil
}

type counted struct {
	state.TargetFile
	in *counting
}

// Finish implements state.TargetFile.
func (c counted) Finish() (state.File, error) {
	f, err := c.TargetFile.Finish()
	if err == nil {
		c.in.written.Add(f.Size)
	}
	return f, err
}
