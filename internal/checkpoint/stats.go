package checkpoint

import (
	"slices"
	"time"
)

// Stats is what there is to tell about the checkpoints of a job. Triggered is
// Completed and Failed and those in progress together.
type Stats struct {
	Triggered, InProgress, Completed, Failed int

	Latest  Past   // the newest one completed that is no savepoint; zero if there is none
	History []Past // the last ones that ended, newest last
}

// Past is a checkpoint that has ended.
type Past struct {
	Checkpoint   uint64
	Savepoint    bool
	Final        bool
	Began, Ended time.Time
	Bytes        int64  // of all that it holds, if it was completed
	Failure      string // empty: it was completed
}

// history is how many past checkpoints are remembered.
const history = 10

// Stats returns a copy of the statistics.
func (c *Coordinator) Stats() Stats {
	s := c.stats
	s.InProgress = len(c.pending)
	s.History = slices.Clone(s.History)
	return s
}

func (s *Stats) end(p *pending, now time.Time, bytes int64, failure string) {
	past := Past{
		Checkpoint: p.barrier.Checkpoint, Savepoint: p.barrier.Savepoint, Final: p.final, Began: p.began, Ended: now, Bytes: bytes, Failure: failure,
	}
	switch {
	case failure != "":
		s.Failed++
	case p.barrier.Savepoint:
		s.Completed++
	default:
		s.Completed++
		s.Latest = past
	}
	if len(s.History) == history {
		s.History = slices.Delete(s.History, 0, 1)
	}
	s.History = append(s.History, past)
}
