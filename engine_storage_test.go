package weir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

// below lists the files below a directory.
func below(t *testing.T, disk *filesystem.Memory, dir string) (names []string) {
	t.Helper()
	if _, err := disk.Stat(dir); err == nil {
		each(t, disk, dir, func(name string, _ []byte) { names = append(names, name) })
	}
	return names
}

// S38: to sync a file takes two seconds, and after one second the checkpoint is given up,
// a hundred times. What is written after all goes.
func TestFilesFinishedTooLateGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, b, slow := filesystem.NewMemory(), newBoard(), atomic.Bool{}
		late := &filesystem.Faulty{FileSystem: disk, Before: func(op, path string) error {
			if slow.Load() && op == "sync" && strings.Contains(path, "chk-") && !strings.Contains(path, "_metadata") {
				time.Sleep(2 * time.Second)
			}
			return nil
		}}
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, filed(b, count(b, "in", far).let(10), func(c *Checkpoints) { c.Timeout, c.TolerableFailures = time.Second, 1000 }), on(late))
		b.await(t, 1, "out: 9 is number 10")
		slow.Store(true)
		for r.master.View().Checkpoints.Failed < 100 {
			time.Sleep(time.Second)
		}
		end()
		wait(t, r)
		needed(t, disk, "/checkpoints/"+r.ID(), 1)
	})
}

// S40: the process is killed in the middle of deleting chk-3, whose metadata is gone.
// The next one takes its checkpoints on time, though what is left of chk-3 can't be
// deleted; and the one after it deletes that.
func TestInterruptedDeletionHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, b := filesystem.NewMemory(), newBoard()
		in := count(b, "in", far).let(10)
		build := filed(b, in, func(c *Checkpoints) { c.Interval = time.Second })
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, build, on(disk))
		for r.Status().Checkpoint.Number < 3 {
			time.Sleep(time.Second)
		}
		end()
		wait(t, r)
		number := r.Status().Checkpoint.Number
		dead := fmt.Sprintf("/checkpoints/%s/chk-%d", r.ID(), number-1)
		write(t, disk, dead+"/._metadata.deleted.x", "")
		write(t, disk, dead+"/01234567-89ab-cdef-0123-456789abcdef", "state")

		stuck := &filesystem.Faulty{FileSystem: disk, Before: func(op, path string) error {
			if op == "remove" && strings.HasPrefix(path, dead+"/") {
				b.say("tried")
				time.Sleep(time.Minute)
				return errStruck
			}
			return nil
		}}
		ctx, end = context.WithCancel(t.Context())
		r, log := launch(t, ctx, build, on(stuck))
		began := time.Now()
		b.await(t, 1, "tried")
		for r.master.View().Checkpoints.Completed < 100 {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 103*time.Second {
			t.Errorf("100 checkpoints, one each second, took %v", took)
		}
		end()
		wait(t, r)
		if n := b.times("tried"); n > 4 {
			t.Errorf("it was tried %d times", n)
		}
		if !strings.Contains(log.String(), "files of a checkpoint are left") {
			t.Error("the log doesn't say that files are left")
		}

		r, _ = launch(t, t.Context(), build, on(disk))
		for r.master.View().Checkpoints.Completed < 2 {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := below(t, disk, dead); len(got) > 0 {
			t.Errorf("there is still %q", got)
		}
		r.Cancel(context.Background())
	})
}

