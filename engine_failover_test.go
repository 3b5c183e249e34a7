package weir

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/state"
)

type tick = Pair[int, int64]

// everything is a job of every kind of function, each of which can be struck. For
// each of five keys it emits the counts 1, 2, ..., 20 to two sinks.
type everything struct {
	*board
	*fault
	in  *numbers
	out *ledger[Pair[int, tick]]
	dir string
}

func newEverything(t *testing.T, point string, panics bool) *everything {
	b, f := newBoard(), &fault{point: point, panics: panics}
	e := &everything{b, f, count(b, "in", 2*soFar), newLedger[Pair[int, tick]](b, "out"), t.TempDir()}
	e.in.fault, e.out.fault = f, f
	return e
}

// later strikes behind the first checkpoint.
func (e *everything) later(n int, point string) error {
	if n < soFar {
		return nil
	}
	return e.strike(point)
}

// now is later for functions that return no error.
func (e *everything) now(n int, point string) {
	if err := e.later(n, point); err != nil {
		panic(err)
	}
}

func (e *everything) build(job *Job) error {
	in := From(job, "in", e.in)
	a := Map(in, "map", func(n int) int { e.now(n, "map"); return n })
	b := TryMap(a, "try map", func(n int) (int, error) { return n, e.later(n, "try map") })
	c := Filter(b, "filter", func(n int) bool { e.now(n, "filter"); return true })
	d := Each(c, "each", func(n int, emit func(int)) error { emit(n); return e.later(n, "each") })
	f := FlatMap(d, "flat map", func(n int) iter.Seq[int] {
		return func(yield func(int) bool) { e.now(n, "flat map"); yield(n) }
	})
	key := func(n int) int { e.now(n, "key"); return n % 5 }
	counts := Process(KeyBy(f, key), "process", func(op *Op[int, tick]) Handler[int] {
		if err := e.strike("constructor"); err != nil {
			panic(err)
		}
		n := state.NewValue[int64](op, "n")
		return Handler[int]{
			Record: func(v int) error {
				n.Set(n.Get() + 1)
				op.Emit(tick{op.Key(), n.Get()})
				return e.later(v, "record")
			},
			End:   func() error { return e.strike("end") },
			Close: func() error { return e.strike("close") },
		}
	}, Parallelism(2))
	most := Reduce(KeyBy(counts, func(t tick) int { return t.Key }), "reduce", func(a, b tick) tick {
		e.now(int(5*b.Value-5), "reduce")
		return tick{a.Key, max(a.Value, b.Value)}
	})
	To(most, "out", e.out)
	To(most, "files", printed[Pair[int, tick]](e.dir))
	Do(most, "do", func(p Pair[int, tick]) error { return e.later(int(5*p.Value.Value-5), "do") })
	return nil
}

// want is what the job emits.
func (e *everything) want() (all []string) {
	for k := range 5 {
		for n := range 2 * soFar / 5 {
			all = append(all, fmt.Sprintf("{%d {%d %d}}", k, k, n+1))
		}
	}
	return all
}

// functions are where a job can be struck, and the operator that an error there names.
// With a point that is later the fault comes behind a checkpoint.
var functions = []struct {
	point, operator string
	later           bool
	harmless        bool // what fails when all is over fails nothing
}{
	{"map", "map", true, false},
	{"try map", "try map", true, false},
	{"filter", "filter", true, false},
	{"each", "each", true, false},
	{"flat map", "flat map", true, false},
	{"key", "", true, false}, // in whatever operator comes before the view
	{"constructor", "process", false, false},
	{"record", "process", true, false},
	{"end", "process", true, false},
	{"close", "process", false, true},
	{"reduce", "reduce", true, false},
	{"do", "do", true, false},
	{"enumerate", "in", false, false},
	{"open reader", "in", false, false},
	{"read", "in", true, false},
	{"close reader", "in", false, true},
	{"open writer", "out", false, false},
	{"write", "out", false, false},
	{"prepare", "out", false, false},
	{"close writer", "out", false, true},
	{"open committer", "out", false, false},
	{"recover", "out", false, false},
	{"commit", "out", false, false},
	{"close committer", "out", false, true},
}

