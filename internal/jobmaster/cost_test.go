package jobmaster

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

// A routine is a job master at work on a job of many subtasks where nothing ever goes
// wrong: one thing happens after the other, in order, and subtasks answer at once.
type routine struct {
	*bench
	operator graph.Operator
	calls    int // of its file system
}

func newRoutine(t *testing.T, subtasks int) *routine {
	r := &routine{bench: newBench(t, 1)}
	r.operator = graph.Operator{ID: graph.ID{3}, UID: "count", Name: "count", Parallelism: subtasks, MaxParallelism: 128}
	r.settings.Graph = &graph.JobGraph{Tasks: []graph.Task{{
		ID: r.operator.ID, Name: "count", Parallelism: subtasks, MaxParallelism: 128, Operators: []graph.Operator{r.operator},
	}}}
	r.settings.Sources, r.settings.Sinks = nil, nil
	r.settings.Policy = checkpoint.Policy{Interval: time.Second, Timeout: time.Minute, Concurrent: 1, Retained: 3}
	r.settings.Storage.(*snapshot.Directory).Files = r.files()
	r.settings.Send = func(c control.Command) { r.Go("worker", func() { r.obey(c) }) }
	r.start()
	return r
}

func (r *routine) files() filesystem.FileSystem {
	return &filesystem.Faulty{FileSystem: r.disk, Before: func(string, string) error { r.calls++; return nil }}
}

func (r *routine) obey(c control.Command) {
	switch c := c.(type) {
	case control.Deploy:
		r.master.Report(control.Ready{Attempt: c.Attempt, Subtask: c.Subtask})
	case control.Trigger:
		for i := range r.operator.Parallelism {
			s := graph.Subtask{Task: r.operator.ID, Index: i}
			part := snapshot.State{Keyed: []state.Handle{{First: i, Last: i, Files: []state.File{r.write(c, i)}}}}
			r.master.Report(control.Ack{Attempt: c.Attempt, Subtask: s, Checkpoint: c.Barrier.Checkpoint, State: snapshot.Task{r.operator.ID: part}})
		}
	}
}

// write writes a subtask's state: that of every tenth to a file.
func (r *routine) write(c control.Trigger, subtask int) state.File {
	target := snapshot.Target{Files: r.files(), Dir: strings.TrimPrefix(c.Target, "file://"), Inline: 200, Random: r.rng.Uint64}
	w, err := target.Create(context.Background())
	if err == nil {
		size := 100
		if subtask%10 == 0 {
			size = 1000
		}
		_, err = w.Write(make([]byte, size))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := w.Finish()
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// checkpoints lets so many more be completed, and everything that follows happen.
func (r *routine) checkpoints(n int) {
	r.t.Helper()
	for n += r.completed(); r.completed() < n || len(r.ready) > 0; {
		if len(r.ready) > 0 {
			next := r.ready[0]
			r.ready = r.ready[1:]
			next.f()
			continue
		}
		r.clock = slices.DeleteFunc(r.clock, func(t timer) bool { return *t.off })
		if len(r.clock) == 0 {
			r.t.Fatalf("nothing happens any more: %+v", r.master.View())
		}
		next := slices.MinFunc(r.clock, func(a, b timer) int { return a.at.Compare(b.at) })
		*next.off, r.now = true, next.at
		next.f()
	}
}

func (r *routine) completed() int {
	if r.master.coordinator == nil {
		return 0
	}
	return r.master.coordinator.Stats().Completed
}

// A cost is what some checkpoints took.
type cost struct {
	fastest        time.Duration // of them
	mallocs, calls int
}

// add takes one more checkpoint.
func (r *routine) add(to cost) cost {
	var before, after runtime.MemStats
	calls := r.calls
	runtime.ReadMemStats(&before)
	began := time.Now()
	r.checkpoints(1)
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if to.mallocs == 0 || took < to.fastest {
		to.fastest = took
	}
	return cost{to.fastest, to.mallocs + int(after.Mallocs-before.Mallocs), to.calls + r.calls - calls}
}

// forget has the disk forget what it could bring back.
func (r *routine) forget() { r.disk.Crash(func(c filesystem.Change) int { return c.Bytes }) }

// inUse is how much memory there is that isn't garbage.
func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// S145: the last hundred of ten thousand checkpoints, each of a hundred subtasks, cost
// what the first hundred do: time, allocations, calls of the file system, and memory.
// The two hundreds are taken in turns, each by a job of its own, and the fastest of each
// is compared, since other programs use the processors, too. Where these leave neither
// hundred alone, it is some hundreds.
func TestCheckpointsCostWhatTheyDidAtFirst(t *testing.T) {
	all := 10_000
	if testing.Short() {
		all = 1_000
	}
	const subtasks = 100
	empty := inUse()
	old := newRoutine(t, subtasks)
	old.checkpoints(10)
	begun := inUse() - empty
	for old.completed() < all-100 {
		old.checkpoints(10)
		old.forget()
	}
	if grown := inUse() - empty; grown > 1.2*begun {
		t.Errorf("after %d checkpoints there are %.0f bytes in use, after ten there were %.0f", all, grown, begun)
	}
	fresh := newRoutine(t, subtasks)
	fresh.checkpoints(10)
	var first, last cost
	more := func(a, b int) bool { return float64(b) > 1.2*float64(a) }
	taken := 0
	for ; taken < 100 || taken < 1000 && more(int(first.fastest), int(last.fastest)); taken++ {
		if taken%10 == 0 {
			fresh.forget()
			old.forget()
		}
		first, last = fresh.add(first), old.add(last)
	}
	t.Logf("the first %d: %+v, the last: %+v, %.0f bytes in use", taken, first, last, begun)
	if more(int(first.fastest), int(last.fastest)) || more(first.mallocs, last.mallocs) || more(first.calls, last.calls) {
		t.Errorf("the first ones take %+v, the last ones %+v", first, last)
	}
	if got := old.completed(); got != all-100+taken {
		t.Errorf("%d checkpoints, want %d", got, all-100+taken)
	}
}
