package weir

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/executor"
)

// A lossy executor loses the answer to what was done before a point, once it is armed.
type lossy struct {
	executor.Executor
	point string
	armed atomic.Bool
}

func (l *lossy) Reach(point string) error {
	if point == l.point && l.armed.Swap(false) {
		return errStruck
	}
	return nil
}

// S101, S103: outputs are committed, and nobody hears of it. The attempt fails; whether
// the job restarts by itself, or is started by hand, under a new id, from the checkpoint
// that it has left, the same is committed again, and every row is there once.
func TestCommitWithoutAnAnswerIsDoneOnce(t *testing.T) {
	t.Parallel()
	for _, byHand := range []bool{false, true} {
		dir, files, b := t.TempDir(), t.TempDir(), newBoard()
		in := count(b, "in", 20).let(10)
		build := func(from string) func(*Job) error {
			return func(job *Job) error {
				job.From, job.Checkpoints = from, Checkpoints{Interval: 10 * time.Millisecond, Dir: dir}
				job.Restart = Restart{Strategy: "fixed-delay", Attempts: 3, Delay: time.Millisecond}
				if byHand {
					job.Restart = Restart{Strategy: "none"}
				}
				To(counted(From(job, "in", in), "count"), "out", printed[string](files))
				return nil
			}
		}
		world := &lossy{Executor: executor.Real{}, point: "committed"}
		first, _ := launch(t, t.Context(), build(""), func(env *environment) { env.executor = world })
		b.await(t, 1, "in reads 9")
		world.armed.Store(true)
		last := first
		if byHand {
			wants(t, wait(t, first), "struck")
			path, _ := newest(t, dir, first.ID())
			last, _ = launch(t, t.Context(), build(path))
		}
		soon(t, "the loss", func() error {
			for len(first.Failures()) == 0 {
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		in.let(20)
		if err := wait(t, last); err != nil {
			t.Fatal(err)
		}
		same(t, "rows", lines(t, files), countedUpTo(20))
		if n := b.times("in reads 0"); n != 1 {
			t.Errorf("the first row was read %d times", n)
		}
	}
}

// S28: a job fails while as many checkpoints are pending as may be, and to read the one
// that it restarts from takes 20 s. All that time it answers at once, nothing is
// pending, and in the end it goes on.
func TestRecoveringJobAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, slow := newBoard(), atomic.Bool{}
		in := count(b, "in", 2*soFar).let(soFar)
		in.fault = &fault{point: "read"}
		disk := &filesystem.Faulty{FileSystem: filesystem.NewMemory(), Before: func(op, path string) error {
			if slow.Load() && strings.Contains(path, "chk-") && (op == "create" || op == "open") {
				b.say("%s takes 20 s", op)
				time.Sleep(20 * time.Second)
			}
			return nil
		}}
		r, _ := launch(t, t.Context(), filed(b, in, func(*Checkpoints) {}), on(disk))
		b.await(t, 1, "out: "+countedUpTo(soFar)[soFar-1])
		slow.Store(true)
		b.await(t, 1, "create takes 20 s")
		in.let(2 * soFar)
		for r.Status().State != "RESTORING" {
			time.Sleep(time.Second)
		}
		began := time.Now()
		status := r.Status()
		_, _, noCheckpoint := r.Checkpoint(context.Background(), false)
		_, noSavepoint := r.Savepoint(context.Background(), "file:///points")
		if took := time.Since(began); took > 0 {
			t.Errorf("the answers took %v", took)
		}
		if pending := r.master.View().Checkpoints.InProgress; status.State != "RESTORING" || pending != 0 {
			t.Errorf("it is %s, with %d checkpoints pending", status.State, pending)
		}
		wants(t, noCheckpoint, "RESTORING")
		wants(t, noSavepoint, "RESTORING")
		slow.Store(false)
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		same(t, "output", b.all("out: "), countedUpTo(2*soFar))
	})
}