// TestFaultInAnyFunctionRestartsTheJob strikes each function that the engine
// calls, by an error and by a panic: the job goes on from its latest checkpoint
// and its output is as if nothing had happened.
func TestFaultInAnyFunctionRestartsTheJob(t *testing.T) {
	for _, f := range functions {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/panics=%v", f.point, panics), inItsWay(func(t *testing.T) {
				parallel(t)
				e := newEverything(t, f.point, panics)
				r, _ := launch(t, t.Context(), func(job *Job) error {
					job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: t.TempDir()}
					job.Restart = Restart{Strategy: "fixed-delay", Attempts: 2, Delay: time.Millisecond}
					return e.build(job)
				})
				e.in.let(soFar)
				e.await(t, 1, "out: {4 {4 10}}") // the number 49
				e.in.let(2 * soFar)
				if err := wait(t, r); err != nil {
					t.Fatal(err)
				}
				same(t, "ledger", e.all("out: "), e.want())
				same(t, "files", lines(t, e.dir), e.want())
				if !e.struck.Load() {
					t.Fatal("nothing has failed")
				}
				if n := e.times("in reads 0"); f.later && n != 1 {
					t.Errorf("the first record was read %d times: not from the latest checkpoint", n)
				}
				failures := r.Failures()
				if f.harmless {
					if len(failures) > 0 {
						t.Errorf("failed by %v", failures)
					}
					return
				}
				if len(failures) != 1 || failures[0].Attempt != 1 || failures[0].At.IsZero() || failures[0].Where == "" {
					t.Fatalf("failures are %+v", failures)
				}
				wants(t, failures[0].Err, "struck", fmt.Sprintf("%q", f.operator)[:1+len(f.operator)])
				panicked := strings.Contains(failures[0].Err.Error(), "panic")
				if stack := failures[0].Stack; strings.Contains(stack, "engine_") != panicked || panics && !panicked {
					t.Errorf("%v, with the stack %q", failures[0].Err, stack)
				}
			}))
		}
	}
}

// TestFailureWithoutRestartIsOneReadableError strikes the same functions in a job
// that is never restarted.
func TestFailureWithoutRestartIsOneReadableError(t *testing.T) {
	for _, f := range functions {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/panics=%v", f.point, panics), func(t *testing.T) {
				t.Parallel()
				e := newEverything(t, f.point, panics)
				e.in.let(2 * soFar)
				err := soon(t, "the end", func() error {
					return Run(context.Background(), func(job *Job) error {
						job.Name = "fragile"
						job.Restart.Strategy = "none"
						return e.build(job)
					})
				})
				if f.harmless {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				wants(t, err, `job "fragile": `, "struck", fmt.Sprintf("%q", f.operator)[:1+len(f.operator)])
				if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "goroutine") {
					t.Errorf("%q isn't one line", err)
				}
			})
		}
	}
}

// A gate is a sink that holds up its subtask at the first barrier.
type gate struct {
	*ledger[int]
	open chan struct{}
}

func (g gate) Open(ctx context.Context, w connector.Writing) (connector.Writer[int, page[int]], error) {
	s, err := g.ledger.Open(ctx, w)
	return gated{s, g}, err
}

type gated struct {
	connector.Writer[int, page[int]]
	gate
}

func (g gated) Prepare(ctx context.Context) ([]page[int], error) {
	g.say("%s prepares", g.uid)
	<-g.open
	return g.Writer.Prepare(ctx)
}

func (g gated) Close() error { return g.Writer.Close() }

// S11: with at-least-once a channel goes on behind its barrier while another's
// isn't there yet. What comes on it then is in the checkpoint, and comes again
// after a restart; exactly once, it waits.
func TestAtLeastOnceHoldsNothingAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{ExactlyOnce, AtLeastOnce} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b, crash := newBoard(), &fault{point: "count"}
			early, late := count(b, "early", far).let(5), count(b, "late", far)
			held := gate{newLedger[int](b, "late sink"), make(chan struct{})}
			r, log := launch(t, t.Context(), func(job *Job) error {
				job.Parallelism = 1
				job.Checkpoints = Checkpoints{Interval: time.Hour, Mode: mode}
				job.Restart = Restart{Strategy: "fixed-delay", Attempts: 3, Delay: time.Millisecond}
				first, second := From(job, "early", early), From(job, "late", late)
				To(first, "early sink", newLedger[int](b, "early sink"))
				To(second, "late sink", held)
				byKey := KeyBy(Union(first, second), func(int) int { return 0 })
				Process(byKey, "count", func(op *Op[int, int]) Handler[int] {
					n := state.NewValue[int](op, "n")
					return Handler[int]{Record: func(v int) error {
						n.Set(n.Get() + 1)
						if b.say("counts %d", v); v < 10 {
							return nil
						}
						if err := crash.strike("count"); err != nil {
							return err
						}
						b.say("total %d", n.Get())
						b.say("total")
						return nil
					}}
				})
				return nil
			})
			b.await(t, 1, "counts 4")
			go r.Checkpoint(t.Context(), false)
			b.await(t, 1, "early sink prepares")
			b.await(t, 1, "late sink prepares")
			if early.let(10); mode == AtLeastOnce {
				b.await(t, 1, "counts 9")
			}
			close(held.open)
			b.await(t, 1, "counts 9")
			b.await(t, 2, "early sink commits") // at the start, and for the checkpoint
			early.let(11)
			b.await(t, 1, "total")
			want := map[Mode][]string{ExactlyOnce: {"11"}, AtLeastOnce: {"16"}}[mode] // the second five twice
			same(t, "how many of 11 records were counted", b.all("total "), want)
			if said := strings.Contains(log.String(), "at least once"); said != (mode == AtLeastOnce) {
				t.Errorf("the log says at least once: %v", said)
			}
		})
	}
}
