package weir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
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
	b.await(t, 1, "in reads 9")
	if _, _, err := r.Checkpoint(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	b.await(t, 1, "out: 9 is number 10")
	in.let(soFar)
	b.await(t, 1, fmt.Sprintf("in reads %d", soFar-1))
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
	b.await(t, 1, fmt.Sprintf("in reads %d", 2*soFar-1))
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

// TestSavepointOfAJobThatRestarts asks for a savepoint, and for a checkpoint,
// while the job waits for its next attempt, and when it has ended.
func TestSavepointOfAJobThatRestarts(t *testing.T) {
	t.Parallel()
	b := newBoard()
	in, out := count(b, "in", far).let(2*soFar), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) { job.Restart.Delay = time.Hour }), b.log)
	b.await(t, 1, "log: the job restarts")
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

// TestCheckpointOnDemand takes checkpoints long before they are due: they are in the
// directory that is named, and a job goes on from them.
func TestCheckpointOnDemand(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
		job.Checkpoints.Dir, job.Checkpoints.Interval = dir, time.Hour
	}))
	b.await(t, 1, "in reads 9")
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
	in.let(20)
	again := newLedger[string](b, "again")
	launch(t, t.Context(), passing(in, again, func(job *Job) { job.Name, job.From = "again", last }))
	b.await(t, 1, "again: 19 is number 20")
	same(t, "again", b.all("again: "), countedUpTo(20)[10:])
}
