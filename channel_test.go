package weir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
)

// announced makes the board say "checkpoint" when one is complete.
func announced(b *board) func(*environment) {
	return func(env *environment) {
		env.files = filesystem.Set{"file": &filesystem.Faulty{
			FileSystem: filesystem.Local{},
			After: func(op, path string) error {
				if op == "rename" && strings.Contains(path, "/._metadata.inprogress.") { // that of one that goes is renamed, too
					b.say("checkpoint")
				}
				return nil
			},
		}}
	}
}

func TestChannelIsReadInOrderUntilItIsClosed(t *testing.T) {
	ch := make(chan int, 5)
	var got []int
	r, _ := launch(t, t.Context(), func(job *Job) error {
		job.Parallelism = 3
		Do(FromChannel(job, "in", ch), "out", func(n int) error { got = append(got, n); return nil }, Parallelism(1))
		return nil
	})
	for n := range 10_000 {
		ch <- n
	}
	close(ch)
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	if len(got) != 10_000 || !slices.IsSorted(got) {
		t.Errorf("%d records", len(got))
	}
}

func TestChannelIsRefusedWithCheckpointsUnlessLossIsAccepted(t *testing.T) {
	build := func(interval time.Duration, opts ...Option) error {
		_, err := prepare(func(job *Job) error {
			job.Checkpoints.Interval = interval
			Do(FromChannel(job, "in", make(chan int), opts...), "out", func(int) error { return nil })
			return nil
		}, config.Layer{}, config.Layer{})
		return err
	}
	if err := build(0); err != nil {
		t.Error(err)
	}
	if err := build(time.Second, AcceptLoss()); err != nil {
		t.Error(err)
	}
	wants(t, build(time.Second), `source "in" at `, "channel_test.go:", "can't be read again", "AcceptLoss", "execution.checkpointing.interval")
}

func TestChannelThatCanNotWorkIsAMistake(t *testing.T) {
	_, err := prepare(func(job *Job) error {
		Do(FromChannel[int](job, "none", nil), "a", func(int) error { return nil })
		Do(FromChannel(job, "many", make(chan int), Parallelism(2)), "b", func(int) error { return nil })
		return nil
	}, config.Layer{}, config.Layer{})
	wants(t, err, `"none" at `, "the channel is nil", `"many" at `, "it has one subtask, not 2")
}

// What a channel had given is gone with the attempt that had taken it; what is
// sent later all comes, and nothing comes twice.
func TestRestartLosesOfAChannelOnlyWhatWasTaken(t *testing.T) {
	b, ch := newBoard(), make(chan int)
	out, fails := newLedger[int](b, "out"), &fault{point: "map"}
	r, log := launch(t, t.Context(), func(job *Job) error {
		job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: t.TempDir()}
		job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1, Delay: time.Millisecond}
		in := FromChannel(job, "in", ch, AcceptLoss())
		To(TryMap(in, "map", func(n int) (int, error) {
			if n == 10 {
				return n, fails.strike("map")
			}
			return n, nil
		}), "out", out)
		return nil
	})
	for n := range 10 {
		ch <- n
	}
	b.await(t, 1, "out: 9")
	ch <- 10
	b.await(t, 2, "out opens")
	for n := 11; n < 20; n++ {
		ch <- n
	}
	close(ch)
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(upTo(20), func(n string) bool { return n == "10" })
	same(t, "output", b.all("out: "), want)
	if want := `guarantee="none: source \"in\" can't be read again`; !strings.Contains(log.String(), want) {
		t.Errorf("the log doesn't say %s", want)
	}
}

// S10: nothing that a reader waits for keeps checkpoints from being complete, nor
// the job from ending.
func TestWaitingReaderHoldsNothingUp(t *testing.T) {
	sources := map[string]func(*Job, *board) Stream[int]{
		"channel": func(job *Job, _ *board) Stream[int] { return FromChannel(job, "in", make(chan int), AcceptLoss()) },
		"reader":  func(job *Job, b *board) Stream[int] { return From(job, "in", count(b, "in", 10)) },
		"rate": func(job *Job, _ *board) Stream[int] {
			return From(job, "in", datagen.Source[int]{Make: func(n int64, _ *rand.Rand) int { return int(n) }, Rate: 0.0001})
		},
	}
	for name, source := range sources {
		for _, parallelism := range []int{1, 2} {
			t.Run(fmt.Sprint(name, parallelism), func(t *testing.T) {
				t.Parallel()
				b := newBoard()
				ctx, stop := context.WithCancel(t.Context())
				r, _ := launch(t, ctx, func(job *Job) error {
					job.Parallelism = parallelism
					job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: t.TempDir()}
					To(source(job, b), "out", newLedger[int](b, "out"), Parallelism(1))
					return nil
				}, announced(b))
				b.await(t, 8, "checkpoint")
				stop()
				if err := wait(t, r); !errors.Is(err, ErrSuspended) {
					t.Error(err)
				}
			})
		}
	}
}

// Made-up records are exact when the job is resumed at other parallelisms.
func TestMadeUpRecordsAreExactAtAnyParallelism(t *testing.T) {
	const records = 200_000
	invent := func(n int64, r *rand.Rand) Pair[int64, uint32] { return Pair[int64, uint32]{n, r.Uint32()} }
	dir, out := t.TempDir(), t.TempDir()
	for life, parallelism := range []int{1, 3, 2, 4} {
		b := newBoard()
		ctx, stop := context.WithCancel(t.Context())
		last := life == 3
		r, _ := launch(t, ctx, func(job *Job) error {
			job.Name, job.From, job.Parallelism = "made up", Latest, parallelism
			job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: dir}
			in := datagen.Source[Pair[int64, uint32]]{Make: invent, Count: records, Seed: 7}
			if !last { // it doesn't come to its end before it is stopped
				in.Make = func(n int64, r *rand.Rand) Pair[int64, uint32] {
					if n >= int64(life+1)*records/4 {
						<-ctx.Done()
					}
					return invent(n, r)
				}
			}
			To(From(job, "in", in), "out", printed[Pair[int64, uint32]](out))
			return nil
		}, announced(b))
		if !last {
			b.await(t, 3, "checkpoint")
			stop()
		}
		if err := wait(t, r); last && err != nil || !last && !errors.Is(err, ErrSuspended) {
			t.Fatalf("life %d: %v", life, err)
		}
		stop()
	}
	var whole []Pair[int64, uint32]
	if err := Run(t.Context(), func(job *Job) error {
		Collect(From(job, "in", datagen.Source[Pair[int64, uint32]]{Make: invent, Count: records, Seed: 7}), "out", &whole)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, v := range whole {
		want = append(want, fmt.Sprint(v))
	}
	slices.Sort(want)
	if got := lines(t, out); len(want) != records || !slices.Equal(got, want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
}