// S43: two jobs and a user's file under one root. When one job is cancelled its
// directory goes, with shared/ and taskowned/; nothing else does.
func TestCancelledJobTakesItsDirectoryAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, b := filesystem.NewMemory(), newBoard()
		write(t, disk, "/c/u.txt", "mine")
		var jobs []*Running
		for _, name := range []string{"one", "two"} {
			r, _ := launch(t, t.Context(), passing(count(b, name, far).let(10), newLedger[string](b, "out "+name), func(job *Job) {
				job.Name = name
				job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: "file:///c", Retention: DeleteOnCancel}
			}), on(disk))
			b.await(t, 1, name+" reads 9")
			if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, r)
		}
		names := func(dir string) (names []string) {
			for _, e := range must(disk.List(dir))(t) {
				names = append(names, e.Name)
			}
			return names
		}
		for _, r := range jobs {
			if got := names("/c/" + r.ID()); !slices.Equal(got, []string{"chk-1", "shared", "taskowned"}) {
				t.Errorf("a job's directory holds %q", got)
			}
		}
		other := below(t, disk, "/c/"+jobs[1].ID())
		if err := jobs[0].Cancel(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := names("/c"); !slices.Equal(got, []string{".runs", jobs[1].ID(), "u.txt"}) {
			t.Errorf("the root holds %q", got)
		}
		if got := below(t, disk, "/c/"+jobs[1].ID()); !slices.Equal(got, other) {
			t.Errorf("the other job has %q, and had %q", got, other)
		}
	})
}

// S32: checkpoint 5 is complete, of checkpoint 6 one subtask can't write its part. When
// 6 is cleared away 5 is as it was, nothing of 6 is left, and the job goes on from 5.
func TestFailedCheckpointIsClearedAwayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, b, full := filesystem.NewMemory(), newBoard(), atomic.Bool{}
		written := atomic.Int32{}
		faulty := &filesystem.Faulty{FileSystem: disk, Before: func(op, path string) error {
			if full.Load() && op == "create" && written.Add(1) == 2 {
				return errStruck
			}
			return nil
		}}
		in := count(b, "in", far).let(30)
		build := spread(filed(b, in, func(c *Checkpoints) { c.Interval, c.TolerableFailures = time.Hour, 1 }))
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, build, on(faulty))
		b.await(t, 1, "in reads 29")
		for range 5 {
			if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		dir := "/checkpoints/" + r.ID()
		before := below(t, disk, dir)
		full.Store(true)
		if _, _, err := r.Checkpoint(t.Context(), false); err == nil || written.Load() < 2 {
			t.Fatalf("checkpoint 6: %v; %d files", err, written.Load())
		}
		synctest.Wait()
		if got := below(t, disk, dir); !slices.Equal(got, before) {
			t.Errorf("there is %q\nand was %q", got, before)
		}
		needed(t, disk, dir, 1)
		full.Store(false)
		end()
		wait(t, r)
		in.let(60)
		r, _ = launch(t, t.Context(), build, on(disk))
		b.await(t, 1, "in reads 59")
		synctest.Wait() // it has come through
		if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		b.await(t, 1, "out: 59 is number 60")
		same(t, "out", b.all("out: "), countedUpTo(60))
		r.Cancel(context.Background())
	})
}

// spread adds to a job keyed state that all subtasks have.
func spread(build func(*Job) error) func(*Job) error {
	return func(job *Job) error {
		err := build(job)
		Count(KeyBy(FromSlice(job, "keys", upTo(100)), func(key string) string { return key }), "spread")
		return err
	}
}

// S46: writing the metadata of a savepoint is cut off at each byte, and the machine
// forgets what it may. Then it isn't a savepoint, and a job that is started from it is
// told why; or it is one, and whole.
func TestSavepointIsWholeOrNone(t *testing.T) {
	disk := filesystem.NewMemory()
	rng := rand.New(rand.NewPCG(46, 0))
	cp := snapshot.Checkpoint{Number: 3, Savepoint: true, JobID: strings.Repeat("a", 32), JobName: "cut off"}
	size := len(snapshot.Encode(cp))
	for cut := range size + 1 {
		for _, forget := range []bool{false, true} {
			at := fmt.Sprintf("/points/savepoint-%d-%v", cut, forget)
			killed := false
			dying := &filesystem.Faulty{FileSystem: disk, Before: func(op, path string) error {
				switch {
				case killed:
					return errStruck
				case op == "write":
					killed = cut < size
					if killed {
						return filesystem.Torn{Bytes: cut, Err: errStruck}
					}
				}
				return nil
			}}
			s := &snapshot.Savepoint{Files: dying, Path: at, Random: rng.Uint64}
			err := errors.Join(s.Begin(3), s.Store(cp))
			if forget {
				disk.Crash(func(c filesystem.Change) int { return rng.IntN(c.Bytes + 1) })
			}
			_, _, _, broken := environment{files: filesystem.Set{"file": disk}}.load(at)
			if (err == nil) != (broken == nil) {
				t.Fatalf("cut off at %d of %d: stored with %v, read with %v", cut, size, err, broken)
			}
			if broken != nil && !strings.Contains(broken.Error(), "incomplete or corrupt metadata") && !errors.Is(broken, fs.ErrNotExist) {
				t.Fatalf("cut off at %d of %d: %v", cut, size, broken)
			}
		}
	}
}

