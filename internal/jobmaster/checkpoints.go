package jobmaster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

// coordinate takes an event to the checkpoint coordinator.
func (m *Master) coordinate(e checkpoint.Event) {
	if m.coordinator == nil {
		return
	}
	for _, a := range m.coordinator.Step(m.Executor.Now(), e) {
		m.carryOut(a)
	}
	m.schedule()
}

// schedule sets the clock for the coordinator's next Tick.
func (m *Master) schedule() {
	at, ok := m.coordinator.Next()
	if ok && at.Equal(m.tickAt) {
		return
	}
	m.untick()
	m.tickAt = at
	if ok {
		m.untick = m.Executor.After(max(0, at.Sub(m.Executor.Now())), func() {
			m.post(func() {
				m.tickAt = time.Time{}
				m.coordinate(checkpoint.Tick{})
			})
		})
	}
}

func (m *Master) carryOut(a checkpoint.Action) {
	switch a := a.(type) {
	case checkpoint.Pause:
		m.Send(control.Pause{Attempt: m.run.attempt})
	case checkpoint.Drain:
		m.Send(control.Drain{Attempt: m.run.attempt})
	case checkpoint.Resume:
		m.Send(control.Start{Attempt: m.run.attempt})
	case checkpoint.Enumerate:
		if a.Savepoint != 0 {
			m.savepoints[a.Checkpoint] = m.requests[a.Savepoint].place
		}
		m.enumerated(m.run, a.Checkpoint)
	case checkpoint.Trigger:
		m.trigger(m.run, a)
	case checkpoint.Store:
		m.store(m.run, a)
	case checkpoint.Commit:
		m.commit(m.run, a.Checkpoint)
	case checkpoint.Notify:
		m.notify(a.Checkpoint)
	case checkpoint.Abort:
		m.Log.Warn("checkpoint failed", "attempt", m.run.attempt, "checkpoint", a.Checkpoint, "error", a.Reason)
		m.Send(control.Abort{Attempt: m.run.attempt, Checkpoint: a.Checkpoint})
	case checkpoint.Discard:
		m.complete = slices.DeleteFunc(m.complete, func(n uint64) bool { return n == a.Checkpoint })
		place := m.place(a.Checkpoint)
		m.inTurn(a.Checkpoint, "discard", func() error { return place.Discard(a.Checkpoint) }, m.leftover(a.Checkpoint))
	case checkpoint.Release:
		place := m.place(a.Checkpoint)
		m.inTurn(a.Checkpoint, "release", func() error { return place.Release(a.Checkpoint, a.State) }, m.leftover(a.Checkpoint))
	case checkpoint.Answer:
		m.answer(a)
	case checkpoint.FailAttempt:
		m.broke(m.run.attempt, part("checkpoint"), errors.New(a.Reason), "", false)
	case checkpoint.Finish:
		m.step(Ended{m.run.attempt})
	}
}

// place is where the files of a checkpoint go. Only the loop may ask.
func (m *Master) place(n uint64) snapshot.Place {
	if p := m.savepoints[n]; p != nil {
		return p
	}
	return m.Storage
}

// request is somebody who waits for a checkpoint.
type request struct {
	place snapshot.Place // of a savepoint, else nil
	stop  bool           // the job is to end with it
	then  func(Answer)
}

// An Answer says where a checkpoint is that was asked for.
type Answer struct {
	Checkpoint uint64
	Dir        string // the URI of its directory, empty in memory or where there is none
	Err        error
}

// Request asks for a checkpoint, or for a savepoint in a place of its own. Unless the
// job ends before, then hears once, on the loop, what has become of it.
func (m *Master) Request(savepoint snapshot.Place, then func(Answer)) {
	m.ask(request{place: savepoint, then: then}, func(id uint64) checkpoint.Event {
		return checkpoint.Request{ID: id, Savepoint: savepoint != nil}
	})
}

// Stop asks for a savepoint, and for the end of the job after it. Drain has the input
// end before the savepoint. Then hears once, on the loop, that the job is about to
// finish, or why it goes on; there may be a savepoint all the same.
func (m *Master) Stop(savepoint snapshot.Place, drain bool, then func(Answer)) {
	m.ask(request{place: savepoint, stop: true, then: then}, func(id uint64) checkpoint.Event {
		return checkpoint.Stop{ID: id, Drain: drain}
	})
}

