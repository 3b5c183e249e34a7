package weir

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
)

// catchingUp are numbers whose enumerator is behind as long as the test says so.
type catchingUp struct {
	*numbers
	behind chan bool
}

func (c catchingUp) Enumerate(ctx context.Context, e connector.Enumeration[interval]) error {
	c.say("%s enumerates", c.uid)
	e.SetBacklog(true)
	if e.Position() == nil {
		e.Assign(c.stretches...)
		e.Save([]byte("all"))
	}
	for {
		select {
		case behind := <-c.behind:
			e.SetBacklog(behind)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestIntervalDuringBacklog counts the checkpoints of jobs of which one source is
// catching up, then isn't, and then is again in the next attempt. What is asked for
// comes whenever it is.
func TestIntervalDuringBacklog(t *testing.T) {
	for during, want := range map[time.Duration]int{
		0:           100, // as long as the interval
		time.Minute: 1,
		-1:          0,
	} {
		t.Run(during.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard()
				in := catchingUp{count(b, "in", far).let(10), make(chan bool)}
				in.fault = &fault{point: "read"}
				other := count(b, "other", far).let(10)
				r, _ := launch(t, t.Context(), func(job *Job) error {
					job.Checkpoints.Interval, job.Checkpoints.BacklogInterval = time.Second, during
					job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1, Delay: time.Second}
					To(Union(From(job, "in", in), From(job, "other", other)), "out", newLedger[int](b, "out"))
					return nil
				})
				for100s := func(situation string, want int) {
					t.Helper()
					before := r.Checkpoints().Triggered
					time.Sleep(100 * time.Second)
					if got := r.Checkpoints().Triggered - before; got < want-want/50 || got > want+want/50 {
						t.Errorf("%d checkpoints while it is %s, want %d", got, situation, want)
					}
				}
				for100s("behind", want)
				if _, _, err := r.Checkpoint(t.Context(), false); err != nil {
					t.Error(err)
				}
				if _, err := r.Savepoint(t.Context(), t.TempDir()); err != nil {
					t.Error(err)
				}
				in.behind <- false
				for100s("not behind", 100)
				in.let(2 * soFar)
				time.Sleep(time.Second)
				synctest.Wait()
				if s := r.Status(); s.Attempt != 2 || s.State != "RUNNING" {
					t.Errorf("%+v", s)
				}
				for100s("behind once more", want)
			})
		})
	}
}
