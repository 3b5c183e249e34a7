package checkpoint

import (
	"slices"
	"time"
)

// Stats is what there is to tell about the checkpoints of a job. Triggered is
// Completed and Failed and those in progress together.
type Stats struct {
	Triggered, InProgress, Completed, Failed int

	History []Past // the last ones that ended, newest last
}

// Past is a checkpoint that has ended.
type Past struct {
	Checkpoint   uint64
	Final        bool
	Began, Ended time.Time
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

func (s *Stats) end(p *pending, now time.Time, failure string) {
	if failure == "" {
		s.Completed++
	} else {
		s.Failed++
	}
	if len(s.History) == history {
		s.History = slices.Delete(s.History, 0, 1)
	}
	s.History = append(s.History, Past{
		Checkpoint: p.barrier.Checkpoint, Final: p.final, Began: p.began, Ended: now, Failure: failure,
	})
}
