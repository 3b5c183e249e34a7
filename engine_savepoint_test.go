package weir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/snapshot"
)

// savepoint takes a savepoint.
func savepoint(t *testing.T, r *Running, dir string) (path string, err error) {
	t.Helper()
	type taken struct {
		path string
		err  error
	}
	got := soon(t, "the savepoint", func() taken {
		path, err := r.Savepoint(t.Context(), dir)
		return taken{path, err}
	})
	return got.path, got.err
}

// obstacle is a file where a directory is wanted.
func obstacle(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// metadata reads that of a checkpoint or a savepoint.
func metadata(t *testing.T, dir string) snapshot.Checkpoint {
	t.Helper()
	cp, _, err := snapshot.Load(filesystem.Local{}, dir)
	return must(cp, err)(t)
}

// TestSavepoint takes a savepoint, loses all that the job has beside it, and starts
// two jobs from it at the same time, whose outputs begin where the savepoint was
// taken and are exact. They have ids of their own, and go on counting after the
// savepoint's number (S25).
func TestSavepoint(t *testing.T) {
	parallel(t)
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) { job.Checkpoints.Dir = dir }))
	b.await(t, 1, "out: 9 is number 10")
	path := must(savepoint(t, r, points))(t)
	if want := regexp.MustCompile(`^savepoint-` + r.ID()[:6] + `-[0-9a-f]{12}$`); filepath.Dir(path) != points || !want.MatchString(filepath.Base(path)) {
		t.Errorf("it is in %q", path)
	}
	taken := metadata(t, path)
	if !taken.Savepoint || taken.JobID != r.ID() {
		t.Errorf("it says that it is %+v", taken)
	}
	in.let(20)
	b.await(t, 1, "out: 19 is number 20")
	if err := soon(t, "the end", func() error { return r.Cancel(context.Background()) }); err != nil {
		t.Fatal(err)
	}
	same(t, "out", b.all("out: "), countedUpTo(20))
	moved := filepath.Join(t.TempDir(), "moved")
	if err := errors.Join(os.RemoveAll(dir), os.Rename(path, moved)); err != nil {
		t.Fatal(err)
	}
	in.let(30)
	var jobs []*Running
	for _, name := range []string{"left", "right"} {
		r, _ := launch(t, t.Context(), passing(in, newLedger[string](b, name), func(job *Job) {
			job.Name, job.Checkpoints.Dir, job.From = name, dir, moved
			job.Checkpoints.Retention = RetainOnCancel
		}))
		jobs = append(jobs, r)
	}
	for i, name := range []string{"left", "right"} {
		b.await(t, 1, name+": 29 is number 30")
		jobs[i].Cancel(context.Background())
		same(t, name, b.all(name+": "), countedUpTo(30)[10:])
		if _, n := newest(t, dir, jobs[i].ID()); uint64(n) <= taken.Number {
			t.Errorf("the newest checkpoint of %s is %d, after savepoint %d", name, n, taken.Number)
		}
	}
	if ids := []string{r.ID(), jobs[0].ID(), jobs[1].ID()}; len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 3 {
		t.Errorf("the ids are %q", ids)
	}
	metadata(t, moved) // still there
}

// S31, S34: a savepoint takes no checkpoint's place. With one kept, the job
// fails after the savepoint, whose directory its user has deleted, and goes on from
// the checkpoint.
func TestSavepointIsNoRecoveryPoint(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
		job.Checkpoints.Dir, job.Checkpoints.Interval = dir, time.Hour
		job.Config = map[string]string{"execution.checkpointing.savepoint-dir": "file://" + points}
	}))
	b.await(t, 1, "out takes 9 is number 10")
	if _, _, err := r.Checkpoint(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1, "out: 9 is number 10")
	in.let(soFar)
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", soFar-1, soFar))
	path := must(savepoint(t, r, ""))(t)
	found := must(filepath.Glob(filepath.Join(points, "savepoint-*")))(t)
	if len(found) != 1 || "file://"+found[0] != path {
		t.Fatalf("%q is to be among %q", path, found)
	}
	if n := b.times(fmt.Sprintf("out: %d is number %d", soFar-1, soFar)); n != 0 {
		t.Error("something was committed for the savepoint")
	}
	if got := r.Status().Checkpoint.Number; got != 1 {
		t.Errorf("the newest checkpoint is %d", got)
	}
	if err := os.RemoveAll(found[0]); err != nil {
		t.Fatal(err)
	}
	in.let(2 * soFar)
	b.await(t, 2, "out opens")
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", 2*soFar-1, 2*soFar))
	soon(t, "a checkpoint", func() error {
		for { // not before the restart is over
			_, _, err := r.Checkpoint(t.Context(), false)
			if err == nil {
				return nil
			}
		}
	})
	b.await(t, 1, fmt.Sprintf("out: %d is number %d", 2*soFar-1, 2*soFar))
	same(t, "out", b.all("out: "), countedUpTo(2*soFar))
}

