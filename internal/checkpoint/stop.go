package checkpoint

import (
	"slices"
	"time"
)

// A job is stopped in four steps. The sources pause, or end their input if it is to
// be drained; a savepoint is taken of what came before; then the final checkpoint;
// and when that is committed the job has finished. The savepoint commits nothing, so
// that it may fail: then paused sources go on as if nothing had been.

// stopping is a Stop that is under way.
type stopping struct {
	id        uint64
	drain     bool
	savepoint uint64 // once it is stored
}

// halt begins to stop the job. Savepoints that were asked for before come first;
// checkpoints give way.
func (c *Coordinator) halt(now time.Time, e Stop) []Action {
	reason := c.unfit()
	if reason == "" && e.Drain && c.policy.WhileAllRun {
		reason = "to drain it ends its input, and there are to be no checkpoints after that"
	}
	if reason != "" {
		return refuse([]uint64{e.ID}, reason)
	}
	do := refuse(c.asked, "the job is being stopped")
	c.asked = nil
	for _, p := range slices.Clone(c.pending) {
		if !p.barrier.Savepoint {
			do = append(do, c.drop(now, p, "the job is being stopped")...)
		}
	}
	c.stopping = &stopping{id: e.ID, drain: e.Drain}
	if e.Drain {
		return append(do, Drain{})
	}
	return append(do, Pause{})
}

// goOn has the job go on whose Stop came to nothing. One that was drained can only
// do that from its latest checkpoint.
func (c *Coordinator) goOn(now time.Time, reason string) []Action {
	s := c.stopping
	c.stopping = nil
	do := []Action{Answer{ID: s.id, Reason: reason}}
	if !s.drain {
		return append(do, Resume{})
	}
	reason = "the input was ended to stop the job, and then the savepoint failed: " + reason
	return append(append(do, c.stop(now)...), FailAttempt{reason})
}
