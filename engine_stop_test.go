package weir

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/config"
)

// holding is a job that gives out how many numbers there were when their input ends,
// beside each number with the how-manieth it is.
func holding(in *numbers, out *ledger[string], settings func(*Job)) func(*Job) error {
	return func(job *Job) error {
		job.Checkpoints.Interval = 10 * time.Millisecond
		settings(job)
		numbers := From(job, "in", in)
		n := 0
		total := Operate(numbers, "total", func(op *Out[string]) Handler[int] {
			return Handler[int]{
				Record: func(int) error { n++; return nil },
				End:    func() error { op.Emit(fmt.Sprintf("%d in all", n)); return nil },
			}
		})
		To(Union(counted(numbers, "count"), total), "out", out)
		return nil
	}
}

// halted stops a job.
func halted(t *testing.T, r *Running, s Stop) (path string, err error) {
	t.Helper()
	soon(t, "the stop", func() error { path, err = r.Stop(t.Context(), s); return nil })
	return path, err
}

// TestStop stops a job in the middle of its input. All that it has read is committed,
// its operators don't hear of an end, and it has finished: its own checkpoints are
// gone. A new job goes on from the savepoint, and its first checkpoint from the
// number; the old one isn't run again.
func TestStop(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(1000), newLedger[string](b, "out")
	here := func(job *Job) {
		job.Name, job.Checkpoints.Dir = "holding", dir
		job.Checkpoints.Interval = time.Hour
	}
	r, _ := launch(t, t.Context(), holding(in, out, here))
	b.await(t, 1, "in reads 9")
	path := must(halted(t, r, Stop{Dir: points}))(t)
	if err := wait(t, r); err != nil || r.Status().State != "FINISHED" {
		t.Fatalf("it is %s: %v", r.Status().State, err)
	}
	taken := len(b.all("out: "))
	same(t, "out", b.all("out: "), countedUpTo(taken))
	if left := must(filepath.Glob(filepath.Join(dir, r.ID(), "*")))(t); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	savepoint := metadata(t, path)
	if !savepoint.Savepoint || savepoint.JobID != r.ID() {
		t.Errorf("the savepoint says that it is %+v", savepoint)
	}
	_, err := Start(t.Context(), holding(in, out, func(job *Job) { here(job); job.From = Latest }))
	wants(t, err, "stopped with a savepoint", path, "-s")

	in = count(b, "more", far).let(2000) // of which the first job has read at most half
	r, _ = launch(t, t.Context(), holding(in, out, func(job *Job) { here(job); job.From = path }))
	b.await(t, 1, "out takes 1999 is number 2000")
	if n, _, err := r.Checkpoint(t.Context(), false); n != savepoint.Number+1 || err != nil { // S25
		t.Errorf("the first checkpoint is %d, after savepoint %d: %v", n, savepoint.Number, err)
	}
	b.await(t, 1, "out: 1999 is number 2000")
	same(t, "out", b.all("out: "), countedUpTo(2000))
}

// TestDrain stops a job with the end of its input: operators give out what they hold
// back, and that is committed. A job that starts from the savepoint goes on where the
// input was ended, and has an end of its own.
func TestDrain(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", 20).let(10), newLedger[string](b, "out")
	r, _ := launch(t, t.Context(), holding(in, out, func(job *Job) {
		job.Checkpoints.Dir = dir
		job.Config = map[string]string{config.SavepointDir.Key(): filepath.Join(dir, "points")}
	}))
	b.await(t, 1, "out: 9 is number 10")
	path := must(halted(t, r, Stop{Drain: true}))(t)
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	same(t, "out", b.all("out: "), append(countedUpTo(10), "10 in all"))

	in.let(20)
	r, _ = launch(t, t.Context(), holding(in, out, func(job *Job) { job.From = path }))
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	same(t, "out", b.all("out: "), append(countedUpTo(20), "10 in all", "10 in all"))
}

// S14: a stop whose savepoint can't be written says why. The job runs, its sources
// emit, checkpoints are complete again, and a second stop succeeds.
func TestStopThatFailsLetsTheJobGoOn(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) { job.Checkpoints.Dir = dir }))
	b.await(t, 1, "out: 9 is number 10")
	file := obstacle(t)
	_, err := halted(t, r, Stop{Dir: file})
	wants(t, err, `"passing"`, file)
	_, err = halted(t, r, Stop{})
	wants(t, err, config.SavepointDir.Key())
	in.let(20)
	b.await(t, 1, "out: 19 is number 20")
	if s := r.Status(); s.State != "RUNNING" || s.Restarts != 0 {
		t.Errorf("it is %+v", s)
	}
	if _, err := halted(t, r, Stop{Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
	same(t, "out", b.all("out: "), countedUpTo(20))
}

// TestDrainThatFailsRestartsTheJob ends the input of a job for a savepoint that can't
// be written. It can only go on from its latest checkpoint, and does, exactly.
func TestDrainThatFailsRestartsTheJob(t *testing.T) {
	t.Parallel()
	b := newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	r, _ := launch(t, t.Context(), passing(in, out, nil))
	b.await(t, 1, "out: 9 is number 10")
	file := obstacle(t)
	_, err := halted(t, r, Stop{Dir: file, Drain: true})
	wants(t, err, file)
	in.let(20)
	b.await(t, 1, "out: 19 is number 20")
	if n := r.Status().Restarts; n != 1 {
		t.Errorf("%d restarts", n)
	}
	same(t, "out", b.all("out: "), countedUpTo(20))
}

// TestStopThatMeetsAFailure has the commit fail that comes after the savepoint. The
// caller hears of both; the job goes on from its final checkpoint, which it takes
// for what it is, and what was due is committed once.
func TestStopThatMeetsAFailure(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	out.fault = &fault{point: "commit"}
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
		job.Checkpoints.Dir, job.Checkpoints.Interval = dir, time.Hour
	}))
	b.await(t, 1, "in reads 9")
	path, err := halted(t, r, Stop{Dir: points})
	wants(t, err, path, "hasn't ended")
	metadata(t, path)
	in.let(20)
	b.await(t, 1, "in reads 19")
	if _, err := halted(t, r, Stop{Dir: points}); err != nil {
		t.Fatal(err)
	}
	taken := b.all("out: ")
	same(t, "out", taken, countedUpTo(len(taken)))
}

// TestStopHasItsPlace asks to stop a job that waits for its next attempt, one that has
// ended, and one without waiting until it has stopped.
func TestStopHasItsPlace(t *testing.T) {
	t.Parallel()
	r := restarting(t)
	_, err := halted(t, r, Stop{Dir: t.TempDir()})
	wants(t, err, "RESTARTING")
	r.Cancel(context.Background())
	_, err = halted(t, r, Stop{Dir: t.TempDir()})
	wants(t, err, "CANCELED")

	b := newBoard()
	savepoint, let := held("/savepoint-")
	r, _ = launch(t, t.Context(), passing(count(b, "more", far).let(10), newLedger[string](b, "rest"), nil), savepoint)
	b.await(t, 1, "rest: 9 is number 10")
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.Stop(gone, Stop{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
	let()
	if err := wait(t, r); err != nil {
		t.Error(err)
	}
}
