package checkpoint

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/graph"
)

// A routine is a coordinator whose checkpoints all go well.
type routine struct {
	*Coordinator
	now      time.Time
	subtasks []graph.Subtask
}

func newRoutine(subtasks int) *routine {
	r := &routine{Coordinator: New(Policy{Interval: time.Second, Timeout: time.Minute, Concurrent: 1, Retained: 3}, 0, nil), now: zero}
	for i := range subtasks {
		r.subtasks = append(r.subtasks, graph.Subtask{Index: i})
	}
	r.Step(r.now, Started{Attempt: 1, Subtasks: r.subtasks})
	return r
}

// checkpoint takes the one that has begun, and begins the next.
func (r *routine) checkpoint() {
	n := r.number
	r.Step(r.now, Enumerated{Checkpoint: n})
	for _, s := range r.subtasks {
		r.Step(r.now, Ack{Attempt: 1, Subtask: s, Checkpoint: n})
	}
	r.Step(r.now, Stored{Checkpoint: n})
	r.Step(r.now, Committed{n})
	r.now = r.now.Add(time.Second)
	r.Step(r.now, Tick{})
}

// TestWorkIsLinearInSubtasks compares a checkpoint of 100 subtasks with one of 400. It
// takes four times as long; were it quadratic, it would be sixteen times. The fastest of
// each counts, since other programs use the processors, too.
func TestWorkIsLinearInSubtasks(t *testing.T) {
	few, many := newRoutine(100), newRoutine(400)
	fastest := map[*routine]time.Duration{few: time.Hour, many: time.Hour}
	for range 100 {
		for r := range fastest {
			began := time.Now()
			r.checkpoint()
			fastest[r] = min(fastest[r], time.Since(began))
		}
	}
	t.Logf("%v for 100 subtasks, %v for 400", fastest[few], fastest[many])
	if fastest[many] > 8*fastest[few] {
		t.Errorf("%v for 100 subtasks, %v for 400", fastest[few], fastest[many])
	}
	if a, b := testing.AllocsPerRun(20, few.checkpoint), testing.AllocsPerRun(20, many.checkpoint); b > 4.5*a {
		t.Errorf("%.0f allocations for 100 subtasks, %.0f for 400", a, b)
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	for _, n := range []int{100, 200, 400} {
		b.Run(fmt.Sprint(n, " subtasks"), func(b *testing.B) {
			r := newRoutine(n)
			b.ReportAllocs()
			for b.Loop() {
				r.checkpoint()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/subtask")
		})
	}
}