func (m *Master) ask(r request, event func(id uint64) checkpoint.Event) {
	m.post(func() {
		if status, _ := m.life.Status(); status != Running {
			r.then(Answer{Err: fmt.Errorf("the job is %v, not %v", status, Running)})
			return
		}
		m.asked++
		m.requests[m.asked] = r
		m.coordinate(event(m.asked))
	})
}

func (m *Master) answer(a checkpoint.Answer) {
	r := m.requests[a.ID]
	delete(m.requests, a.ID)
	to := Answer{Checkpoint: a.Checkpoint}
	if a.Checkpoint != 0 {
		to.Dir = m.place(a.Checkpoint).Dir(a.Checkpoint)
	}
	switch {
	case a.Reason != "" && to.Dir != "":
		to.Err = fmt.Errorf("the savepoint is stored in %s, but the job hasn't ended with it: %s", to.Dir, a.Reason)
	case a.Reason != "":
		to.Err = errors.New(a.Reason)
	case r.stop:
		m.stopped = to.Dir
	}
	if r.place != nil && to.Dir != "" {
		m.Log.Info("savepoint taken; it is its user's to delete", "attempt", m.run.attempt, "checkpoint", a.Checkpoint, "dir", to.Dir)
	}
	r.then(to)
}

// inTurn is work on the files of one checkpoint: of two, the second waits.
func (m *Master) inTurn(n uint64, name string, f func() error, then func(error)) {
	m.turns[n] = append(m.turns[n], func() {
		m.work(name, f, func(err error) {
			then(err)
			if m.turns[n] = m.turns[n][1:]; len(m.turns[n]) > 0 {
				m.turns[n][0]()
				return
			}
			delete(m.turns, n)
		})
	})
	if len(m.turns[n]) == 1 {
		m.turns[n][0]()
	}
}

// leftover notes that files of a checkpoint, or of one before it, couldn't be deleted.
func (m *Master) leftover(n uint64) func(error) {
	return func(err error) {
		if err != nil {
			m.Log.Warn("files of a checkpoint are left", "checkpoint", n, "error", err)
		}
	}
}

// failed tells the coordinator that the driver couldn't do its part.
func (m *Master) failed(n uint64, err error) {
	m.coordinate(checkpoint.Failed{Checkpoint: n, Reason: err.Error(), Unknown: errors.Is(err, snapshot.ErrUnknown)})
}

// enumerated makes room for a checkpoint, and then takes the enumerators' parts.
func (m *Master) enumerated(r *run, n uint64) {
	place := m.place(n)
	m.inTurn(n, "begin", func() error { return place.Begin(n) }, func(err error) {
		switch {
		case r.ctx.Err() != nil:
			return
		case err != nil:
			m.failed(n, err)
			return
		}
		parts := map[graph.ID]snapshot.Enumerator{}
		r.answered[n] = map[graph.Subtask]uint64{}
		for _, e := range r.enumerators {
			part, answered := e.Snapshot(n)
			parts[e.task] = part
			for i, k := range answered {
				r.answered[n][graph.Subtask{Task: e.task, Index: i}] = k
			}
		}
		m.coordinate(checkpoint.Enumerated{Checkpoint: n, Parts: parts})
		delete(r.answered, n)
	})
}

func (m *Master) trigger(r *run, a checkpoint.Trigger) {
	n := a.Barrier.Checkpoint
	if err := m.Executor.Reach("trigger"); err != nil {
		m.failed(n, err)
		return
	}
	m.Send(control.Trigger{Attempt: r.attempt, Barrier: a.Barrier, Target: m.place(n).Dir(n), Assigned: r.answered[n]})
}

func (m *Master) store(r *run, a checkpoint.Store) {
	cp := m.assemble(r, a)
	if !cp.Savepoint || m.Policy.FromSavepoints {
		r.due[cp.Number] = due(cp)
	}
	place := m.place(cp.Number)
	m.inTurn(cp.Number, "store", func() error {
		if err := m.Executor.Reach("store"); err != nil {
			return err
		}
		if err := place.Store(cp); err != nil {
			return err
		}
		if err := m.Executor.Reach("stored"); err != nil {
			return fmt.Errorf("%w: %w", snapshot.ErrUnknown, err)
		}
		return nil
	}, func(err error) {
		if err != nil {
			delete(r.due, cp.Number)
			m.failed(cp.Number, err)
			return
		}
		if !cp.Savepoint {
			m.complete = append(m.complete, cp.Number)
		}
		m.coordinate(checkpoint.Stored{Checkpoint: cp.Number, Dir: place.Dir(cp.Number)})
	})
}

