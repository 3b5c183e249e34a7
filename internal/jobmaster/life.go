// Package jobmaster runs one job, from its first attempt to its end.
//
// Life is the job's life as a state machine, Master its driver. An attempt goes
// from left to right; where it fails, everything of it is stopped before the
// restart strategy is asked:
//
//	Restoring ─► Opening ─► Deploying ─► Running ─► Finishing ─► FINISHED
//	    ▲ └──────────┴──────────┴───────────┤
//	Restarting ◄──────────────────────── Failing ─► FAILED
//
// From any of these but Finishing the job may be cancelled or suspended:
//
//	Cancelling ─► CANCELED        Suspending ─► SUSPENDED
//
// A suspended job keeps its checkpoints, to be resumed by another process.
package jobmaster

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/internal/graph"
)

// Status is where a job is in its life.
type Status int

// Statuses. Those from Finished on are the end.
const (
	Created    Status = iota
	Restoring         // the checkpoint to start from is looked for and read
	Opening           // committers are opened, and commit what is pending
	Deploying         // subtasks are opened, and load their state
	Running           // subtasks take records
	Finishing         // all has ended and is committed; subtasks close
	Failing           // the attempt has failed; what there is of it is stopped
	Restarting        // the next attempt waits for its time
	Cancelling        // the user has had enough
	Suspending        // the process is to end, and the job to go on some other time
	Finished
	Failed
	Canceled
	Suspended
)

func (s Status) String() string {
	return [...]string{"CREATED", "RESTORING", "OPENING", "DEPLOYING", "RUNNING", "FINISHING", "FAILING", "RESTARTING",
		"CANCELLING", "SUSPENDING", "FINISHED", "FAILED", "CANCELED", "SUSPENDED"}[s]
}

// terminal says that nothing comes after it.
func (s Status) terminal() bool { return s >= Finished }

// A Failure is why an attempt failed, or one more thing that went wrong in it.
type Failure struct {
	Attempt graph.Attempt
	At      time.Time
	Where   string // the part of the job that failed; empty: the job as a whole
	Err     error
	Stack   string // of a panic
}

// Event is something that happened to a job: Begin, Loaded, Opened, Ready, Ended,
// Stopped, Closed, Elapsed, Stuck, Broke, Cancel or Suspend. Those of an attempt
// that isn't the current one change nothing.
type Event interface{ event() }

// Action is something to do: Load, Open, Deploy, Start, Finish, Stop, Close, Wait
// or End.
type Action interface{ action() }

type (
	// Begin begins the first attempt.
	Begin struct{}
	// Loaded says that it is known what the attempt starts from.
	Loaded struct{ Attempt graph.Attempt }
	// Opened says that the committers are open and nothing is pending any more.
	Opened struct{ Attempt graph.Attempt }
	// Ready says that a subtask is open.
	Ready struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
	}
	// Ended says that all input has ended and everything is committed.
	Ended struct{ Attempt graph.Attempt }
	// Stopped says that nothing of a subtask runs any more.
	Stopped struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
	}
	// Closed answers Close.
	Closed struct{ Attempt graph.Attempt }
	// Elapsed says that the time of a Wait has come.
	Elapsed struct{ Attempt graph.Attempt }
	// Stuck says that something had long enough to stop and is given up: its
	// Stopped, or Closed, comes next. As it may still be at work, no other attempt can
	// begin beside it.
	Stuck struct{ Failure }
	// Broke says that something of the attempt has failed.
	Broke struct {
		Failure
		// Final says that no other attempt would do better.
		Final bool
	}
	// Cancel and Suspend end the job.
	Cancel  struct{}
	Suspend struct{}
)

