package jobmaster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/commit"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/enumerate"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

// run is an attempt beside its subtasks. It belongs to the loop.
type run struct {
	attempt     graph.Attempt
	name        string // unique across processes
	ctx         context.Context
	cancel      context.CancelFunc
	start       point
	enumerators []enumerator
	committers  []committer
	answered    map[uint64]map[graph.Subtask]uint64        // for triggers to come
	due         map[uint64]map[graph.ID][]snapshot.Pending // stored and not committed
	committed   uint64                                     // all that was prepared for checkpoints up to this one is
}

type enumerator struct {
	task graph.ID
	*enumerate.Enumerator
}

type committer struct {
	operator graph.Operator
	commit.Committer
}

// point is where an attempt starts from.
type point struct {
	found snapshot.Found // in the job's own storage
	from  *snapshot.Checkpoint
	dir   string // URI of from's directory
	snapshot.Assignment
}

// number is the checkpoint's, 0 if there is none.
func (p point) number() uint64 {
	if p.from == nil {
		return 0
	}
	return p.from.Number
}

// begin begins an attempt by looking for what it starts from.
func (m *Master) begin(a graph.Attempt) {
	m.run = &run{
		attempt:  a,
		name:     fmt.Sprintf("%s%d", m.name, a),
		answered: map[uint64]map[graph.Subtask]uint64{},
		due:      map[uint64]map[graph.ID][]snapshot.Pending{},
	}
	m.run.ctx, m.run.cancel = context.WithCancel(context.Background())
	if a > 1 {
		m.executions.Restart(a)
	}
	m.load(m.run, firstRetry)
}

// Reading a checkpoint is tried again after growing delays, about a minute in
// all; then the attempt fails.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func (m *Master) load(r *run, retry time.Duration) {
	var p point
	final, at := false, m.Savepoint
	m.work("load", func() (err error) {
		p, final, err = m.find(r.ctx, at)
		return err
	}, func(err error) {
		switch {
		case r.ctx.Err() != nil:
		case err == nil:
			m.loaded(r, p)
		case final || errors.As(err, new(panicked)) || retry > lastRetry:
			m.broke(r.attempt, part("restore"), err, "", final)
		default:
			m.Log.Warn("reading the checkpoint to start from is tried again", "attempt", r.attempt, "delay", retry, "error", err)
			m.alarm(retry, func() {
				if r.ctx.Err() == nil {
					m.load(r, 2*retry)
				}
			})
		}
	})
}

// find looks for the job's newest checkpoint, or a newer savepoint to go on from,
// else for the checkpoint that it was started from. An error is final if trying
// again is of no use.
func (m *Master) find(ctx context.Context, at Savepoint) (p point, final bool, err error) {
	p.found, err = m.Storage.Latest(ctx, m.Fallback)
	p.from, p.dir = p.found.Checkpoint, p.found.Dir
	if at.Checkpoint > p.number() && (err == nil || lost(err)) {
		err = m.goOnFrom(ctx, at, &p, err)
	}
	if err == nil && p.from == nil && m.From != nil {
		p.from, p.dir, err = m.From(ctx)
	}
	if err != nil {
		return p, lost(err), err
	}
	p.Assignment, err = snapshot.Assign(p.from, m.Graph, m.Allowed)
	if err == nil {
		err = m.readable(p.Restored)
	}
	if err != nil {
		return p, true, fmt.Errorf("restore checkpoint %d in %q: %w", p.from.Number, p.dir, err)
	}
	return p, false, nil
}

// lost reports whether what should have been read isn't there any more, or not as
// it was written.
func lost(err error) bool {
	return errors.Is(err, snapshot.ErrCorrupt) || errors.Is(err, snapshot.ErrVersion) || errors.Is(err, fs.ErrNotExist)
}

// goOnFrom has the job go on from a savepoint. Where that is lost, and nothing was
// committed for it, it goes on as it would without, which otherwise says err.
func (m *Master) goOnFrom(ctx context.Context, at Savepoint, p *point, otherwise error) error {
	cp, err := m.Load(ctx, at.Dir)
	switch {
	case err == nil:
		p.from, p.dir = cp, at.Dir
		return nil
	case !lost(err):
		return err
	case at.Committed:
		older := "from the beginning"
		if p.from != nil {
			older = fmt.Sprintf("from checkpoint %d (%s)", p.from.Number, p.dir)
		}
		return fmt.Errorf("savepoint %d, whose outputs are committed, can't be restored: %w; put it back as it was in %s, or start the job anew %s, which writes again what came after that",
			at.Checkpoint, err, at.Dir, older)
	case !m.Fallback:
		return fmt.Errorf("savepoint %d: %w", at.Checkpoint, err)
	}
	p.found.Skipped = append([]error{fmt.Errorf("savepoint %d: %w", at.Checkpoint, err)}, p.found.Skipped...)
	return otherwise
}