// S47: two jobs whose checkpoints have the same numbers take their savepoints into one
// directory. None is overwritten, and from each its own state comes back.
func TestTwoJobsTakeSavepointsIntoOneDirectory(t *testing.T) {
	t.Parallel()
	points, b := t.TempDir(), newBoard()
	names, taken := []string{"left", "right"}, map[string][]string{}
	for round := range 3 {
		for i, name := range names {
			in := count(b, fmt.Sprint(name, round), far).let(10 + 10*round + i)
			r, _ := launch(t, t.Context(), passing(in, newLedger[string](b, "out"), func(job *Job) {
				job.Name, job.Checkpoints.Interval = name, time.Hour
			}))
			b.await(t, 1, fmt.Sprintf("%s%d reads %d", name, round, 9+10*round+i))
			taken[name] = append(taken[name], must(savepoint(t, r, points))(t))
			r.Cancel(context.Background())
		}
	}
	if got := entries(t, points); len(got) != 6 {
		t.Fatalf("there is %q", got)
	}
	for i, name := range names {
		for round, from := range taken[name] {
			if cp := metadata(t, from); cp.Number != 1 || cp.JobName != name {
				t.Errorf("%s is savepoint %d of %s", from, cp.Number, cp.JobName)
			}
			n, uid := 10+10*round+i, fmt.Sprint(name, round)
			out := fmt.Sprint("again ", uid)
			stopped(t, b, fmt.Sprintf("%s: %d is number %d", out, n, n+1), passing(count(b, uid, far).let(n+1), newLedger[string](b, out), func(job *Job) {
				job.From = from
			}))
		}
	}
}

