package weir

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
)

// TestSeveralCheckpointsAtOnce has the first checkpoint's files wait until the second
// checkpoint is being written. Then both are completed, and the first isn't committed
// for itself.
func TestSeveralCheckpointsAtOnce(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
	second := make(chan struct{})
	begun := sync.OnceFunc(func() { close(second) })
	disk := &filesystem.Faulty{FileSystem: filesystem.Local{}, Before: func(op, path string) error {
		switch {
		case op == "create" && strings.Contains(path, "/chk-1/"):
			<-second
		case op == "create" && strings.Contains(path, "/chk-2/"):
			begun()
		}
		return nil
	}}
	r, log := launch(t, t.Context(), passing(in, out, func(job *Job) {
		job.Checkpoints.Dir, job.Checkpoints.Retained = dir, 1000
		job.Config = map[string]string{
			config.ConcurrentCheckpoints.Key(): "2",
			config.InlineThreshold.Key():       "0",
		}
	}), func(env *environment) { env.files = filesystem.Set{"file": disk} })
	t.Cleanup(begun)
	b.await(t, 1, "out: 9 is number 10")
	if err := soon(t, "the end", func() error { return r.Cancel(context.Background()) }); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "checkpoint failed") && !strings.Contains(log.String(), "which is newer") {
		t.Error("a checkpoint failed")
	}
	same(t, "out", b.all("out: "), countedUpTo(10))
}

// TestNoPauseNoCompany says that a pause leaves room for one checkpoint.
func TestNoPauseNoCompany(t *testing.T) {
	p := must(prepare(passing(count(newBoard(), "in", 10), newLedger[string](newBoard(), "out"), nil), config.Layer{},
		config.Assignments([]string{config.ConcurrentCheckpoints.Key() + "=2", config.CheckpointMinPause.Key() + "=1 s"})))(t)
	if notes := strings.Join(p.notes, "\n"); !strings.Contains(notes, config.ConcurrentCheckpoints.Key()) || !strings.Contains(notes, config.CheckpointMinPause.Key()) {
		t.Errorf("the notes are %q", notes)
	}
}

// TestNoCheckpointAfterAPartHasEnded ends one of two sources, for whom the other goes
// on: no checkpoint is taken from then on, and none at the end of the job.
func TestNoCheckpointAfterAPartHasEnded(t *testing.T) {
	t.Parallel()
	b := newBoard()
	short, long := count(b, "short", 10), count(b, "long", 20).let(10)
	r, _ := launch(t, t.Context(), func(job *Job) error {
		job.Checkpoints.Interval = time.Hour
		job.Config = map[string]string{config.CheckpointsAfterEnd.Key(): "false"}
		Operate(From(job, "short", short), "ending", func(*Out[struct{}]) Handler[int] {
			return Handler[int]{Record: func(int) error { return nil }, End: func() error { b.say("short has ended"); return nil }}
		})
		Do(From(job, "long", long), "do", func(int) error { return nil })
		return nil
	}, b.log)
	b.await(t, 1, "long reads 9")
	if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	short.let(10)
	b.await(t, 1, "short has ended")
	soon(t, "a refusal", func() error {
		for {
			if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
				wants(t, err, "a part of the job has ended")
				return nil
			}
		}
	})
	_, err := halted(t, r, Stop{Dir: t.TempDir(), Drain: true})
	wants(t, err, "a part of the job has ended")
	completed := r.Status().Checkpoint.Number
	long.let(20)
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	if n := r.Status().Checkpoint.Number; n != completed {
		t.Errorf("checkpoint %d was taken after %d, which was the last before the end", n, completed)
	}
}

// TestLastOutputNeedsAFinalCheckpoint refuses to end a job without the checkpoint that
// its sink shows its last output with.
func TestLastOutputNeedsAFinalCheckpoint(t *testing.T) {
	_, err := prepare(passing(count(newBoard(), "in", 10), newLedger[string](newBoard(), "out"), nil), config.Layer{},
		config.Assignments([]string{config.CheckpointsAfterEnd.Key() + "=false"}))
	wants(t, err, `sink "out"`, `source "in"`, config.CheckpointsAfterEnd.Key())
	_, err = prepare(passing(count(newBoard(), "in", far), newLedger[string](newBoard(), "out"), nil), config.Layer{},
		config.Assignments([]string{config.CheckpointsAfterEnd.Key() + "=false", config.CheckpointInterval.Key() + "=-1"}))
	wants(t, err, `sink "out"`, `source "in" never ends`, config.CheckpointInterval.Key())
}

// TestBufferTimeout has an operator that takes 10 ms a record work through a batch of a
// hundred. The next task gets the first of them when the batch for it has waited as long
// as it may, or else when there is nothing left to do.
func TestBufferTimeout(t *testing.T) {
	for _, test := range []struct {
		timeout  time.Duration
		key      string
		min, max time.Duration
	}{
		{100 * time.Millisecond, "", 100 * time.Millisecond, 400 * time.Millisecond},
		{0, "100 ms", 100 * time.Millisecond, 400 * time.Millisecond},
		{time.Hour, "", time.Second, 2 * time.Second},
		{0, "1 h", time.Second, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, first := time.Now(), time.Duration(0)
			err := Run(t.Context(), func(job *Job) error {
				job.BufferTimeout = test.timeout
				if test.key != "" {
					job.Config = map[string]string{config.BufferTimeout.Key(): test.key}
				}
				slow := Map(FromSlice(job, "in", make([]int, 100)), "slow", func(n int) int {
					time.Sleep(10 * time.Millisecond)
					return n
				})
				Do(slow, "do", func(int) error {
					if first == 0 {
						first = time.Since(began)
					}
					return nil
				}, StartChain())
				return nil
			})
			if err != nil || first < test.min || first > test.max {
				t.Errorf("with a timeout of %v or %q the first record comes after %v: %v", test.timeout, test.key, first, err)
			}
		})
	}
}

// TestFirstCheckpointComesAtRandom starts jobs at the same time. Their first checkpoints
// come somewhere between the pause and the interval, and not all at once; each later one
// begins an interval after the one before.
func TestFirstCheckpointComesAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, delays := time.Now(), map[time.Duration]bool{}
		for range 8 {
			r, _ := launch(t, t.Context(), passing(count(newBoard(), "in", far), newLedger[string](newBoard(), "out"), func(job *Job) {
				job.Checkpoints = Checkpoints{Interval: 10 * time.Second, MinPause: 2 * time.Second}
			}))
			time.Sleep(45 * time.Second)
			synctest.Wait()
			all := r.Checkpoints().History
			slices.Reverse(all)
			delay := all[0].Triggered.Sub(began)
			if delays[delay] = true; delay < 2*time.Second || delay > 10*time.Second {
				t.Errorf("the first one comes after %v", delay)
			}
			for i, c := range all[1:] {
				if d := c.Triggered.Sub(all[i].Triggered); d != 10*time.Second {
					t.Errorf("%d begins %v after the one before", c.Number, d)
				}
			}
			r.Cancel(context.Background())
			began = time.Now()
		}
		if len(delays) < 2 {
			t.Errorf("all come after %v", delays)
		}
	})
}
