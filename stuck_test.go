package weir

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// stubborn is a source of one endless split, a map, and a sink, one function of
// which ignores its context and doesn't return until it is let go.
type stubborn struct {
	connector.AtLeastOnce
	*board
	where string
	gate  chan struct{}
}

func (s *stubborn) reach(where string) {
	if s.where == where {
		s.say("stuck")
		<-s.gate
		s.say("released")
	}
}

func (s *stubborn) Enumerate(_ context.Context, e connector.Enumeration[int]) error {
	e.Assign(0)
	e.Save(nil)
	s.reach("enumerate")
	return nil
}

func (s *stubborn) Open(context.Context, connector.Reading) (connector.Reader[int, int], error) {
	return s, nil
}

func (s *stubborn) Read(ctx context.Context, at *int, into *record.Batch[int]) error {
	s.reach("read")
	time.Sleep(10 * time.Millisecond)
	*at++
	into.Add(*at)
	return ctx.Err()
}

func (s *stubborn) Close() error { return nil }

// basin is the sink.
type basin struct{ *stubborn }

func (b basin) Open(context.Context, connector.Writing) (connector.Writer[int, int], error) {
	return b, nil
}

func (b basin) OpenCommitter(context.Context, connector.Commitment) (connector.Committer[int], error) {
	return tap(b), nil
}

func (b basin) Write(_ context.Context, in *record.Batch[int]) error {
	b.say("written")
	b.reach("write")
	return nil
}

func (b basin) Prepare(context.Context) ([]int, error) { return []int{1}, nil }

func (b basin) Close() error { b.reach("close"); return nil }

// tap is the committer.
type tap struct{ *stubborn }

func (t tap) Recover(context.Context, []connector.Committable[int]) error { return nil }

func (t tap) Commit(context.Context, []connector.Committable[int]) error {
	t.reach("commit")
	return nil
}

func (t tap) Close() error { t.reach("close committer"); return nil }

func (s *stubborn) build(job *Job) error {
	job.Checkpoints.Interval = time.Second
	job.Config = map[string]string{"task.cancellation.timeout": "100 ms"}
	n := From(job, "in", s)
	To(Map(n, "map", func(n int) int { s.reach("map"); return n }), "out", basin{s})
	return nil
}

// TestFunctionThatDoesNotReturnIsAnError blocks each function for ever: the job
// ends all the same, its error names the operator and the stack shows where it is.
// What it does when it returns after all has no effect.
func TestFunctionThatDoesNotReturnIsAnError(t *testing.T) {
	for where, operator := range map[string]string{
		"map": "map", "write": "out", "close": "out", "read": "in", "enumerate": "in", "commit": "out", "close committer": "out",
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stubborn{board: newBoard(), where: where, gate: make(chan struct{})}
				ctx, suspend := context.WithCancel(t.Context())
				r, log := launch(t, ctx, s.build)
				if !strings.HasPrefix(where, "close") {
					s.await(t, 1, "stuck")
				}
				time.Sleep(1500 * time.Millisecond)
				suspend()
				began := time.Now()
				err := r.Wait()
				wants(t, err, `operator "`+operator+`"`, "100ms", "goroutine can't be ended")
				if !errors.Is(err, ErrStuck) || errors.Is(err, ErrSuspended) {
					t.Errorf("it is no ErrStuck: %v", err)
				}
				if took := time.Since(began); took < 100*time.Millisecond || took > 300*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				last := r.Failures()[len(r.Failures())-1]
				if !strings.Contains(last.Stack, "reach") || !strings.Contains(log.String(), "reach") {
					t.Errorf("the stack is %q", last.Stack)
				}
				written := s.times("written")
				close(s.gate)
				time.Sleep(time.Second)
				if s.times("released") == 0 || s.times("written") > written {
					t.Error("it writes when all is over")
				}
			})
		})
	}
}

// TestFunctionThatDoesNotReturnEndsAJobThatFailsElsewhere has one function fail
// while another is stuck: both are in the error, and there is no restart.
func TestFunctionThatDoesNotReturnEndsAJobThatFailsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{board: newBoard(), where: "map", gate: make(chan struct{})}
		other := count(s.board, "other", far)
		r, _ := launch(t, t.Context(), func(job *Job) error {
			Do(From(job, "other", other), "fails", func(int) error { return errStruck })
			return s.build(job)
		})
		s.await(t, 1, "stuck")
		other.let(1)
		wants(t, r.Wait(), `operator "map"`, `operator "fails": struck`)
		if r.Status().State != "FAILED" || r.Status().Attempt != 1 {
			t.Errorf("%+v", r.Status())
		}
		close(s.gate)
		time.Sleep(time.Second)
	})
}

// TestCancelReturnsThoughAFunctionDoesNot cancels a job whose map is stuck.
func TestCancelReturnsThoughAFunctionDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{board: newBoard(), where: "map", gate: make(chan struct{})}
		r, _ := launch(t, t.Context(), s.build)
		s.await(t, 1, "stuck")
		if err := r.Cancel(t.Context()); !errors.Is(err, ErrStuck) {
			t.Error(err)
		}
		close(s.gate)
		time.Sleep(time.Second)
	})
}