// restarting is a job that waits for its next attempt.
func restarting(t *testing.T) *Running {
	t.Helper()
	b := newBoard()
	in, out := count(b, "in", far).let(2*soFar), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) { job.Restart.Delay = time.Hour }), b.log)
	b.await(t, 1, "log: the job restarts")
	return r
}

// TestSavepointOfAJobThatRestarts asks for a savepoint, and for a checkpoint,
// while the job waits for its next attempt, and when it has ended.
func TestSavepointOfAJobThatRestarts(t *testing.T) {
	t.Parallel()
	r := restarting(t)
	_, err := savepoint(t, r, t.TempDir())
	wants(t, err, `"passing"`, "RESTARTING")
	_, _, err = r.Checkpoint(t.Context(), false)
	wants(t, err, `"passing"`, "RESTARTING")
	r.Cancel(context.Background())
	_, err = savepoint(t, r, t.TempDir())
	wants(t, err, "CANCELED")
}

// TestSavepointThatCantBeWritten asks for savepoints where there can be none. The
// job goes on, and no failure counts, though none is tolerated.
func TestSavepointThatCantBeWritten(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) { job.Checkpoints.Dir = dir }))
	b.await(t, 1, "out: 9 is number 10")
	file := obstacle(t)
	_, err := savepoint(t, r, file)
	wants(t, err, `"passing"`, file)
	_, err = savepoint(t, r, "")
	wants(t, err, "execution.checkpointing.savepoint-dir")
	_, err = savepoint(t, r, "nowhere://there")
	wants(t, err, "nowhere")
	in.let(20)
	b.await(t, 1, "out: 19 is number 20")
	if s := r.Status(); s.Restarts != 0 {
		t.Errorf("%d restarts", s.Restarts)
	}
}

// held has whatever creates a file whose path has a part wait until it is let go.
func held(part string) (change func(*environment), let func()) {
	gate := make(chan struct{})
	return on(&filesystem.Faulty{FileSystem: filesystem.Local{}, Before: func(op, path string) error {
		if op == "create" && strings.Contains(path, part) {
			<-gate
		}
		return nil
	}}), func() { close(gate) }
}

// TestCheckpointOnDemand takes checkpoints long before they are due: they are in the
// directory that is named, and a job goes on from them. One that nobody waits for any
// more is taken all the same.
func TestCheckpointOnDemand(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	fourth, let := held("/chk-4/")
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
		job.Checkpoints.Dir, job.Checkpoints.Interval, job.Checkpoints.Retained = dir, time.Hour, 3
	}), fourth)
	b.await(t, 1, "out takes 9 is number 10")
	var last string
	for want := uint64(1); want <= 3; want++ {
		n, path, err := r.Checkpoint(t.Context(), want%2 == 0)
		if err != nil || n != want || metadata(t, path).Number != n {
			t.Fatalf("checkpoint %d in %q: %v", n, path, err)
		}
		last = path
	}
	b.await(t, 1, "out: 9 is number 10")
	gone, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := r.Checkpoint(gone, false); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
	let()
	if n, _, err := r.Checkpoint(t.Context(), false); n != 5 || err != nil || r.Checkpoints().Completed != 5 {
		t.Errorf("checkpoint %d is number %d: %v", r.Checkpoints().Completed, n, err)
	}
	in.let(20)
	again := newLedger[string](b, "again")
	launch(t, t.Context(), passing(in, again, func(job *Job) { job.Name, job.From = "again", last }))
	b.await(t, 1, "again: 19 is number 20")
	same(t, "again", b.all("again: "), countedUpTo(20)[10:])
}

