package weir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/state"
)

// passing is a job that numbers go through, from one source to one ledger; each
// is emitted with how many there have been.
func passing(in *numbers, out *ledger[string], settings func(*Job)) func(*Job) error {
	return func(job *Job) error {
		job.Name = "passing"
		quick(job)
		if settings != nil {
			settings(job)
		}
		To(counted(From(job, "in", in), "count"), "out", out)
		return nil
	}
}

// quick has checkpoints, and restarts, come soon.
func quick(job *Job) {
	job.Checkpoints.Interval = 10 * time.Millisecond
	job.Restart = Restart{Strategy: "fixed-delay", Attempts: 3, Delay: time.Millisecond}
}

// counted puts behind each number the how-manieth it is.
func counted(in Stream[int], uid string, opts ...Option) Stream[string] {
	return Process(KeyBy(in, func(int) string { return "all" }), uid, func(op *Op[string, string]) Handler[int] {
		n := state.NewValue[int](op, "n")
		return Handler[int]{Record: func(v int) error {
			n.Set(n.Get() + 1)
			op.Emit(fmt.Sprintf("%d is number %d", v, n.Get()))
			return nil
		}}
	}, opts...)
}

// countedUpTo is what passing emits of the numbers below n.
func countedUpTo(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%d is number %d", i, i+1))
	}
	return all
}

// chk are the checkpoints that a job has left in its directory.
func chk(t *testing.T, dir, id string) (numbers []string) {
	t.Helper()
	for _, path := range must(filepath.Glob(filepath.Join(dir, id, "chk-*", "_metadata")))(t) {
		numbers = append(numbers, filepath.Base(filepath.Dir(path)))
	}
	return numbers
}

// TestEndOfTheContextSuspends ends the context of a job that never ends by
// itself, resumes it, and looks for what is missing or twice.
func TestEndOfTheContextSuspends(t *testing.T) {
	parallel(t)
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far), newLedger[string](b, "out")
	id := ""
	for round := range 3 {
		ctx, end := context.WithCancel(t.Context())
		r, log := launch(t, ctx, passing(in, out, func(job *Job) { job.Checkpoints.Dir, job.From = dir, Latest }))
		if round == 0 {
			id = r.ID()
		}
		upTo := 10 * (round + 1)
		in.let(upTo)
		b.await(t, 1, "out: "+countedUpTo(upTo)[upTo-1])
		in.let(upTo + 5) // some that are in no checkpoint, perhaps
		b.await(t, 1, fmt.Sprintf("in reads %d", upTo+4))
		end()
		if err := wait(t, r); !errors.Is(err, ErrSuspended) || !strings.Contains(err.Error(), `"passing"`) {
			t.Fatal(err)
		}
		if r.ID() != id {
			t.Errorf("round %d has another id", round)
		}
		if left := chk(t, dir, id); len(left) != 1 {
			t.Errorf("%q are left", left)
		}
		if begun := strings.Contains(log.String(), "no run to resume"); begun != (round == 0) {
			t.Errorf("round %d: %s", round, log)
		}
	}
	for i, line := range countedUpTo(35) {
		if n := b.times("out: " + line); n != 1 && (i < 30 || n > 1) {
			t.Errorf("%q comes %d times", line, n)
		}
	}
}

// TestSuspendedBeforeItBegan ends the context before the start.
func TestSuspendedBeforeItBegan(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end()
	b := newBoard()
	err := soon(t, "the end", func() error {
		return Run(ctx, passing(count(b, "in", far), newLedger[string](b, "out"), nil))
	})
	if !errors.Is(err, ErrSuspended) {
		t.Error(err)
	}
}

// TestEndsFollowTheRetentionPolicy brings jobs to each of their ends: what they leave
// when they finish goes, what they leave when they are cancelled goes or stays as the
// policy says, and what fails or is suspended stays.
func TestEndsFollowTheRetentionPolicy(t *testing.T) {
	parallel(t)
	for _, retention := range []Retention{"", NotExternalized, DeleteOnCancel, RetainOnCancel} {
		for end, stay := range map[string]bool{"finished": false, "cancelled": retention == RetainOnCancel, "failed": true, "suspended": true} {
			t.Run(fmt.Sprintf("%s/%q", end, retention), inItsWay(func(t *testing.T) {
				parallel(t)
				dir, b := t.TempDir(), newBoard()
				in, out := count(b, "in", soFar+10).let(10), newLedger[string](b, "out")
				if end == "failed" {
					in.fault = &fault{point: "read"}
				}
				build := passing(in, out, func(job *Job) {
					job.Checkpoints.Dir, job.Checkpoints.Retention, job.From, job.Restart.Strategy = dir, retention, Latest, "none"
				})
				ctx, suspend := context.WithCancel(t.Context())
				defer suspend()
				r, _ := launch(t, ctx, build)
				b.await(t, 1, "out: 9 is number 10")
				switch end {
				case "cancelled":
					if err := soon(t, "the end", func() error { return r.Cancel(context.Background()) }); err != nil {
						t.Error(err)
					}
				case "suspended":
					suspend()
				default:
					in.let(soFar + 10)
				}
				ended := wait(t, r)
				if want := map[string]error{"cancelled": ErrCancelled, "suspended": ErrSuspended, "failed": errStruck}[end]; !errors.Is(ended, want) {
					t.Error(ended)
				}
				if left := chk(t, dir, r.ID()); len(left) > 0 != stay {
					t.Errorf("%q are left", left)
				}
				_, err := os.Stat(filepath.Join(dir, r.ID()))
				if os.IsNotExist(err) == stay {
					t.Errorf("the job's directory: %v", err)
				}
				again, err := Start(t.Context(), build)
				if err == nil {
					again.Cancel(context.Background())
				}
				if over := end == "finished" || end == "cancelled"; over {
					wants(t, err, "passing", strings.TrimSuffix(end, "led"))
				} else if err != nil {
					t.Errorf("it doesn't go on: %v", err)
				}
			}))
		}
	}
}

