package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/heap"
)

// master plays the job master: it deploys a job, deals out splits, takes
// checkpoints, commits, and restarts from the newest complete checkpoint. It
// runs in a loop of the executor, so that the same one serves simulated and real
// runs.
type master struct {
	worker   *Worker
	subtasks []graph.Subtask
	sources  map[graph.ID]bool
	all      map[graph.ID][][]byte // the splits of each source
	chaos    *rand.Rand            // draws what is lost, late and repeated; nil: nothing is
	settings Settings
	silent   bool // it doesn't say when a checkpoint is aborted
	restarts int  // how often it may restart; then the first failure ends the job
	commit   func(p snapshot.Pending)
	done     func() // called at the end; may be nil

	mu      sync.Mutex // guards the next three
	wake    func()
	reports []control.Report
	over    bool

	attempt  graph.Attempt
	life     *life
	complete *checkpoint
	number   uint64 // of the newest checkpoint
	failures []control.Failed
	declined []control.Decline
	stops    map[graph.Subtask]int
	late     []control.Command // to be sent some time
	err      error
}

// life is what the master knows of an attempt.
type life struct {
	ready, ended, stopped map[graph.Subtask]bool
	started, stopping     bool
	finishing             bool
	splits                map[graph.ID][][]byte // not handed out
	answers               map[graph.Subtask][]control.Assign
	part                  uint64 // newest checkpoint whose enumerators' part was taken
	open                  *checkpoint
}

// checkpoint is one under way, or complete.
type checkpoint struct {
	number uint64
	splits map[graph.ID][][]byte
	acks   map[graph.Subtask]snapshot.Task
}

// newMaster makes a master and starts its loop.
func newMaster(job Job, splits map[graph.ID][][]byte, settings Settings) *master {
	m := &master{all: splits, sources: map[graph.ID]bool{}, stops: map[graph.Subtask]int{}, subtasks: job.Graph.Subtasks(), settings: settings, commit: func(snapshot.Pending) {}}
	for _, t := range job.Graph.Tasks {
		m.sources[t.ID] = t.Operators[0].Kind == graph.Source
	}
	settings.Backend, settings.Logger = heap.Backend{}, slog.New(slog.DiscardHandler)
	settings.Target = func(record.Barrier) state.Target { return snapshot.Target{} }
	settings.Origin = func(string) state.Origin { return snapshot.Origin{} }
	m.worker = New(job, settings, m.report)
	return m
}

// start begins the first attempt.
func (m *master) start() {
	wake := m.settings.Executor.Loop("master", m.step)
	m.mu.Lock()
	m.wake = wake
	m.mu.Unlock()
	m.report(beat{control.Ready{}})
}

func (m *master) report(r control.Report) {
	m.mu.Lock()
	m.reports = append(m.reports, r)
	wake := m.wake
	m.mu.Unlock()
	wake()
}

func (m *master) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

// chance is one in n.
func (m *master) chance(n int) bool { return m.chaos != nil && m.chaos.IntN(n) == 0 }

// send sends a command that may be lost, late or repeated.
func (m *master) send(c control.Command) {
	switch {
	case m.chance(20): // lost
	case m.chance(20):
		m.late = append(m.late, c)
	case m.chance(20):
		m.worker.Do(c)
		m.worker.Do(c)
	default:
		m.worker.Do(c)
	}
}

// begin starts an attempt from the newest complete checkpoint.
func (m *master) begin() {
	m.attempt++
	l := &life{ready: map[graph.Subtask]bool{}, ended: map[graph.Subtask]bool{}, stopped: map[graph.Subtask]bool{},
		splits: map[graph.ID][][]byte{}, answers: map[graph.Subtask][]control.Assign{}}
	m.life = l
	from := m.all
	if m.complete != nil {
		from = m.complete.splits
	}
	for id, s := range from {
		l.splits[id] = slices.Clone(s)
	}
	for _, s := range m.subtasks {
		d := control.Deploy{Attempt: m.attempt, Name: fmt.Sprintf("attempt%d", m.attempt), Subtask: s}
		if m.complete != nil {
			d.Restored, d.Checkpoint = m.complete.acks[s], m.complete.number
		}
		m.worker.Do(d)
	}
}

func (m *master) step() executor.Progress {
	m.mu.Lock()
	var r control.Report
	if len(m.reports) > 0 {
		r, m.reports = m.reports[0], m.reports[1:]
	}
	over := m.over
	m.mu.Unlock()
	if len(m.late) > 0 && m.chance(5) {
		m.worker.Do(m.late[0])
		m.late = m.late[1:]
	}
	if r == nil || over {
		return executor.Idle
	}
	if control.AttemptOf(r) == m.attempt && !m.lost(r) {
		m.hear(r)
	}
	return executor.Worked
}

// lost says that a report doesn't arrive.
func (m *master) lost(r control.Report) bool {
	switch r.(type) {
	case control.Ack, control.Decline, control.Request, control.Ended:
		return m.chance(30)
	}
	return false
}