// due is what the sinks are to commit with a checkpoint.
func due(cp snapshot.Checkpoint) map[graph.ID][]snapshot.Pending {
	due := map[graph.ID][]snapshot.Pending{}
	for _, op := range cp.Operators {
		for _, s := range op.Subtasks {
			due[op.ID] = append(due[op.ID], s.Pending...)
		}
	}
	return due
}

// assemble puts the parts of a checkpoint together.
func (m *Master) assemble(r *run, a checkpoint.Store) snapshot.Checkpoint {
	cp := snapshot.Checkpoint{
		Number: a.Barrier.Checkpoint, Savepoint: a.Barrier.Savepoint,
		JobID: m.JobID, JobName: m.JobName, Began: a.Barrier.At,
	}
	for _, t := range m.Graph.Tasks {
		for _, op := range t.Operators {
			saved := snapshot.Operator{
				ID: op.ID, UID: op.UID, Name: op.Name,
				Parallelism: op.Parallelism, MaxParallelism: r.start.MaxParallelism[op.ID],
			}
			if e, ok := a.Enumerators[op.ID]; ok {
				saved.Enumerator = &e
			}
			if source := m.Sources[op.ID]; source != nil {
				saved.Schemas.Split = source.Schema()
			}
			if sink := m.Sinks[op.ID]; sink != nil {
				saved.Schemas.Committable = sink.Schema()
			}
			for i := range op.Parallelism {
				saved.Subtasks = append(saved.Subtasks, a.Subtasks[graph.Subtask{Task: t.ID, Index: i}][op.ID])
			}
			cp.Operators = append(cp.Operators, saved)
		}
	}
	return cp
}

// commit has the sinks commit what is due with a checkpoint. One that can't
// doesn't keep the others from it. What is due with a savepoint is committed once
// it is on record that restarts go on from that.
func (m *Master) commit(r *run, n uint64) {
	due, at := r.due[n], Savepoint{}
	if s := m.savepoints[n]; s != nil {
		at = Savepoint{Checkpoint: n, Dir: s.Dir(n)}
		for _, pending := range due {
			at.Committed = at.Committed || slices.ContainsFunc(pending, func(p snapshot.Pending) bool { return p.Checkpoint > r.committed })
		}
	}
	noted := false
	for k := range r.due {
		if k <= n {
			delete(r.due, k)
		}
	}
	m.errand("commit", func(e *errand) (err error) {
		if err := m.Executor.Reach("commit"); err != nil {
			return err
		}
		if at != (Savepoint{}) {
			if err := m.Note(at); err != nil {
				return fmt.Errorf("put the savepoint on record: %w", err)
			}
			noted = true
		}
		for _, c := range r.committers {
			err = errors.Join(err, c.do(r.ctx, e, func() error { return c.Commit(r.ctx, due[c.operator.ID]) }))
		}
		if err != nil {
			return err
		}
		return m.Executor.Reach("committed")
	}, func(err error) {
		if noted {
			m.Savepoint = at
		}
		switch {
		case r.ctx.Err() != nil:
		case err != nil:
			m.broke(r.attempt, part("commit"), fmt.Errorf("checkpoint %d: %w", n, err), "", false)
		default:
			r.committed = n
			m.coordinate(checkpoint.Committed{Checkpoint: n})
		}
	})
}

// notify tells the subtasks that a checkpoint is complete. With the first one of
// this process, what dead processes left can go.
func (m *Master) notify(n uint64) {
	if err := m.Executor.Reach("notice"); err == nil {
		m.Send(control.Complete{Attempt: m.run.attempt, Checkpoint: n})
	}
	if !m.cleaned {
		m.cleaned = true
		m.work("clean", func() error { return m.Storage.Clean(n) }, m.leftover(n))
	}
}
