package checkpoint

import (
	"testing"
	"time"

	"github.com/weirstream/weir/internal/graph"
)

// TestHistoryCostsNothing: what a coordinator remembers after ten thousand
// checkpoints, of which every other one fails with an ack missing for ever, is
// no more than after a hundred (S145).
func TestHistoryCostsNothing(t *testing.T) {
	subtasks := []graph.Subtask{{Index: 0}, {Index: 1}}
	c := New(Policy{Interval: time.Second, Timeout: time.Second, Concurrent: 1, Retained: 3, Tolerable: 1, History: 7}, 0, nil)
	now := time.Unix(0, 0)
	c.Step(now, Started{Attempt: 1, Subtasks: subtasks})
	for n := range uint64(10_000) {
		c.Step(now, Enumerated{Checkpoint: n + 1})
		c.Step(now, Ack{Attempt: 1, Subtask: subtasks[0], Checkpoint: n + 1})
		if n%2 == 0 {
			c.Step(now, Ack{Attempt: 1, Subtask: subtasks[1], Checkpoint: n + 1})
			c.Step(now, Stored{Checkpoint: n + 1})
			c.Step(now, Committed{n + 1})
		}
		now = now.Add(time.Second)
		c.Step(now, Tick{})
	}
	if s := c.Stats(); s.Completed != 5_000 || s.Failed != 5_000 || len(s.History) != 7 {
		t.Errorf("%d completed, %d failed, a history of %d", s.Completed, s.Failed, len(s.History))
	}
	if len(c.dropped) > remembered || len(c.kept) > 3 || len(c.undecided) > 0 || len(c.pending) > 1 {
		t.Errorf("remembered are %d dropped, %d kept, %d undecided, %d pending",
			len(c.dropped), len(c.kept), len(c.undecided), len(c.pending))
	}
}