// S62: with two checkpoints kept, the newest one, 6, can't be read. For ten seconds it
// isn't permitted: that is tried again, and 6 is used. A byte of its state has flipped,
// or one of its metadata: before a record is read, the one before it takes its place,
// loudly. Nothing is deleted meanwhile.
func TestLatestCheckpointCannotBeRead(t *testing.T) {
	for _, harm := range []string{"permission", "state", "metadata"} {
		synctest.Test(t, func(t *testing.T) {
			disk, b := filesystem.NewMemory(), newBoard()
			in := count(b, "in", far).let(10)
			build := filed(b, in, func(c *Checkpoints) { c.Interval, c.Retained = time.Hour, 2 })
			ctx, end := context.WithCancel(t.Context())
			r, _ := launch(t, ctx, build, on(disk))
			b.await(t, 1, "in reads 9")
			for n := range 6 {
				in.let(10 + n)
				b.await(t, 1, fmt.Sprintf("in reads %d", 9+n))
				synctest.Wait() // it has come through
				if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			end()
			wait(t, r)
			newest := fmt.Sprintf("/checkpoints/%s/chk-6/", r.ID())
			denied := time.Now().Add(10 * time.Second)
			hurt := &filesystem.Faulty{FileSystem: disk,
				Before: func(op, path string) error {
					if harm == "permission" && strings.HasPrefix(path, newest) && op == "open" && time.Now().Before(denied) {
						b.say("denied")
						return fs.ErrPermission
					}
					return nil
				},
				Spoil: func(path string, offset int64, p []byte) {
					if isState := !strings.HasSuffix(path, "_metadata"); strings.HasPrefix(path, newest) && offset == 0 &&
						(harm == "state" && isState || harm == "metadata" && !isState) {
						p[len(p)/2] ^= 4
					}
				},
			}
			files, read := below(t, disk, "/checkpoints/"+r.ID()), len(b.all("in reads "))
			in.let(20)
			r, log := launch(t, t.Context(), build, on(hurt))
			began := time.Now()
			for synctest.Wait(); r.Status().State != "RUNNING"; synctest.Wait() {
				if len(b.all("in reads ")) != read {
					t.Errorf("%s: something was read", harm)
				}
				time.Sleep(100 * time.Millisecond)
			}
			if got := below(t, disk, "/checkpoints/"+r.ID()); !slices.Equal(got, files) {
				t.Errorf("%s: there is %q, and was %q", harm, got, files)
			}
			b.await(t, 1, "in reads 19")
			want, retried := uint64(5), time.Since(began) >= 10*time.Second
			if harm == "permission" {
				want = 6
				if !retried || b.times("denied") < 3 {
					t.Errorf("it began after %v and %d tries", time.Since(began), b.times("denied"))
				}
			}
			if text := log.String(); !strings.Contains(text, fmt.Sprintf("checkpoint=%d ", want)) ||
				strings.Contains(text, "an older one takes its place") != (want == 5) {
				t.Errorf("%s: it doesn't say that it starts from %d:\n%s", harm, want, text)
			}
			if n := b.times("in reads 14"); n != int(7-want) {
				t.Errorf("%s: a record behind checkpoint 5 was read %d times", harm, n)
			}
			r.Cancel(context.Background())
		})
	}
}

// Keyed state that is compressed takes a fraction of the room, in checkpoints and in
// savepoints, and comes back at any parallelism, also where one part was written before
// the setting was made.
func TestCompressedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, b := filesystem.NewMemory(), newBoard()
		in, out := count(b, "in", far), newLedger[string](b, "out")
		sizes := map[string]int64{}
		n := 0
		for _, step := range []struct {
			parallelism int
			compression string
		}{{2, "false"}, {2, "true"}, {3, "true"}, {1, "false"}, {4, "true"}} {
			n += 400
			ctx, end := context.WithCancel(t.Context())
			r, _ := launch(t, ctx, tenths(b, in.let(n), out, step.parallelism, func(job *Job) {
				job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: "file:///c"}
				job.Config = map[string]string{"execution.checkpointing.snapshot-compression": step.compression, "execution.checkpointing.data-inline-threshold": "0"}
			}), on(disk))
			b.await(t, 1, fmt.Sprintf("in reads %d", n-1))
			synctest.Wait() // it has come through
			_, uri, err := r.Checkpoint(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			taken := must(r.Savepoint(t.Context(), "file:///points"))(t)
			for kind, uri := range map[string]string{"checkpoint": uri, "savepoint": taken} {
				cp, at, _, err := environment{files: filesystem.Set{"file": disk}}.load(uri)
				if wrong := append(snapshot.Examine(t.Context(), at, cp), err); errors.Join(wrong...) != nil {
					t.Error(wrong)
				}
				for _, op := range cp.Operators {
					if op.UID == "tenths" && n <= 800 {
						sizes[kind+" "+step.compression] = op.Bytes()
					}
				}
			}
			end()
			wait(t, r)
		}
		r, _ := launch(t, t.Context(), tenths(b, in, out, 2, func(job *Job) { job.Checkpoints.Dir = "file:///c" }), on(disk))
		b.await(t, 1, "out: "+tenthsUpTo(n)[n-1])
		r.Cancel(context.Background())
		same(t, "out", b.all("out: "), tenthsUpTo(n))
		for _, kind := range []string{"checkpoint", "savepoint"} {
			if before, after := sizes[kind+" false"], sizes[kind+" true"]; after == 0 || after > before {
				t.Errorf("a %s of 400 records takes %d bytes, a compressed one of 800 takes %d", kind, before, after)
			}
		}
	})
}