// TestCancelGivesUpWithItsContext cancels a job whose function doesn't come back.
func TestCancelGivesUpWithItsContext(t *testing.T) {
	parallel(t)
	b, stuck := newBoard(), make(chan struct{})
	r, _ := launch(t, t.Context(), func(job *Job) error {
		Do(FromSlice(job, "in", []int{1}), "stuck", func(int) error { b.say("stuck"); <-stuck; return nil })
		return nil
	})
	b.await(t, 1, "stuck")
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := r.Cancel(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(stuck)
	if err := wait(t, r); !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	if err := r.Cancel(t.Context()); err != nil { // once more does no harm
		t.Error(err)
	}
}

// TestWaitMayBeCalledByMany waits in several goroutines, and once more afterwards.
func TestWaitMayBeCalledByMany(t *testing.T) {
	t.Parallel()
	r, _ := launch(t, t.Context(), func(job *Job) error { FromSlice(job, "in", []int{1}); return nil })
	ends := make(chan error)
	for range 3 {
		go func() { ends <- r.Wait() }()
	}
	for range 3 {
		if err := soon(t, "the end", func() error { return <-ends }); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(r.Wait(), r.Cancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestNothingIsLeftBehind runs jobs to each of their ends: afterwards nothing of
// the engine runs, and there is no file where none was asked for. It isn't
// parallel: it looks at all goroutines.
func TestNothingIsLeftBehind(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	t.Setenv("TMPDIR", here)
	b := newBoard()
	ctx, end := context.WithCancel(context.Background())
	for name, run := range map[string]func(*Running, *numbers){
		"finished":  func(_ *Running, in *numbers) { in.let(100) },
		"failed":    func(_ *Running, in *numbers) { in.let(100) },
		"cancelled": func(r *Running, _ *numbers) { r.Cancel(context.Background()) },
		"suspended": func(*Running, *numbers) { end() },
	} {
		in := count(b, "in", 100)
		if name == "failed" {
			in.fault = &fault{point: "read"}
		}
		r, err := Start(ctx, passing(in, newLedger[string](b, name), func(job *Job) {
			job.Parallelism, job.Restart.Strategy = 4, "none"
		}))
		if err != nil {
			t.Fatal(err)
		}
		run(r, in)
		t.Logf("%s: %v", name, wait(t, r))
		if name == "suspended" {
			ctx, end = context.WithCancel(context.Background())
		}
	}
	end()
	for deadline := time.Now().Add(whileWaiting); ; runtime.Gosched() { // the last steps of goroutines come behind Wait
		left := engines()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running:\n%s", strings.Join(left, "\n\n"))
		}
	}
	for _, e := range must(os.ReadDir(here))(t) {
		t.Errorf("%s has appeared", e.Name())
	}
}

// engines returns the stacks of all goroutines that the engine has started.
func engines() (left []string) {
	for _, stack := range bytes.Split(stacks(), []byte("\n\n")) {
		if bytes.Contains(stack, []byte("created by github.com/weirstream/weir/")) {
			left = append(left, string(stack))
		}
	}
	return left
}

// TestContextForgetsAnEndedJob runs a job under a context that goes on, as a
// service does: it isn't kept by it.
func TestContextForgetsAnEndedJob(t *testing.T) {
	t.Parallel()
	ctx := &onlooker{Context: context.Background(), end: make(chan struct{})}
	r, _ := launch(t, ctx, func(job *Job) error { FromSlice(job, "in", []int{1}); return nil })
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	if n := ctx.waiting.Load(); n != 0 || ctx.ever.Load() == 0 {
		t.Errorf("%d wait for its end", n)
	}
}

// An onlooker is a context that counts who waits for its end.
type onlooker struct {
	context.Context
	end           chan struct{}
	waiting, ever atomic.Int32
}

func (o *onlooker) Done() <-chan struct{} { return o.end }

// AfterFunc is what context.AfterFunc calls.
func (o *onlooker) AfterFunc(func()) func() bool {
	o.waiting.Add(1)
	o.ever.Add(1)
	return func() bool { o.waiting.Add(-1); return true }
}
