package task

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/align"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
)

// pending is a snapshot that isn't written yet.
type pending struct {
	barrier  record.Barrier
	parts    []operator.Part // in the order of the chain
	captured int             // parts that need no more capturing
	cancel   context.CancelFunc
}

// drop frees what won't be written.
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
	number uint64       // of the newest request
	open   bool         // it has had no answer
	held   []Assignment // answers that belong behind a barrier that hasn't come
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
	s.admit(s.reached)
}

// admit takes in the splits that belong before or behind barriers up to n.
func (s *Subtask) admit(n uint64) {
	held := s.requests.held
	s.requests.held = nil
	for _, a := range held {
		if a.After > n {
			s.requests.held = append(s.requests.held, a)
		} else if err := s.source.Assign(a.Splits, a.NoMore); err != nil {
			s.chain.Fail(s.plan.Operators[0].Context.Name, err)
		}
	}
}

func (s *Subtask) trigger(b record.Barrier, assigned uint64) {
	if s.life < running || b.Checkpoint <= s.reached {
		return
	}
	if s.requests.answered() < assigned {
		s.plan.Reports.Decline(b.Checkpoint, "splits of the source are still on their way")
		s.act(s.align.Step(align.Cancelled{Checkpoint: b.Checkpoint}))
		return
	}
	s.admit(b.Checkpoint - 1)
	s.act(s.align.Step(align.Barrier{Barrier: b}))
}

func (s *Subtask) abort(n uint64) {
	for i, p := range s.pending {
		if p.barrier.Checkpoint == n {
			p.drop()
			s.pending = slices.Delete(s.pending, i, i+1)
			break
		}
	}
	s.act(s.align.Step(align.Aborted{Checkpoint: n}))
	if s.source != nil {
		s.reach(n)
	}
}

// act does what the aligner says.
func (s *Subtask) act(actions []align.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case align.Hold:
			s.plan.Inbox.Hold(a.Channel)
			if err := s.plan.Executor.Reach("align"); err != nil {
				s.chain.Fail(s.plan.Operators[0].Context.Name, err)
			}
		case align.Release:
			for lane := range s.plan.Inputs {
				s.plan.Inbox.Release(lane)
			}
		case align.Complete:
			s.freeze(a.Barrier)
			s.reach(a.Barrier.Checkpoint)
		case align.Cancel:
			s.forward(exchange.Element{Kind: exchange.Cancel, Barrier: record.Barrier{Checkpoint: a.Checkpoint}})
			s.reach(a.Checkpoint)
		}
	}
}

// reach lets in the splits that were held back until barrier n.
func (s *Subtask) reach(n uint64) {
	s.reached = max(s.reached, n)
	if s.source != nil {
		s.admit(s.reached)
	}
}

// freeze takes the state of the chain at a barrier and lets the barrier go on.
func (s *Subtask) freeze(b record.Barrier) {
	for _, r := range s.routers {
		r.Flush()
	}
	p := &pending{barrier: b}
	for _, op := range s.operators {
		part, err := op.Freeze(b)
		if err == nil {
			p.parts = append(p.parts, part)
			err = s.plan.Executor.Reach("freeze")
		}
		if err != nil {
			p.drop()
			s.plan.Reports.Decline(b.Checkpoint, err.Error())
			s.forward(exchange.Element{Kind: exchange.Cancel, Barrier: b})
			return
		}
	}
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
			if !p.parts[p.captured].Capture(captureBudget) {
				return executor.Worked
			}
			p.captured++
		}
		s.pending = s.pending[1:]
		s.persist(p)
	}
	return executor.Idle
}

// persist writes a captured snapshot, beside, and acknowledges it.
func (s *Subtask) persist(p *pending) {
	s.writing++
	s.plan.Executor.Go("persist", func() {
		t, err := s.write(p)
		s.plan.Inbox.Post(func() {
			s.writing--
			switch {
			case s.life >= closing:
			case err != nil:
				s.plan.Reports.Decline(p.barrier.Checkpoint, err.Error())
			default:
				s.plan.Reports.Ack(p.barrier.Checkpoint, t)
			}
		})
	})
}

func (s *Subtask) write(p *pending) (t snapshot.Task, err error) {
	defer p.drop()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("write snapshot: panic: %v", r)
		}
	}()
	t, target := snapshot.Task{}, s.plan.Target(p.barrier)
	for i, part := range p.parts {
		if err := s.plan.Executor.Reach("write"); err != nil {
			return nil, err
		}
		written, err := part.Write(s.ctx, target)
		if err != nil {
			return nil, fmt.Errorf("operator %q: write snapshot: %w", s.plan.Operators[i].Context.Name, err)
		}
		t[s.plan.Operators[i].ID] = written
	}
	return t, nil
}
