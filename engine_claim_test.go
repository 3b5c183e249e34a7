package weir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/snapshot"
)

// quiet is the environment of a program, without its log.
func quiet() environment { return production(slog.New(slog.DiscardHandler)) }

// vanishes waits until a directory isn't there any more.
func vanishes(t *testing.T, path string) {
	t.Helper()
	soon(t, "the deletion of "+path, func() error {
		for {
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// remains runs a job that reads ten numbers of so many, and returns what it has left: its
// newest checkpoint, and a savepoint, behind the ten.
func remains(t *testing.T, out *ledger[string], dir, points string, end int) (chk, savepoint string) {
	t.Helper()
	in := count(out.board, "in", end).let(10)
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
		job.Name = "old"
		job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: dir, Retained: 3, Retention: RetainOnCancel}
	}))
	out.await(t, 1, "in reads 9")
	chk = committed(t, r, out, "out: 9 is number 10")
	savepoint = must(r.Savepoint(t.Context(), points))(t)
	if err := r.Cancel(context.Background()); err != nil {
		t.Fatal(err)
	}
	return chk, savepoint
}

// committed takes checkpoints until something is committed, and returns the last one.
func committed(t *testing.T, r *Running, out *ledger[string], said string) (dir string) {
	t.Helper()
	return soon(t, said, func() string {
		for out.times(said) == 0 { // it may be under way in the job, or the job fails
			if _, at, err := r.Checkpoint(t.Context(), true); err == nil {
				dir = at
			}
		}
		return dir
	})
}

// goingOn is a job that starts from what another has left.
func goingOn(in *numbers, out *ledger[string], dir, from string, mode ClaimMode, settings ...func(*Job)) func(*Job) error {
	return passing(in, out, func(job *Job) {
		job.From, job.Claim = from, mode
		job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: dir, Retained: 2}
		for _, set := range settings {
			set(job)
		}
	})
}

// A snapshot that is claimed counts among the job's checkpoints, and goes when so many
// newer ones are there. Nothing of what lies around it goes.
func TestClaimedSnapshotGoesWithTheCheckpoints(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"checkpoint", "savepoint"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, points, b := t.TempDir(), t.TempDir(), newBoard()
			out := newLedger[string](b, "out")
			from, other := remains(t, out, dir, points, far)
			if kind == "savepoint" {
				from, other = other, from
			}
			around := slices.DeleteFunc(append(shape(t, dir), shape(t, points)...), func(file string) bool { return strings.HasPrefix(file, from) })
			in := count(b, "in", far).let(20)
			r, _ := launch(t, t.Context(), goingOn(in, out, dir, "file://"+from, Claim))
			b.await(t, 1, "in reads 19")
			taken := metadata(t, from).Number
			for i := range uint64(4) {
				number, _, err := r.Checkpoint(t.Context(), false)
				if err != nil || number != taken+1+i {
					t.Fatalf("checkpoint %d, after %d: %v", number, taken, err)
				}
				if _, err := os.Stat(from); err != nil && len(chk(t, dir, r.ID())) < 2 {
					t.Error("it is gone, and so would have been the last but one checkpoint:", err)
				}
			}
			vanishes(t, from)
			committed(t, r, out, "out: 19 is number 20")
			same(t, "out", b.all("out: "), countedUpTo(20))
			metadata(t, other)
			for _, file := range around {
				if path, _, _ := strings.Cut(file, " "); !slices.Contains(append(shape(t, dir), shape(t, points)...), file) {
					t.Errorf("%s is gone, or another", path)
				}
			}
		})
	}
}

// Until then the job can go on from it: after a failure, and when its process has
// ended and the next one is told to go on with the latest run, whose record knows what
// is claimed.
func TestClaimedSnapshotIsGoneOnFrom(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	out := newLedger[string](b, "out")
	_, from := remains(t, out, dir, points, far)
	in := count(b, "in", far).let(20)
	id := stopped(t, b, "in reads 19", goingOn(in, out, dir, from, Claim))
	metadata(t, from)
	in.fault = &fault{point: "read"}
	in.let(2 * soFar)
	ctx, end := context.WithCancel(t.Context())
	r, log := launch(t, ctx, goingOn(in, out, dir, Latest, NoClaim))
	b.await(t, 2, "in reads 49") // and then it fails
	b.await(t, 1, fmt.Sprintf("in reads %d", 2*soFar-1))
	if r.ID() != id || b.times("in reads 0") > 1 {
		t.Errorf("run %s goes on as %s", id, r.ID())
	}
	if s := log.String(); strings.Count(s, "starts from a checkpoint") != 2 || !strings.Contains(s, from) {
		t.Error("it doesn't say that it starts from there, twice")
	}
	if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	end()
	wait(t, r)
	metadata(t, from) // the oldest of two

	// The newest is damaged: the claimed one takes its place, loudly.
	path, _ := newest(t, dir, id)
	alter(t, filepath.Join(path, "_metadata"), func(b []byte) []byte { return b[:len(b)-1] })
	in.let(2*soFar + 10)
	r, log = launch(t, t.Context(), goingOn(in, out, dir, Latest, NoClaim))
	b.await(t, 1, fmt.Sprintf("in reads %d", 2*soFar+9))
	if s := log.String(); !strings.Contains(s, "an older one takes its place") || !strings.Contains(s, from) {
		t.Error("it doesn't say from what it starts, and why")
	}
	for range 2 {
		if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	vanishes(t, from)
}

// At the job's end the claimed snapshot goes, or stays, as the job's checkpoints do.
func TestClaimedSnapshotAtTheEndOfTheJob(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		end       string
		retention Retention
		stays     bool
	}{
		{"finished", RetainOnCancel, false},
		{"cancelled", DeleteOnCancel, false},
		{"cancelled", "NO_EXTERNALIZED_CHECKPOINTS", false},
		{"cancelled", RetainOnCancel, true},
		{"suspended", DeleteOnCancel, true},
		{"failed", DeleteOnCancel, true},
	} {
		t.Run(fmt.Sprint(test.end, " ", test.retention), func(t *testing.T) {
			t.Parallel()
			dir, points, b := t.TempDir(), t.TempDir(), newBoard()
			out := newLedger[string](b, "out")
			end := far
			if test.end == "finished" {
				end = 20
			}
			other, from := remains(t, out, dir, points, end)
			in := count(b, "in", end).let(15)
			if test.end == "failed" {
				in.fault = &fault{point: "read"}
			}
			ctx, suspend := context.WithCancel(t.Context())
			defer suspend()
			r, _ := launch(t, ctx, goingOn(in, out, dir, from, Claim, func(job *Job) {
				job.Checkpoints.Retention, job.Restart = test.retention, Restart{Strategy: "none"}
			}))
			b.await(t, 1, "in reads 14")
			switch test.end {
			case "finished", "failed":
				in.let(2 * soFar)
			case "cancelled":
				r.Cancel(context.Background())
			case "suspended":
				suspend()
			}
			wait(t, r)
			if _, err := os.Stat(from); (err == nil) != test.stays {
				t.Errorf("the claimed savepoint: %v", err)
			}
			metadata(t, other)
		})
	}
}