// Checkpoints in memory have their limits: a state may have 5 MB, an acknowledgement as
// much as is configured. What is larger makes them fail, with what to do about it.
// Savepoints, which are files, have none.
func TestLimitsOfCheckpointsInMemory(t *testing.T) {
	for name, test := range map[string]struct {
		bytes  int
		config map[string]string
		want   []string
	}{
		"state": {6 << 20, nil, []string{`"large"`, "a state has", "and may have 5242880", "execution.checkpointing.dir"}},
		"acknowledgement": {3 << 20, map[string]string{"akka.framesize": "2097152b"},
			[]string{"what a subtask acknowledges (execution.checkpointing.max-acknowledgement-size)", "and may have 2097152", "execution.checkpointing.dir"}},
		"fits": {4 << 20, nil, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			disk, b := filesystem.NewMemory(), newBoard()
			in := count(b, "in", far).let(1)
			r, _ := launch(t, t.Context(), func(job *Job) error {
				job.Checkpoints = Checkpoints{Interval: time.Hour, TolerableFailures: 1}
				job.Config = test.config
				Do(Process(KeyBy(From(job, "in", in), func(n int) int { return n }), "large", func(op *Op[int, int]) Handler[int] {
					value := state.NewValue[[]byte](op, "value")
					return Handler[int]{Record: func(n int) error {
						value.Set(bytes.Repeat([]byte{7}, test.bytes))
						op.Emit(n)
						return nil
					}}
				}), "see", func(n int) error { b.say("saw %d", n); return nil })
				return nil
			}, on(disk))
			b.await(t, 1, "saw 0")
			if _, err := r.Savepoint(t.Context(), "file:///points"); err != nil {
				t.Error(err)
			}
			_, _, err := r.Checkpoint(t.Context(), false)
			if test.want == nil && err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if test.want != nil {
				wants(t, err, test.want...)
			}
			r.Cancel(context.Background())
		})
	}
}

// A job without checkpoints ends in one in memory, which has no limits.
func TestEndOfAJobWithoutCheckpointsHasNoLimit(t *testing.T) {
	t.Parallel()
	err := Run(t.Context(), func(job *Job) error {
		Fold(KeyBy(FromSlice(job, "in", []int{1}), func(n int) int { return n }), "large", func([]byte, int) []byte {
			return bytes.Repeat([]byte{7}, 20<<20)
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What is written to a checkpoint's file at once is what the configuration says.
func TestWriteBufferSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := map[string]int{}
		for _, size := range []string{"1 kb", "1 mb"} {
			b, n := newBoard(), atomic.Int32{}
			disk := &filesystem.Faulty{FileSystem: filesystem.NewMemory(), Before: func(op, path string) error {
				if op == "write" && strings.Contains(path, "/chk-") && !strings.Contains(path, "_metadata") {
					n.Add(1)
				}
				return nil
			}}
			r, _ := launch(t, t.Context(), func(job *Job) error {
				job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: "file:///c"}
				job.Config = map[string]string{"execution.checkpointing.write-buffer-size": size, "execution.checkpointing.data-inline-threshold": "0"}
				Count(KeyBy(From(job, "in", count(b, "in", far).let(20000)), func(n int) int { return n }), "count")
				return nil
			}, on(disk))
			b.await(t, 1, "in reads 19999")
			if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			r.Cancel(context.Background())
			writes[size] = int(n.Load())
		}
		if writes["1 mb"] == 0 || writes["1 kb"] < 3*writes["1 mb"] {
			t.Errorf("writes with buffers of these sizes: %v", writes)
		}
	})
}

// Data may stay inline up to 1 mb, and no further.
func TestInlineThresholdHasAMost(t *testing.T) {
	for size, want := range map[string]string{"1 mb": "", "1048577": "data-inline-threshold"} {
		_, err := config.Merge(config.Assignments([]string{"execution.checkpointing.data-inline-threshold=" + size}))
		if want == "" && err != nil {
			t.Error(err)
		}
		if want != "" {
			wants(t, err, want, "1 mb")
		}
	}
}