// recovering is passing whose restarts go on from savepoints, too.
func recovering(in *numbers, out *ledger[string], dir string) func(*Job) error {
	return passing(in, out, func(job *Job) {
		job.From, job.Checkpoints.Dir, job.Checkpoints.Interval = Latest, dir, time.Hour
		job.Checkpoints.PreferSavepoint = true
	})
}

// TestSavepointAsRecoveryPoint has a job go on from its own savepoints: after a
// failure, and in the next process. Outputs are committed for them, and are exact.
func TestSavepointAsRecoveryPoint(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	ctx, suspend := context.WithCancel(t.Context())
	r, _ := launch(t, ctx, recovering(in, out, dir))
	b.await(t, 1, "out takes 9 is number 10")
	if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	in.let(soFar)
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", soFar-1, soFar))
	path := must(savepoint(t, r, points))(t)
	b.await(t, 1, fmt.Sprintf("out: %d is number %d", soFar-1, soFar))
	in.let(2 * soFar)
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", 2*soFar-1, 2*soFar))
	if s := r.Checkpoints(); r.Status().Restarts != 1 || s.LatestRestore.Path != path || !s.LatestRestore.Savepoint || s.LatestCompleted.Number != 1 {
		t.Errorf("%+v", s.LatestRestore)
	}
	must(savepoint(t, r, points))(t)
	b.await(t, 1, fmt.Sprintf("out: %d is number %d", 2*soFar-1, 2*soFar))
	suspend()
	if err := wait(t, r); !errors.Is(err, ErrSuspended) {
		t.Fatal(err)
	}
	if o := r.master.Outcome(); o.Latest != 3 || filepath.Dir(o.Dir) != points {
		t.Errorf("it would go on from %+v", o)
	}
	r, _ = launch(t, t.Context(), recovering(in.let(3*soFar), out, dir))
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", 3*soFar-1, 3*soFar))
	if n, _, err := r.Checkpoint(t.Context(), false); n != 4 || err != nil {
		t.Error(n, err)
	}
	b.await(t, 1, fmt.Sprintf("out: %d is number %d", 3*soFar-1, 3*soFar))
	same(t, "out", b.all("out: "), countedUpTo(3*soFar))
	for n := range 3 * soFar {
		if times := b.times(fmt.Sprintf("in reads %d", n)); times != 1 {
			t.Errorf("%d was read %d times", n, times)
		}
	}
}

// S34: outputs were committed for a savepoint, and its user moves it away. The job
// doesn't go below it, and says what to do; when that is done, it goes on.
func TestRecoveryPointThatIsGone(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	r, _ := launch(t, t.Context(), recovering(in, out, dir))
	b.await(t, 1, "out takes 9 is number 10")
	_, chk, err := r.Checkpoint(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	in.let(soFar)
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", soFar-1, soFar))
	path := must(savepoint(t, r, points))(t)
	b.await(t, 1, fmt.Sprintf("out: %d is number %d", soFar-1, soFar))
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(path, away); err != nil {
		t.Fatal(err)
	}
	in.let(2 * soFar)
	wants(t, wait(t, r), "savepoint 2, whose outputs are committed", path, "checkpoint 1 ("+chk+")")
	r, _ = launch(t, t.Context(), recovering(in, out, dir)) // the next process finds the same
	wants(t, wait(t, r), "savepoint 2, whose outputs are committed", path, "checkpoint 1 ("+chk+")")
	if err := os.Rename(away, path); err != nil {
		t.Fatal(err)
	}
	r, _ = launch(t, t.Context(), recovering(in, out, dir))
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", 2*soFar-1, 2*soFar))
	if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1, fmt.Sprintf("out: %d is number %d", 2*soFar-1, 2*soFar))
	same(t, "out", b.all("out: "), countedUpTo(2*soFar))
}

