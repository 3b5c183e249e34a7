package weir

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/control"
)

// A postbox keeps what subtasks are to be told of complete checkpoints, until the
// test delivers it.
type postbox struct {
	mu      sync.Mutex
	letters map[uint64]func()
}

func (p *postbox) install(env *environment) {
	p.letters = map[uint64]func(){}
	env.line = func(_ int, m any, deliver func()) {
		if c, is := m.(control.Complete); is {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.letters[c.Checkpoint] = deliver
			return
		}
		deliver()
	}
}

// deliver waits until there is a notice, and delivers it.
func (p *postbox) deliver(t *testing.T, checkpoint uint64) {
	t.Helper()
	soon(t, "the notice", func() error {
		for {
			p.mu.Lock()
			letter := p.letters[checkpoint]
			p.mu.Unlock()
			if letter != nil {
				letter()
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// S22: the notices of checkpoints come in any order, late, not at all, or to another
// attempt. What is prepared is committed all the same, once; and a subtask forgets
// it with the first notice that is for it.
func TestNoticesOutOfOrderEarlyOrLost(t *testing.T) {
	t.Parallel()
	b, post := newBoard(), &postbox{}
	in, out := count(b, "in", far), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
		job.Checkpoints.Dir, job.Checkpoints.Interval = t.TempDir(), time.Hour
	}), post.install)
	// next takes a checkpoint behind ten more numbers, of which all are committed, and
	// says for which checkpoints its sink still had something pending.
	numbers := 0
	next := func(want ...uint64) {
		t.Helper()
		numbers += 10
		in.let(numbers)
		b.await(t, 1, fmt.Sprintf("out takes %d is number %d", numbers-1, numbers))
		_, path := checkpointed(t, r)
		b.await(t, 1, fmt.Sprintf("out: %d is number %d", numbers-1, numbers))
		var pending []uint64
		for _, op := range metadata(t, path).Operators {
			for _, p := range op.Subtasks[0].Pending {
				pending = append(pending, p.Checkpoint)
			}
		}
		if !slices.Equal(pending, want) {
			t.Errorf("pending are what was prepared for %v, want %v", pending, want)
		}
	}
	next(1)
	next(1, 2)
	post.deliver(t, 2) // (a) the newer one first
	post.deliver(t, 1)
	next(3)
	next(3, 4)
	post.deliver(t, 4) // (c) that of 3 is lost
	numbers = soFar    // (b) an attempt ends, and its last notice comes in the next
	next(5)
	post.deliver(t, 4)
	next(5, 6)
	post.deliver(t, 6)
	next(7)
	same(t, "out", b.all("out: "), countedUpTo(numbers))
	if r.Status().Restarts != 1 {
		t.Error("there is no next attempt")
	}
}

// S28: what the job would go on from can't be read for good. Each attempt gives up
// after a minute, and with the last one the job fails.
func TestRecoveryFailsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		in, out := count(b, "in", far).let(10), newLedger[string](b, "out")
		in.fault = &fault{point: "read"}
		var broken atomic.Bool
		r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
			job.Checkpoints.Dir, job.Checkpoints.Interval = t.TempDir(), time.Hour
		}), func(env *environment) {
			env.files = filesystem.Set{"file": &filesystem.Faulty{FileSystem: env.files["file"], Before: func(op, _ string) error {
				if broken.Load() && op == "read" {
					return syscall.EIO
				}
				return nil
			}}}
		})
		synctest.Wait()
		if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		broken.Store(true)
		failed := time.Now()
		in.let(2 * soFar)
		err := r.Wait()
		if took := time.Since(failed); !errors.Is(err, syscall.EIO) || took < 2*time.Minute || took > 4*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		if s := r.Status(); s.State != "FAILED" || s.Attempt != 4 {
			t.Errorf("%+v", s)
		}
	})
}

// S29: two parts of a job fail 10 ms apart, however soon the restart comes. It is one
// restart: the source is enumerated once more, and never again when subtasks run.
func TestTwoFailuresAreOneRestart(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard()
				in := catchingUp{count(b, "in", far).let(10), nil}
				r, _ := launch(t, t.Context(), func(job *Job) error {
					job.Checkpoints.Interval = time.Minute
					job.Restart = Restart{Strategy: "fixed-delay", Attempts: 3, Delay: delay}
					all := From(job, "in", in)
					for name, after := range map[string]time.Duration{"first": 10 * time.Millisecond, "second": 20 * time.Millisecond} {
						f := &fault{point: name}
						Do(Rebalance(all), name, func(n int) error {
							if n < soFar || f.struck.Load() {
								return nil
							}
							time.Sleep(after)
							b.say("%s fails", name)
							return f.strike(name)
						})
					}
					To(all, "out", newLedger[int](b, "out"))
					return nil
				})
				time.Sleep(2 * time.Minute)
				in.let(2 * soFar)
				time.Sleep(time.Hour)
				if b.times("first fails") != 1 || b.times("second fails") != 1 {
					t.Fatalf("failed are %q", b.all(""))
				}
				if s := r.Status(); s.State != "RUNNING" || s.Restarts != 1 || b.times("in enumerates") != 2 || b.times("out opens") != 2 || r.Checkpoints().Restored != 1 {
					t.Errorf("%+v, enumerated %d times, restored %d times", s, b.times("in enumerates"), r.Checkpoints().Restored)
				}
				for _, f := range r.Failures() {
					if f.Attempt != 1 {
						t.Errorf("%+v", f)
					}
				}
				same(t, "out", b.all("out: "), upTo(2*soFar))
			})
		})
	}
}