type (
	// Load finds what the attempt starts from.
	Load struct{ Attempt graph.Attempt }
	// Open opens the committers and has them commit what is pending.
	Open struct{ Attempt graph.Attempt }
	// Deploy opens all subtasks.
	Deploy struct{ Attempt graph.Attempt }
	// Start lets all subtasks take records.
	Start struct{ Attempt graph.Attempt }
	// Finish lets all subtasks close.
	Finish struct{ Attempt graph.Attempt }
	// Stop ends all subtasks.
	Stop struct{ Attempt graph.Attempt }
	// Close ends everything else of the attempt: committers, enumerators, and
	// work that is under way.
	Close struct{ Attempt graph.Attempt }
	// Wait puts the next attempt off.
	Wait struct {
		Attempt graph.Attempt
		Delay   time.Duration
	}
	// End is the last action. Err says why, if the job has failed.
	End struct {
		Status Status
		Err    error
	}
)

func (Begin) event()   {}
func (Loaded) event()  {}
func (Opened) event()  {}
func (Ready) event()   {}
func (Ended) event()   {}
func (Stopped) event() {}
func (Closed) event()  {}
func (Elapsed) event() {}
func (Stuck) event()   {}
func (Broke) event()   {}
func (Cancel) event()  {}
func (Suspend) event() {}

func (Load) action()   {}
func (Open) action()   {}
func (Deploy) action() {}
func (Start) action()  {}
func (Finish) action() {}
func (Stop) action()   {}
func (Close) action()  {}
func (Wait) action()   {}
func (End) action()    {}

// remembered is how many failures are kept.
const remembered = 16

// Life is the life of one job in one process.
//
// Invariants:
//   - attempts are numbered from 1, and of two only one has anything running:
//     the next begins after the last one's Closed;
//   - Close comes when no subtask runs, or those that do are given up; then no
//     attempt follows;
//   - however many failures an attempt has, the strategy is asked once;
//   - End is the last action, and comes once.
type Life struct {
	status   Status
	since    time.Time
	attempt  graph.Attempt
	strategy Strategy
	random   func() float64

	subtasks []graph.Subtask
	unready  map[graph.Subtask]bool // deployed and not open yet
	alive    map[graph.Subtask]bool // deployed and not stopped
	closing  bool                   // Close is under way
	final    bool                   // no attempt may follow this one
	cause    error                  // the attempt's first failure
	stuck    error                  // what doesn't stop
	failures []Failure              // oldest first
}

// NewLife returns the life of a job with the given subtasks.
func NewLife(now time.Time, subtasks []graph.Subtask, strategy Strategy, random func() float64) *Life {
	return &Life{since: now, subtasks: subtasks, strategy: strategy, random: random}
}

// Status says where the job is, and since when.
func (l *Life) Status() (Status, time.Time) { return l.status, l.since }

// Attempt is the current attempt, 0 before the first.
func (l *Life) Attempt() graph.Attempt { return l.attempt }

// Failures are the last ones, oldest first.
func (l *Life) Failures() []Failure { return slices.Clone(l.failures) }

// Step takes in one event and says what to do about it, in this order.
func (l *Life) Step(now time.Time, e Event) []Action {
	if l.status.terminal() {
		return nil
	}
	switch e := e.(type) {
	case Begin:
		if l.status == Created {
			return l.next(now)
		}
	case Elapsed:
		if l.in(e.Attempt, Restarting) {
			return l.next(now)
		}
	case Loaded:
		if l.in(e.Attempt, Restoring) {
			l.to(now, Opening)
			return []Action{Open{l.attempt}}
		}
	case Opened:
		if l.in(e.Attempt, Opening) {
			return l.deploy(now)
		}
	case Ready:
		if l.in(e.Attempt, Deploying) {
			return l.ready(now, e.Subtask)
		}
	case Ended:
		if l.in(e.Attempt, Running) {
			l.to(now, Finishing)
			return []Action{Finish{l.attempt}}
		}
	case Broke:
		if e.Attempt == l.attempt {
			return l.broke(now, e)
		}
	case Stopped:
		if e.Attempt == l.attempt {
			return l.stopped(now, e.Subtask)
		}
	case Stuck:
		if e.Attempt == l.attempt && l.status != Restarting { // then all has stopped after all
			l.note(e.Failure)
			l.stuck = errors.Join(l.stuck, e.Err)
		}
	case Closed:
		if e.Attempt == l.attempt && l.closing {
			return l.closed(now)
		}
	case Cancel:
		return l.leave(now, Cancelling, Canceled)
	case Suspend:
		return l.leave(now, Suspending, Suspended)
	default:
		panic(fmt.Sprintf("jobmaster: unknown event %T", e))
	}
	return nil
}