// S34: the same with a savepoint for which there was nothing to commit that wasn't
// committed before, though its sink hadn't heard of it: the checkpoint before serves
// as well, and the log says that it has to.
func TestRecoveryPointThatIsntNeeded(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	r, log := launch(t, t.Context(), recovering(in, out, dir), new(postbox).install)
	b.await(t, 1, "out takes 9 is number 10")
	if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1, "out: 9 is number 10")
	path := must(savepoint(t, r, points))(t)
	b.await(t, 3, "out commits") // at the start, for the checkpoint, for the savepoint
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	in.let(2 * soFar)
	b.await(t, 1, fmt.Sprintf("out takes %d is number %d", 2*soFar-1, 2*soFar))
	if n, _, err := r.Checkpoint(t.Context(), false); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	b.await(t, 1, fmt.Sprintf("out: %d is number %d", 2*soFar-1, 2*soFar))
	same(t, "out", b.all("out: "), countedUpTo(2*soFar))
	if s := r.Checkpoints().LatestRestore; s.Number != 1 || !strings.Contains(log.String(), "savepoint 2") {
		t.Errorf("restored is %+v\n%s", s, log)
	}
}

// S136: a savepoint takes three times as long as a checkpoint may. Who asked for it
// waits only for five seconds; it goes on, beside checkpoints that come as ever, and
// is there in the end. One that takes longer than its own timeout fails, and the job
// doesn't mind.
func TestSavepointHasItsOwnTimeout(t *testing.T) {
	for timeout, completes := range map[string]bool{"1 h": true, "20 s": false} {
		t.Run(timeout, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, b := t.TempDir(), newBoard()
				in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
				r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
					job.Checkpoints = Checkpoints{Interval: time.Second, Timeout: 10 * time.Second, Dir: t.TempDir()}
					job.Config = map[string]string{"execution.checkpointing.savepoint-timeout": timeout}
				}), slow("create", "savepoint-", 30*time.Second, 1))
				synctest.Wait()
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
				defer stop()
				asked := time.Now()
				if _, err := r.Savepoint(ctx, dir); !errors.Is(err, context.DeadlineExceeded) || time.Since(asked) != 5*time.Second {
					t.Errorf("%v after %v", err, time.Since(asked))
				}
				time.Sleep(24 * time.Second)
				if s := r.Checkpoints(); s.LatestCompleted.Number < 28 || completes != (s.Failed == 0) || s.LatestSavepoint != nil {
					t.Errorf("while it is written: %+v", s)
				}
				time.Sleep(2 * time.Second)
				s := r.Checkpoints()
				if r.Status().Restarts != 0 || (s.LatestSavepoint != nil) != completes || (s.LatestFailed != nil) == completes {
					t.Fatalf("in the end: %+v", s)
				}
				if !completes {
					if s.LatestFailed.Failure != "not complete after 20s" || s.LatestFailed.Kind != "savepoint" {
						t.Errorf("%+v", s.LatestFailed)
					}
					return
				}
				if took := s.LatestSavepoint.Ended.Sub(asked); took != 30*time.Second || metadata(t, s.LatestSavepoint.Path).Number != s.LatestSavepoint.Number {
					t.Errorf("after %v: %+v", took, s.LatestSavepoint)
				}
			})
		})
	}
}

// A savepoint that was taken is disposed of by its URI, by whoever has that: the job,
// which has its checkpoints, doesn't notice.
func TestDisposeOfASavepoint(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in := count(b, "in", 20).let(10)
	r, _ := launch(t, t.Context(), passing(in, newLedger[string](b, "out"), func(job *Job) { job.Checkpoints.Dir = dir }))
	b.await(t, 1, "out: 9 is number 10")
	path := must(savepoint(t, r, t.TempDir()))(t)
	mine := filepath.Join(path, "notes.txt")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{mine}, nil} {
		if left, err := Dispose(t.Context(), "file://"+path); err != nil || !slices.Equal(left, want) {
			t.Fatalf("left %q, %v; want %q", left, err, want)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Dispose(t.Context(), filepath.Join(dir, r.ID())); err == nil {
		t.Error("a job's directory is disposed of")
	}
	if _, err := Dispose(t.Context(), "ftp://host"+path); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("on an unknown file system: %v", err)
	}
	in.let(20)
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	same(t, "out", b.all("out: "), countedUpTo(20))
}
