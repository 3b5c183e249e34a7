package weir

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
)

// unhurried is a ledger whose second subtask takes its time to prepare.
type unhurried struct {
	*ledger[Pair[int, int64]]
	takes time.Duration
}

func (u unhurried) Open(ctx context.Context, w connector.Writing) (connector.Writer[Pair[int, int64], page[Pair[int, int64]]], error) {
	s, err := u.ledger.Open(ctx, w)
	if w.Subtask() == 1 {
		return dawdling{s, u.takes}, err
	}
	return s, err
}

type dawdling struct {
	connector.Writer[Pair[int, int64], page[Pair[int, int64]]]
	takes time.Duration
}

func (d dawdling) Prepare(ctx context.Context) ([]page[Pair[int, int64]], error) {
	time.Sleep(d.takes)
	return d.Writer.Prepare(ctx)
}

// digits is a job of two tasks of two subtasks each: numbers are counted by their
// last digit.
func digits(in *numbers, out unhurried, settings func(*Job)) func(*Job) error {
	return func(job *Job) error {
		job.Name, job.Parallelism = "digits", 2
		job.Restart = Restart{Strategy: "fixed-delay", Attempts: 3, Delay: time.Second}
		settings(job)
		To(Count(KeyBy(From(job, "in", in), func(n int) int { return n % 10 }), "count"), "out", out)
		return nil
	}
}

// slow has the operations that a path is a part of take their time, so many times.
func slow(op, part string, takes time.Duration, times int32) func(*environment) {
	var left atomic.Int32
	left.Store(times)
	return func(env *environment) {
		env.files = filesystem.Set{"file": &filesystem.Faulty{FileSystem: env.files["file"], Before: func(o, path string) error {
			if o == op && strings.Contains(path, part) && left.Add(-1) >= 0 {
				time.Sleep(takes)
			}
			return nil
		}}}
	}
}

// checkpointed takes a checkpoint as soon as the job runs.
func checkpointed(t *testing.T, r *Running) (number uint64, path string) {
	t.Helper()
	path = soon(t, "a checkpoint", func() string {
		for {
			n, path, err := r.Checkpoint(t.Context(), false)
			if err == nil {
				number = n
				return path
			}
			time.Sleep(time.Millisecond)
		}
	})
	return number, path
}