// readable checks that splits and committables are stored as they are now.
func (m *Master) readable(restored []snapshot.Restored) error {
	var errs []error
	check := func(op graph.Operator, what string, stored, now codec.Schema) {
		if stored != now && stored != (codec.Schema{}) {
			errs = append(errs, fmt.Errorf("operator %q: %s are stored as %v, and now are %v", called(op), what, stored, now))
		}
	}
	for _, r := range restored {
		if source := m.Sources[r.Operator.ID]; source != nil {
			check(r.Operator, "splits", r.Saved.Schemas.Split, source.Schema())
		}
		if sink := m.Sinks[r.Operator.ID]; sink != nil {
			check(r.Operator, "committables", r.Saved.Schemas.Committable, sink.Schema())
		}
	}
	return errors.Join(errs...)
}

func (m *Master) loaded(r *run, p point) {
	for _, err := range p.found.Skipped {
		m.Log.Error("a checkpoint can't be restored; an older one takes its place", "attempt", r.attempt, "error", err)
	}
	if p.from == nil {
		m.Log.Info("the job starts from the beginning", "attempt", r.attempt)
	} else {
		m.Log.Info("the job starts from a checkpoint; what came after it is read again",
			"attempt", r.attempt, "checkpoint", p.from.Number, "dir", p.dir, "taken", time.Unix(0, p.from.Began))
	}
	for _, op := range p.Restored {
		if op.Saved.ID != op.Operator.ID {
			m.Log.Info("state is taken over from a former id", "attempt", r.attempt, "operator", called(op.Operator), "former", cmp.Or(op.Saved.UID, op.Saved.ID.String()))
		}
	}
	for _, op := range p.Dropped {
		m.Log.Warn("state is dropped: it has no place in the job", "attempt", r.attempt, "operator", cmp.Or(op.UID, op.Name), "bytes", op.Bytes())
	}
	r.start = p
	m.complete = nil
	if p.found.Checkpoint != nil {
		m.complete = slices.Clone(p.found.Complete[:slices.Index(p.found.Complete, p.found.Checkpoint.Number)+1])
	}
	if m.coordinator == nil {
		m.coordinator = checkpoint.New(m.Policy, max(p.found.Highest, p.number(), m.Savepoint.Checkpoint), p.found.Complete)
	}
	m.step(Loaded{r.attempt})
}

// open opens all committers; when all are open, they commit what is pending.
func (m *Master) open(r *run) {
	var opened []committer
	m.errand("open", func(e *errand) error {
		for _, t := range m.Graph.Tasks {
			for _, op := range t.Operators {
				sink := m.Sinks[op.ID]
				if sink == nil {
					continue
				}
				c := committer{operator: op}
				if err := c.do(r.ctx, e, func() (err error) {
					c.Committer, err = sink.Open(r.ctx, commitment{m.JobID, r.name, r.start, m.Log.With("attempt", r.attempt, "operator", called(op))})
					return err
				}); err != nil {
					return err
				}
				opened = append(opened, c)
			}
		}
		for _, c := range opened {
			if err := c.do(r.ctx, e, func() error { return c.Recover(r.ctx, r.start.Pending[c.operator.ID]) }); err != nil {
				return err
			}
		}
		return m.Executor.Reach("recovered")
	}, func(err error) {
		r.committers = opened
		switch {
		case r.ctx.Err() != nil:
		case err != nil:
			m.broke(r.attempt, part("commit"), err, "", errors.Is(err, filesystem.ErrLocked))
		default:
			m.opened, r.committed = true, r.start.number()
			m.step(Opened{r.attempt})
		}
	})
}

// do has a committer do something, unless the context has ended: the committer
// before it may have used up all the time there was. Its error says whose it is. A
// panic of one committer is no reason to pass over the next.
func (c committer) do(ctx context.Context, e *errand, f func() error) error {
	e.calls(called(c.operator))
	err := ctx.Err()
	if err == nil {
		err = guarded(f)
	}
	if err != nil {
		return fmt.Errorf("sink %q: %w", called(c.operator), err)
	}
	return nil
}

// commitment implements connector.Commitment.
type commitment struct {
	jobID   string
	attempt string
	from    point
	log     *slog.Logger
}

func (c commitment) JobID() string              { return c.jobID }
func (c commitment) RestoredCheckpoint() uint64 { return c.from.number() }
func (c commitment) Attempt() string            { return c.attempt }
func (c commitment) Log() *slog.Logger          { return c.log }

