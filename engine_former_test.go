package weir

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/config"
)

// renamed is a job like passing, whose operator that counts has any uid and options.
func renamed(in *numbers, out *ledger[string], uid string, opts []Option, settings func(*Job)) func(*Job) error {
	return func(job *Job) error {
		quick(job)
		settings(job)
		To(counted(From(job, "in", in), uid, opts...), "out", out)
		return nil
	}
}

// S56: an operator takes over state that was saved under its former uid, or under the
// id that was generated for it. Its checkpoints hold the state under its present uid:
// an automatic restart finds it there, and so do -s latest and a start from the new
// checkpoint's path, whether the former name is still given or not.
func TestStateIsTakenOverFromAFormerName(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for _, former := range []string{"old", ""} {
			t.Run(fmt.Sprintf("%s/uid=%q", kind, former), func(t *testing.T) {
				t.Parallel()
				dir, b := t.TempDir(), newBoard()
				in, out := count(b, "in", far), newLedger[string](b, "out")
				old := left(t, b, kind, dir, "out: 9 is number 10", renamed(in.let(10), out, former, nil, func(job *Job) { job.Checkpoints.Dir = dir }))
				if former == "" {
					former = idOf(t, old, "process")
				}
				opts := []Option{Formerly("another"), Formerly(former)}
				life := func(name, from string, out *ledger[string], opts []Option) (*Running, *journal, context.CancelFunc) {
					ctx, end := context.WithCancel(t.Context())
					r, log := launch(t, ctx, renamed(in, out, "count", opts, func(job *Job) {
						job.Name, job.From, job.Checkpoints.Dir, job.Checkpoints.Retained = name, from, dir, 1000
					}))
					return r, log, end
				}

				in.fault = &fault{point: "read"}
				r, log, end := life("new", old, out, opts)
				in.let(20)
				b.await(t, 1, "out: 19 is number 20")
				in.let(60)
				b.await(t, 1, "out: 59 is number 60")
				if n := len(r.Failures()); n != 1 {
					t.Errorf("%d failures, want the one behind a checkpoint", n)
				}
				if n := strings.Count(log.String(), "state is taken over"); n != 1 {
					t.Errorf("it was taken over %d times", n)
				}
				end()
				wait(t, r)
				path, _ := newest(t, dir, r.ID())
				var uids []string
				for _, op := range metadata(t, path).Operators {
					uids = append(uids, op.UID)
				}
				same(t, "operators", uids, []string{"in", "count", "out"})

				for i, start := range []struct {
					name, from string
					opts       []Option
				}{{"new", Latest, opts}, {"new", Latest, nil}, {"from its path", path, opts}, {"without the former name", path, nil}} {
					n, out := 70+10*i, newLedger[string](b, fmt.Sprint("out ", i))
					in.let(n)
					r, _, end := life(start.name, start.from, out, start.opts)
					b.await(t, 1, fmt.Sprintf("out %d: %d is number %d", i, n-1, n))
					end()
					wait(t, r)
				}
				if n := b.times("in reads 0"); n != 1 {
					t.Errorf("the first number was read %d times", n)
				}
			})
		}
	}
}

// idOf is the id of the one operator with a name in a checkpoint.
func idOf(t *testing.T, dir, name string) string {
	t.Helper()
	for _, op := range metadata(t, dir).Operators {
		if op.Name == name {
			return op.ID.String()
		}
	}
	t.Fatalf("no operator %q in %s", name, dir)
	return ""
}

// An operator can't have the state of two, whatever may be dropped.
func TestFormerAndPresentStateIsOneTooMany(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		dir, b := t.TempDir(), newBoard()
		in := count(b, "in", far).let(10)
		from := left(t, b, kind, dir, "out: 9 is number 10", func(job *Job) error {
			quick(job)
			job.Checkpoints.Dir = dir
			numbers := From(job, "in", in)
			Do(counted(numbers, "old"), "nothing", func(string) error { return nil })
			To(counted(numbers, "count"), "out", newLedger[string](b, "out"))
			return nil
		})
		r, _ := launch(t, t.Context(), renamed(in, newLedger[string](b, "new"), "count", []Option{Formerly("old")}, func(job *Job) {
			job.From, job.AllowNonRestored = from, true
		}))
		wants(t, wait(t, r), `operator "count"`, `uid "old"`, `uid "count"`, "too", "Formerly")
		if len(r.Failures()) != 1 || b.times("new opens") > 0 {
			t.Errorf("it was opened, or tried again: %v", r.Failures())
		}
	}
}

// A former name that two operators claim, or that is another operator's, is a mistake
// in the job.
func TestFormerNameIsOneOperatorsOnly(t *testing.T) {
	t.Parallel()
	_, err := prepare(func(job *Job) error {
		in := FromSlice(job, "in", []int{1})
		Map(in, "a", double, Formerly("old"))
		Map(in, "b", double, Formerly("old"), Formerly("in"))
		return nil
	}, config.Layer{}, config.Layer{})
	wants(t, err, `former uid "old" is given twice: to "a" at `, `and to "b" at `, `former uid "in" of "b" at `, `is the present one of "in" at `, "engine_former_test.go:")
}
