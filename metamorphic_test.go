package weir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// TestOutputDoesNotDependOnHowAJobRuns runs one job on one input again and again,
// each time with other settings, which change at every restore: parallelism,
// sizes of batches and slices, checkpoints or none, how channels carry records,
// chains or none. The output is always the same. The clock is synctest's.
func TestOutputDoesNotDependOnHowAJobRuns(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 8
	}
	seed := rand.Uint64()
	for i := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d %d", seed, i)
				}
			}()
			m := &metamorphosis{rng: rand.New(rand.NewPCG(seed, i)), board: newBoard(), disk: filesystem.NewMemory()}
			m.tallies, m.fives = newLedger[tick](m.board, "tallies"), newLedger[int](m.board, "fives")
			m.live(t)
		})
		if t.Failed() {
			return
		}
	}
}

// metamorphosis is one job's life, in several forms.
type metamorphosis struct {
	*board
	rng     *rand.Rand
	disk    *filesystem.Memory
	tallies *ledger[tick]
	fives   *ledger[int]
}

// form is how the job runs between two restores.
type form struct {
	parallelism, batch, slice int
	interval                  time.Duration // 0: no checkpoints
	channels                  string        // a way of ways
	chains                    bool
}

func (m *metamorphosis) pick() form {
	return form{
		parallelism: 1 + m.rng.IntN(4), batch: 1 << m.rng.IntN(11), slice: 1 << m.rng.IntN(11),
		interval: []time.Duration{0, 10 * time.Millisecond, 70 * time.Millisecond, time.Second}[m.rng.IntN(4)],
		channels: []string{"direct", "encoded", "pipe"}[m.rng.IntN(3)], chains: m.rng.IntN(2) == 0,
	}
}

// live runs the job until it has finished, suspends it now and then, and looks at
// what it has committed.
func (m *metamorphosis) live(t *testing.T) {
	for round := 0; ; round++ {
		s := m.pick()
		t.Logf("%+v", s)
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, func(job *Job) error { return m.build(job, s) }, on(m.disk), ways[s.channels], func(env *environment) { env.batchMax, env.sliceMax = s.batch, s.slice })
		if round < 3 {
			time.AfterFunc(time.Duration(1+m.rng.IntN(300))*time.Millisecond, end)
		}
		err := wait(t, r)
		end()
		if err == nil {
			break
		}
		if !errors.Is(err, ErrSuspended) {
			t.Fatal(err)
		}
	}
	var tallies, fives []string
	for n := range metamorphicInput {
		tallies = append(tallies, fmt.Sprintf("{%d %d}", n%13, n/13+1))
		if n%5 == 0 {
			fives = append(fives, fmt.Sprint(n))
		}
	}
	same(t, "tallies", m.all("tallies: "), tallies)
	same(t, "fives", m.all("fives: "), fives)
}

// metamorphicInput is how many numbers go through the job.
const metamorphicInput = 3000

// build is the job: numbers, of which each fifth goes to a side output, and for
// each of thirteen keys the counts 1, 2, ...
func (m *metamorphosis) build(job *Job, s form) error {
	job.Name, job.From, job.Parallelism = "metamorphic", Latest, s.parallelism
	job.Checkpoints = Checkpoints{Interval: s.interval, Dir: "file:///checkpoints"}
	job.Config = map[string]string{"pipeline.operator-chaining.enabled": fmt.Sprint(s.chains)}
	in := Map(From(job, "in", sheaves{}), "same", func(n int) int { return n })
	five := NewTag[int]("five")
	numbers := Operate(Rebalance(in), "sort out", func(op *Out[int]) Handler[int] {
		emit := five.Of(op)
		return Handler[int]{Record: func(n int) error {
			if op.Emit(n); n%5 == 0 {
				emit(n)
			}
			return nil
		}}
	})
	tallies := Process(KeyBy(numbers, func(n int) int { return n % 13 }), "tally", func(op *Op[int, tick]) Handler[int] {
		n := state.NewValue[int64](op, "n")
		return Handler[int]{Record: func(int) error {
			n.Set(n.Get() + 1)
			op.Emit(tick{op.Key(), n.Get()})
			return nil
		}}
	})
	To(tallies, "tallies", m.tallies)
	To(Shuffle(Side(numbers, five)), "fives", m.fives)
	return nil
}

// sheaves is a source that hands out numbers in full batches, each in some
// milliseconds.
type sheaves struct{}

func (s sheaves) Bounded() bool { return true }

func (s sheaves) Enumerate(_ context.Context, e connector.Enumeration[interval]) error {
	const splits = 6
	for i := range splits {
		e.Assign(interval{i * metamorphicInput / splits, (i + 1) * metamorphicInput / splits})
	}
	return nil
}

func (s sheaves) Open(context.Context, connector.Reading) (connector.Reader[int, interval], error) {
	return s, nil
}

func (s sheaves) Read(ctx context.Context, at *interval, into *record.Batch[int]) error {
	n := min(cap(into.Values), at.End-at.Next)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(1+n/10) * time.Millisecond):
	}
	for range n {
		into.Add(at.Next)
		at.Next++
	}
	if at.Next == at.End {
		return io.EOF
	}
	return nil
}

func (s sheaves) Close() error { return nil }
