package checkpoint

import (
	"fmt"
	"slices"
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
// takes four times as long; were it quadratic, it would be sixteen times.
func TestWorkIsLinearInSubtasks(t *testing.T) {
	few, many := newRoutine(100), newRoutine(400)
	took := func(r *routine) float64 {
		began := time.Now()
		for range 50 {
			r.checkpoint()
		}
		return float64(time.Since(began))
	}
	var ratios []float64
	for range 11 { // in turns, since other programs use the processors, too
		a := took(few)
		ratios = append(ratios, took(many)/a)
	}
	slices.Sort(ratios)
	t.Logf("times compare as %.1f", ratios)
	if ratios[len(ratios)/2] > 8 {
		t.Errorf("times compare as %.1f", ratios)
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