// in reports whether an event of an attempt meets the status it belongs to.
func (l *Life) in(a graph.Attempt, s Status) bool { return a == l.attempt && l.status == s }

func (l *Life) to(now time.Time, s Status) { l.status, l.since = s, now }

func (l *Life) next(now time.Time) []Action {
	l.to(now, Restoring)
	l.attempt++
	l.closing, l.cause = false, nil
	return []Action{Load{l.attempt}}
}

func (l *Life) deploy(now time.Time) []Action {
	l.to(now, Deploying)
	l.unready, l.alive = map[graph.Subtask]bool{}, map[graph.Subtask]bool{}
	for _, s := range l.subtasks {
		l.unready[s], l.alive[s] = true, true
	}
	return []Action{Deploy{l.attempt}}
}

func (l *Life) ready(now time.Time, s graph.Subtask) []Action {
	delete(l.unready, s)
	if len(l.unready) > 0 {
		return nil
	}
	l.to(now, Running)
	return []Action{Start{l.attempt}}
}

// broke takes in a failure. The first one ends the attempt; those that follow are
// noted. When everything is committed nothing can fail any more.
func (l *Life) broke(now time.Time, e Broke) []Action {
	l.note(e.Failure)
	switch l.status {
	case Restoring, Opening, Deploying, Running:
	default:
		return nil
	}
	l.cause, l.final = e.Err, e.Final
	return l.windUp(now, Failing)
}

func (l *Life) note(f Failure) {
	l.failures = append(l.failures, f)
	l.failures = l.failures[max(0, len(l.failures)-remembered):]
}

// windUp stops what there is of the attempt.
func (l *Life) windUp(now time.Time, s Status) []Action {
	l.to(now, s)
	if len(l.alive) > 0 {
		return []Action{Stop{l.attempt}}
	}
	return l.close()
}

func (l *Life) close() []Action {
	l.closing = true
	return []Action{Close{l.attempt}}
}

func (l *Life) stopped(now time.Time, s graph.Subtask) []Action {
	if !l.alive[s] {
		return nil
	}
	delete(l.alive, s)
	switch l.status {
	case Deploying, Running:
		return l.broke(now, Broke{Failure: Failure{Attempt: l.attempt, At: now, Err: errors.New("a subtask stopped that wasn't told to")}})
	}
	if len(l.alive) > 0 {
		return nil
	}
	return l.close()
}

// closed ends the attempt, and the job, if that is to be.
func (l *Life) closed(now time.Time) []Action {
	l.unready, l.alive = nil, nil
	l.closing = false
	switch l.status {
	case Finishing:
		return l.end(now, Finished)
	case Cancelling:
		return l.end(now, Canceled)
	case Suspending:
		return l.end(now, Suspended)
	}
	if l.final || l.stuck != nil {
		return l.end(now, Failed)
	}
	delay, restart := l.strategy.Failed(now, l.random())
	if !restart {
		return l.end(now, Failed)
	}
	l.to(now, Restarting)
	return []Action{Wait{l.attempt, delay}}
}

// end ends the job. What doesn't stop is an error, unless all is done and committed.
func (l *Life) end(now time.Time, s Status) []Action {
	l.to(now, s)
	switch s {
	case Failed:
		return []Action{End{s, errors.Join(l.cause, l.stuck)}}
	case Finished:
		return []Action{End{Status: s}}
	}
	return []Action{End{s, l.stuck}}
}

// leave ends the job as its user wants, unless it is ending already.
func (l *Life) leave(now time.Time, by, to Status) []Action {
	switch l.status {
	case Created, Restarting:
		return l.end(now, to)
	case Restoring, Opening, Deploying, Running:
		return l.windUp(now, by)
	case Failing:
		l.to(now, by) // what there is, is being stopped already
	}
	return nil
}