func (c commitment) RestoredJobID() string {
	if c.from.from == nil {
		return ""
	}
	return c.from.from.JobID
}

// deploy opens all subtasks, and starts the enumerators.
func (m *Master) deploy(r *run) {
	for _, t := range m.Graph.Tasks {
		if source := m.Sources[t.ID]; source != nil {
			m.enumerate(r, t, source)
		}
	}
	m.moveAll(graph.Deploying)
	for _, s := range m.Graph.Subtasks() {
		m.Send(control.Deploy{
			Attempt:        r.attempt,
			Name:           r.name,
			Subtask:        s,
			Restored:       r.start.Subtasks[s],
			From:           r.start.dir,
			Checkpoint:     r.start.number(),
			MaxParallelism: r.start.MaxParallelism,
		})
	}
}

// enumerate starts the enumerator of a source, which is the head of its task.
func (m *Master) enumerate(r *run, t graph.Task, source enumerate.Source) {
	var e *enumerate.Enumerator
	running := &errand{at: whole(t), stack: func() string { return e.Stack() }} // until Stopped
	running.calls(called(t.Operators[0]))
	m.errands[running] = true
	e = source.Start(enumerate.Setting{
		Executor:    m.Executor,
		Parallelism: t.Parallelism,
		Restored:    r.start.Enumerators[t.ID],
		Log:         m.Log.With("attempt", r.attempt, "operator", called(t.Operators[0])),
		Changed: func() {
			m.post(func() {
				for _, a := range e.Due() {
					m.assign(r, t.ID, a)
				}
				m.coordinate(checkpoint.Backlog{Attempt: r.attempt, Source: t.ID, Behind: e.Behind()})
			})
		},
		Failed: func(err error, stack string) {
			err = fmt.Errorf("operator %q: enumerate: %w", called(t.Operators[0]), err)
			m.post(func() { m.broke(r.attempt, whole(t), err, stack, false) })
		},
		Stopped: func() { m.returned(running, func() {}) },
	})
	r.enumerators = append(r.enumerators, enumerator{t.ID, e})
}

// request takes a source subtask's request for a split.
func (m *Master) request(q control.Request) {
	for _, e := range m.run.enumerators {
		if e.task != q.Subtask.Task {
			continue
		}
		if a, ok := e.Request(q.Subtask.Index, q.Request); ok {
			m.assign(m.run, e.task, a)
		}
	}
}

func (m *Master) assign(r *run, id graph.ID, a enumerate.Answer) {
	m.Send(control.Assign{
		Attempt: r.attempt,
		Subtask: graph.Subtask{Task: id, Index: a.Subtask},
		Request: a.Request, Splits: a.Splits, NoMore: a.NoMore, After: a.After,
	})
}

// start lets the subtasks take records, and the coordinator its checkpoints.
func (m *Master) start(r *run) {
	m.moveAll(graph.Running)
	if from := r.start.from; from != nil {
		m.restores++
		m.restored = Restore{from.Number, from.Savepoint, m.Executor.Now(), r.start.dir}
	}
	m.Send(control.Start{Attempt: r.attempt})
	var behind []graph.ID
	for _, e := range r.enumerators {
		if e.Behind() {
			behind = append(behind, e.task)
		}
	}
	m.coordinate(checkpoint.Started{
		Attempt:  r.attempt,
		Subtasks: m.Graph.Subtasks(),
		Restored: r.start.number(),
		Behind:   behind,
		Delay:    m.firstDelay(),
	})
}

// firstDelay is at random between the pause and the interval, so that jobs don't
// all take their checkpoints at the same time.
func (m *Master) firstDelay() time.Duration {
	d := m.Policy.MinPause
	if more := m.Policy.Interval - d; more > 0 {
		d += time.Duration(m.Random() % uint64(more))
	}
	return d
}

// stop ends what runs beside the subtasks.
func (r *run) stop() {
	r.cancel()
	for _, e := range r.enumerators {
		e.Stop()
	}
}

// settle goes on with Close: when no work is under way, committers close, and
// the attempt is over.
func (m *Master) settle() {
	if !m.closing || len(m.errands) > 0 {
		return
	}
	if open := m.run.committers; len(open) > 0 {
		m.run.committers = nil
		m.watch()
		m.errand("close", func(e *errand) (err error) {
			for _, c := range open {
				err = errors.Join(err, c.do(context.Background(), e, c.Close))
			}
			return err
		}, func(err error) {
			if err != nil {
				m.Log.Warn("a committer didn't close well", "attempt", m.run.attempt, "error", err)
			}
		})
		return
	}
	m.closing = false
	m.step(Closed{m.run.attempt})
}
