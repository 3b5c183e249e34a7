package weir

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
)

var (
	errFenced = errors.New("a newer producer has taken over")
	errLost   = errors.New("connection lost")
)

// fenced is a ledger that takes pages from the newest of its producers only, and
// shuts that out, too, when its time is over.
type fenced struct {
	*ledger[string]
	epoch   *atomic.Int32
	timeout *fault
}

func (f fenced) Open(ctx context.Context, w connector.Writing) (connector.Writer[string, page[string]], error) {
	f.say("%s is written", f.uid)
	return f.ledger.Open(ctx, w)
}

func (f fenced) OpenCommitter(ctx context.Context, c connector.Commitment) (connector.Committer[page[string]], error) {
	_, err := f.ledger.OpenCommitter(ctx, c)
	return producer{f, f.epoch.Add(1)}, err
}

type producer struct {
	fenced
	mine int32
}

func (p producer) Recover(ctx context.Context, pending []connector.Committable[page[string]]) error {
	return p.Commit(ctx, pending)
}

func (p producer) Commit(_ context.Context, due []connector.Committable[page[string]]) error {
	if p.mine == 1 && p.timeout.strike("commit") != nil {
		p.epoch.Add(1)
	}
	if p.mine != p.epoch.Load() {
		return errFenced
	}
	return p.enter(due)
}

// S101: while a commit is under way its target shuts the producer out. The attempt
// fails, and the next one, with a producer and a writer of its own, commits what the
// last checkpoint holds and goes on. Nothing comes twice.
func TestCommitAtAFence(t *testing.T) {
	t.Parallel()
	b := newBoard()
	in := count(b, "in", far).let(10)
	out := fenced{newLedger[string](b, "out"), new(atomic.Int32), &fault{point: "commit"}}
	out.timeout.struck.Store(true) // not at the first commit
	r, _ := launch(t, t.Context(), func(job *Job) error {
		job.Checkpoints.Interval = 10 * time.Millisecond
		job.Restart = Restart{Strategy: "fixed-delay", Attempts: 3, Delay: time.Millisecond}
		To(counted(From(job, "in", in), "count"), "out", out)
		return nil
	})
	b.await(t, 1, "out: 9 is number 10")
	out.timeout.struck.Store(false)
	in.let(20)
	b.await(t, 1, "out: 19 is number 20")
	in.let(30)
	b.await(t, 1, "out: 29 is number 30")
	same(t, "out", b.all("out: "), countedUpTo(30))
	if s := r.Status(); s.Restarts != 1 || b.times("out opens") != 2 || b.times("out is written") != 2 {
		t.Errorf("%d restarts, %d producers, %d writers", s.Restarts, b.times("out opens"), b.times("out is written"))
	}
	if f := r.Failures(); len(f) != 1 || !errors.Is(f[0].Err, errFenced) || !strings.Contains(f[0].Err.Error(), `sink "out"`) {
		t.Errorf("%+v", f)
	}
}

// unsure is a ledger that enters what is due, and then loses the connection.
type unsure struct{ *ledger[string] }

func (u unsure) OpenCommitter(ctx context.Context, c connector.Commitment) (connector.Committer[page[string]], error) {
	_, err := u.ledger.OpenCommitter(ctx, c)
	return u, err
}

func (u unsure) Commit(_ context.Context, due []connector.Committable[page[string]]) error {
	if err := u.enter(due); err != nil || len(due) == 0 {
		return err
	}
	if u.fault.strike("answer") != nil {
		return errLost
	}
	return nil
}

// S103: a commit has an effect, and its answer is lost. The job, which isn't
// restarted, is started by hand from the checkpoint, under a new id: its sinks know
// by what the checkpoint holds that this is done.
func TestCommitWhoseAnswerIsLost(t *testing.T) {
	for _, sink := range []string{"files", "ledger"} {
		t.Run(sink, func(t *testing.T) {
			t.Parallel()
			dir, to, b := t.TempDir(), t.TempDir(), newBoard()
			in, out := count(b, "in", 20).let(10), unsure{newLedger[string](b, "out")}
			lost := &fault{point: "answer"}
			out.fault = lost
			target := filesystem.Set{"file": &filesystem.Faulty{FileSystem: filesystem.Local{}, After: func(op, path string) error {
				if op == "rename" && lost.strike("answer") != nil {
					return errLost
				}
				return nil
			}}}
			build := func(from string) func(*Job) error {
				return func(job *Job) error {
					job.Name, job.From = "by hand", from
					job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: dir}
					job.Restart.Strategy = "none"
					lines := counted(From(job, "in", in), "count")
					Do(lines, "passes", func(line string) error { b.say("passes %s", line); return nil })
					if sink == "ledger" {
						To(lines, "out", out)
						return nil
					}
					files := printed[string](to)
					files.FileSystems = target
					To(lines, "out", files)
					return nil
				}
			}
			rows := func() []string {
				if sink == "ledger" {
					return b.all("out: ")
				}
				return lines(t, to)
			}
			r, _ := launch(t, t.Context(), build(""))
			b.await(t, 1, "passes 9 is number 10")
			_, from := checkpointed(t, r)
			if err := wait(t, r); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			same(t, "committed", rows(), countedUpTo(10))
			again, _ := launch(t, t.Context(), build(from))
			checkpointed(t, again)
			if c := again.Checkpoints().LatestRestore; again.ID() == r.ID() || c.Path != from {
				t.Errorf("job %s goes on from %+v as job %s", r.ID(), c, again.ID())
			}
			same(t, "committed after the restore", rows(), countedUpTo(10))
			in.let(20)
			if err := wait(t, again); err != nil {
				t.Fatal(err)
			}
			same(t, "out", rows(), countedUpTo(20))
		})
	}
}