func (m *master) hear(r control.Report) {
	l := m.life
	switch r := r.(type) {
	case beat:
		m.beat()
	case control.Ready:
		if l.ready[r.Subtask] = true; len(l.ready) == len(m.subtasks) && !l.stopping {
			l.started = true
			m.worker.Do(control.Start{Attempt: m.attempt})
			m.tick(m.attempt)
		}
	case control.Request:
		m.assign(r)
	case control.Ended:
		l.ended[r.Subtask] = true
	case control.Ack:
		if l.open != nil && l.open.number == r.Checkpoint {
			if l.open.acks[r.Subtask] = r.State; len(l.open.acks) == len(m.subtasks) {
				m.completed()
			}
		}
	case control.Decline:
		m.declined = append(m.declined, r)
		if l.open != nil && l.open.number == r.Checkpoint {
			if l.open = nil; !m.silent {
				m.send(control.Abort{Attempt: m.attempt, Checkpoint: r.Checkpoint})
			}
		}
	case control.Failed:
		m.failures = append(m.failures, r)
		m.stop()
	case control.Stopped:
		m.stops[r.Subtask]++
		if l.stopped[r.Subtask] {
			m.err = errors.Join(m.err, fmt.Errorf("subtask %v stopped twice", r.Subtask))
		}
		if l.stopped[r.Subtask] = true; len(l.stopped) == len(m.subtasks) {
			m.end()
		}
	}
}

// end ends the attempt.
func (m *master) end() {
	if !m.life.finishing && m.restarts > 0 {
		m.restarts--
		m.begin()
		return
	}
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	if m.done != nil {
		m.done()
	}
}

func (m *master) stop() {
	if !m.life.stopping {
		m.life.stopping = true
		m.worker.Do(control.Stop{Attempt: m.attempt})
	}
}

func (m *master) assign(r control.Request) {
	l := m.life
	given := l.answers[r.Subtask]
	switch n := uint64(len(given)); {
	case r.Request == n+1:
		a := control.Assign{Attempt: m.attempt, Subtask: r.Subtask, Request: r.Request, After: l.part}
		if left := l.splits[r.Subtask.Task]; len(left) > 0 {
			a.Splits, l.splits[r.Subtask.Task] = left[:1:1], left[1:]
		} else {
			a.NoMore = true
		}
		l.answers[r.Subtask] = append(given, a)
		m.send(a)
	case r.Request == n:
		m.send(given[n-1])
	case r.Request > n:
		m.err = errors.Join(m.err, fmt.Errorf("request %d of %v after %d answers", r.Request, r.Subtask, n))
	}
}

// tick does what happens from time to time: a checkpoint is given up or begun,
// or the attempt crashes.
func (m *master) tick(attempt graph.Attempt) {
	pause := time.Millisecond
	if m.chaos != nil {
		pause = time.Duration(m.chaos.IntN(1000)) * time.Millisecond
	}
	m.settings.Executor.After(pause, func() {
		m.report(beat{control.Ready{Attempt: attempt}})
	})
}

// beat is a report of the master to itself.
type beat struct{ control.Report }

func (m *master) beat() {
	switch {
	case m.life == nil:
		m.begin()
		return
	case m.life.stopping:
		return
	case m.restarts > 0 && m.chance(6):
		m.stop()
		return
	}
	m.trigger()
	m.tick(m.attempt)
}

// trigger begins a checkpoint.
func (m *master) trigger() {
	l := m.life
	if l.open != nil {
		m.send(control.Abort{Attempt: m.attempt, Checkpoint: l.open.number})
	}
	m.number++
	l.part = m.number
	l.open = &checkpoint{m.number, map[graph.ID][][]byte{}, map[graph.Subtask]snapshot.Task{}}
	for id, s := range l.splits {
		l.open.splits[id] = slices.Clone(s)
	}
	t := control.Trigger{Attempt: m.attempt, Barrier: record.Barrier{Checkpoint: m.number}, Assigned: map[graph.Subtask]uint64{}}
	for s, given := range l.answers {
		t.Assigned[s] = uint64(len(given))
	}
	m.send(t)
}

// completed makes the open checkpoint the newest complete one.
func (m *master) completed() {
	cp := m.life.open
	m.life.open, m.complete = nil, cp
	var due []snapshot.Pending
	final := true
	for _, t := range cp.acks {
		for id, s := range t {
			due = append(due, s.Pending...)
			s.Pending = nil
			t[id] = s
			final = final && s.Ended
		}
	}
	slices.SortFunc(due, func(a, b snapshot.Pending) int {
		return cmp.Or(cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.Subtask, b.Subtask))
	})
	for _, p := range due {
		m.commit(p)
	}
	m.send(control.Complete{Attempt: m.attempt, Checkpoint: cp.number})
	if final && !m.life.stopping {
		m.life.finishing, m.life.stopping = true, true
		m.worker.Do(control.Finish{Attempt: m.attempt})
	}
}