// What can't be claimed is refused, before anything is begun.
func TestClaimsThatAreRefused(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	out := newLedger[string](b, "out")
	in := count(b, "in", far)
	for _, test := range []struct {
		from, dir string
		want      []string
	}{
		{"", dir, []string{`execution.state-recovery.claim-mode = "CLAIM"`, "needs execution.state-recovery.path"}},
		{"/x/chk-1", "", []string{`execution.state-recovery.claim-mode = "CLAIM"`, "go with the process", "needs execution.checkpointing.dir"}},
	} {
		_, err := prepare(goingOn(in, out, test.dir, test.from, Claim), config.Layer{}, config.Layer{})
		wants(t, err, test.want...)
	}
	start := func(from string) error {
		_, err := must(prepare(goingOn(in, out, dir, from, Claim), config.Layer{}, config.Layer{}))(t).start(t.Context(), quiet())
		return err
	}
	r, _ := launch(t, t.Context(), passing(count(b, "old", far), newLedger[string](b, "out"), func(job *Job) {
		job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: points}
	}))
	soon(t, "a checkpoint", func() error {
		for {
			_, path, err := r.Checkpoint(t.Context(), false)
			if err == nil {
				wants(t, start(path), "claim", r.ID(), "it is alive")
				return nil
			}
		}
	})
	wants(t, start(points), "claim", "there is no _metadata")
	wants(t, start("/nowhere/chk-1"), "claim", "no such file")
	if got := shape(t, dir); len(got) > 0 {
		t.Errorf("something was begun: %q", got)
	}
}

// LEGACY is NO_CLAIM, with a note.
func TestLegacyClaimModeIsNoted(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	out := newLedger[string](b, "out")
	_, from := remains(t, out, dir, points, far)
	r, log := launch(t, t.Context(), goingOn(count(b, "in", far).let(20), out, dir, from, "legacy"))
	b.await(t, 1, "in reads 19")
	for range 3 {
		if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	r.Cancel(context.Background())
	metadata(t, from)
	if s := log.String(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, "acts like NO_CLAIM") {
		t.Error("the log doesn't say so")
	}
}

// S37: without a claim, nothing of the old snapshot is deleted, and when the job has
// completed a checkpoint nothing of it is needed, even if a savepoint came first: the
// user deletes the old job's directory, the job fails, and goes on. No metadata
// refers to a file outside the new job's directory.
func TestUnclaimedSnapshotIsNotNeededAfterACheckpoint(t *testing.T) {
	t.Parallel()
	dir, points, b := t.TempDir(), t.TempDir(), newBoard()
	out := newLedger[string](b, "out")
	from, _ := remains(t, out, dir, points, far)
	before := shape(t, filepath.Dir(from))
	in := count(b, "in", far).let(20)
	in.fault = &fault{point: "read"}
	r, _ := launch(t, t.Context(), goingOn(in, out, dir, from, NoClaim, func(job *Job) {
		job.Checkpoints.Retained = 1
		job.Config = map[string]string{"execution.checkpointing.data-inline-threshold": "0"}
	}))
	b.await(t, 1, "out takes 19 is number 20")
	first := must(savepoint(t, r, points))(t)
	last := committed(t, r, out, "out: 19 is number 20")
	if after := shape(t, filepath.Dir(from)); !slices.Equal(after, before) {
		t.Errorf("the old job's directory holds %q, and held %q", after, before)
	}
	if err := os.RemoveAll(filepath.Dir(from)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first, last} {
		cp, at, _, err := quiet().load(path)
		wrong := snapshot.Examine(t.Context(), at, cp)
		if files := must(os.ReadDir(path))(t); err != nil || len(wrong) > 0 || len(files) < 2 {
			t.Errorf("%s, of %d files, isn't whole: %v", path, len(files), errors.Join(append(wrong, err)...))
		}
	}
	in.let(2 * soFar)
	b.await(t, 3, "out opens") // it has failed
	b.await(t, 1, fmt.Sprintf("in reads %d", 2*soFar-1))
	committed(t, r, out, fmt.Sprintf("out: %d is number %d", 2*soFar-1, 2*soFar))
	same(t, "out", b.all("out: "), countedUpTo(2*soFar))
}