// TestCheckpointStatistics follows checkpoints of all kinds and with all ends: one
// whose subtasks freeze and write slowly, a savepoint, one that expires, a restart
// from the first, and the final one.
func TestCheckpointStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, points, b := t.TempDir(), t.TempDir(), newBoard()
		in, out := count(b, "in", 60), newLedger[Pair[int, int64]](b, "out")
		in.fault = &fault{point: "read"}
		r, _ := launch(t, t.Context(), digits(in, unhurried{out, 2 * time.Second}, func(job *Job) {
			job.Checkpoints = Checkpoints{Interval: time.Hour, Timeout: 10 * time.Second, Dir: "file://" + dir, TolerableFailures: 1, Retained: 1}
			job.Config = map[string]string{"execution.checkpointing.data-inline-threshold": "0", "web.checkpoints.history": "4"}
		}), slow("create", "chk-1/", 3*time.Second, 99), slow("create", "chk-3/", 30*time.Second, 1))
		in.let(20)
		synctest.Wait()
		if s := r.Checkpoints(); s.Triggered != 0 || s.History != nil || s.LatestCompleted != nil || s.LatestRestore != nil || s.Summary != (CheckpointSummary{}) {
			t.Errorf("before the first: %+v", s)
		}

		began := time.Now()
		if _, _, err := r.Checkpoint(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		s := r.Checkpoints()
		first := s.History[0]
		if want := metadata(t, filepath.Join(dir, r.ID(), "chk-1")).Bytes(); first.StateSize != want || first.CheckpointedSize != want {
			t.Errorf("it has %d bytes, of which %d were written; want %d", first.StateSize, first.CheckpointedSize, want)
		}
		tasks := first.Tasks
		first.Tasks, first.StateSize, first.CheckpointedSize = nil, 0, 0
		if got, want := fmt.Sprint(first), fmt.Sprint(CheckpointDetails{
			Number: 1, Status: "COMPLETED", Kind: "checkpoint", Triggered: began, LatestAck: began.Add(5 * time.Second), Ended: began.Add(8 * time.Second),
			Duration: 5 * time.Second, Path: "file://" + filepath.Join(dir, r.ID(), "chk-1"), Subtasks: 4, Acknowledged: 4,
		}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if len(tasks) != 2 || tasks[0].Name != "Source: in" || tasks[1].Name != "count -> Sink: out" || tasks[1].ID != r.plan.graph.Tasks[1].ID.String() {
			t.Fatalf("its tasks are %+v", tasks)
		}
		for i, want := range []SubtaskCheckpoint{{Duration: 3 * time.Second, Async: 3 * time.Second}, {Duration: 5 * time.Second, Sync: 2 * time.Second, Async: 3 * time.Second}} {
			got := tasks[1].Subtasks[i]
			if got.StateSize == 0 || got.CheckpointedSize != got.StateSize || !got.Acknowledged.Equal(began.Add(want.Duration)) {
				t.Errorf("subtask %d: %+v", i, got)
			}
			got.Acknowledged, got.StateSize, got.CheckpointedSize = time.Time{}, 0, 0
			if got != want {
				t.Errorf("subtask %d: %+v, want %+v", i, got, want)
			}
		}
		if c := tasks[1]; c.Duration != 5*time.Second || !c.LatestAck.Equal(began.Add(c.Duration)) || c.Acknowledged != 2 || c.StateSize != c.Subtasks[0].StateSize+c.Subtasks[1].StateSize {
			t.Errorf("its second task: %+v", c)
		}
		if sum := s.Summary; sum.Duration.P99 != 5*time.Second || sum.Sync.Max != 2*time.Second || sum.Async.Average != 3*time.Second || sum.StateSize.Min == 0 {
			t.Errorf("summary: %+v", sum)
		}

		path := must(savepoint(t, r, points))(t)
		if s := r.Checkpoints(); s.Completed != 2 || s.LatestSavepoint.Number != 2 || s.LatestSavepoint.Kind != "savepoint" || s.LatestSavepoint.Path != path || s.LatestCompleted.Number != 1 {
			t.Errorf("after the savepoint: %+v", s)
		}

		expired := make(chan error)
		go func() { _, _, err := r.Checkpoint(t.Context(), true); expired <- err }()
		time.Sleep(5 * time.Second)
		s = r.Checkpoints()
		if now := s.History[0]; s.InProgress != 1 || now.Number != 3 || now.Status != "IN_PROGRESS" || now.Acknowledged != 3 || now.Subtasks != 4 || !now.Ended.IsZero() || now.Duration > 2*time.Second || now.Path != "" {
			t.Errorf("in progress: %+v", s)
		}
		wants(t, <-expired, "not complete after 10s")
		s = r.Checkpoints()
		if f := s.LatestFailed; s.InProgress != 0 || s.Failed != 1 || f.Number != 3 || f.Status != "FAILED" || f.Failure != "not complete after 10s" || f.Duration != 10*time.Second || f.Acknowledged != 3 {
			t.Errorf("expired: %+v", s)
		}

		in.let(60)
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		s = r.Checkpoints()
		if s.Restored != 1 || *s.LatestRestore != (CheckpointRestore{1, false, s.LatestRestore.At, first.Path}) || s.LatestRestore.At.Before(began) {
			t.Errorf("restored: %+v", s.LatestRestore)
		}
		if s.Triggered != 4 || s.Completed != 3 || s.Failed != 1 {
			t.Errorf("in the end: %+v", s)
		}
		var story []string
		for _, c := range s.History {
			story = append(story, fmt.Sprintf("%d %s %s %v", c.Number, c.Kind, c.Status, c.Discarded))
		}
		want := []string{"4 final COMPLETED false", "3 checkpoint FAILED false", "2 savepoint COMPLETED false", "1 checkpoint COMPLETED true"}
		if fmt.Sprint(story) != fmt.Sprint(want) {
			t.Errorf("history: %q", story)
		}
	})
}
