package weir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// S97: an interval without records leaves nothing behind but a checkpoint from
// which the job goes on.
func TestIntervalWithoutRecordsLeavesNothing(t *testing.T) {
	checkpoints, to, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", 20), newLedger[int](b, "out")
	start := func(ctx context.Context) *Running {
		r, _ := launch(t, ctx, func(job *Job) error {
			job.Name, job.From, job.Parallelism = "quiet", Latest, 2
			job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: checkpoints}
			numbers := From(job, "in", in)
			To(numbers, "out", out)
			To(numbers, "files", printed[int](to))
			return nil
		}, announced(b))
		return r
	}
	quiet := func(limit int) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r := start(ctx)
		in.let(limit)
		if limit > 0 {
			b.await(t, 1, fmt.Sprint("out: ", limit-1))
		}
		b.await(t, b.times("checkpoint")+2, "checkpoint") // the files are committed, too
		files := len(must(os.ReadDir(to))(t))
		b.await(t, b.times("checkpoint")+3, "checkpoint")
		if now := len(must(os.ReadDir(to))(t)); now != files {
			t.Errorf("%d files became %d", files, now)
		}
		stop()
		if err := wait(t, r); !errors.Is(err, ErrSuspended) {
			t.Fatal(err)
		}
	}
	quiet(0)
	quiet(0)
	quiet(10)
	quiet(10)
	in.let(20)
	if err := wait(t, start(t.Context())); err != nil {
		t.Fatal(err)
	}
	same(t, "ledger", b.all("out: "), upTo(20))
	same(t, "files", lines(t, to), upTo(20))
}

// A broker takes letters that are sent to it beside the stream, each when the
// test says so, and shows them when their transaction is committed.
type broker struct {
	connector.ExactlyOnce
	*board
	deliver chan error // one for each sending: how it goes

	mu    sync.Mutex // guards what is below
	open  map[string][]int
	shown map[string]bool
}

func newBroker(b *board) *broker {
	return &broker{board: b, deliver: make(chan error), open: map[string][]int{}, shown: map[string]bool{}}
}

// transaction is a committable.
type transaction struct{ ID string }

func (b *broker) Open(ctx context.Context, w connector.Writing) (connector.Writer[int, transaction], error) {
	return &sender{broker: b, ctx: ctx, id: w.Attempt()}, nil
}

func (b *broker) OpenCommitter(context.Context, connector.Commitment) (connector.Committer[transaction], error) {
	b.say("committer opens")
	return b, nil
}

func (b *broker) Recover(ctx context.Context, pending []connector.Committable[transaction]) error {
	return b.Commit(ctx, pending)
}

func (b *broker) Commit(_ context.Context, due []connector.Committable[transaction]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range due {
		if b.shown[d.Value.ID] {
			continue
		}
		b.shown[d.Value.ID] = true
		for _, n := range b.open[d.Value.ID] {
			b.say("shows %d", n)
		}
	}
	return nil
}

func (b *broker) Close() error { return nil }

// A sender sends without waiting for the outcome, until it has to be known.
type sender struct {
	*broker
	ctx      context.Context // of the subtask
	id       string
	number   int
	sending  sync.WaitGroup
	letters  []int // of this transaction, which the broker hasn't taken
	mu       sync.Mutex
	taken    []int
	failures error
}

func (s *sender) Write(_ context.Context, batch *record.Batch[int]) error {
	s.letters = append(s.letters, batch.Values...)
	s.send(slices.Clone(batch.Values))
	return nil
}

func (s *sender) send(letters []int) {
	s.sending.Go(func() {
		s.say("sends %v", letters)
		var err error
		select {
		case err = <-s.deliver:
		case <-s.ctx.Done():
			err = s.ctx.Err()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.failures = errors.Join(s.failures, err)
			return
		}
		s.taken = append(s.taken, letters...)
	})
}

func (s *sender) Prepare(context.Context) ([]transaction, error) {
	if len(s.letters) == 0 {
		return nil, nil
	}
	s.say("prepares %v", s.letters)
	s.sending.Wait()
	err := s.failures
	if s.failures = nil; err != nil {
		s.taken = nil
		s.send(slices.Clone(s.letters)) // all of them once more
		return nil, fmt.Errorf("send: %w", err)
	}
	s.number++
	id := fmt.Sprintf("%s-%d", s.id, s.number)
	s.broker.mu.Lock()
	s.open[id] = s.taken
	s.broker.mu.Unlock()
	s.letters, s.taken = nil, nil
	return []transaction{{id}}, nil
}

func (s *sender) Close() error { s.sending.Wait(); return nil }

// S98: a checkpoint waits for everything that was sent before it, and fails if
// that does, however late; the first record is no exception.
func TestCheckpointWaitsForWhatWasSentAndFailsWithIt(t *testing.T) {
	settings := map[string]func(*Job){
		"tolerated": func(job *Job) { job.Checkpoints.TolerableFailures = 1 },
		"restarted": func(job *Job) {
			job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1, Delay: time.Millisecond}
		},
	}
	for name, set := range settings {
		t.Run(name, func(t *testing.T) {
			b := newBoard()
			in, out := count(b, "in", 2), newBroker(b)
			r, log := launch(t, t.Context(), func(job *Job) error {
				job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: t.TempDir()}
				set(job)
				To(From(job, "in", in), "out", out)
				return nil
			}, announced(b))
			in.let(1)
			b.await(t, 1, "prepares [0]")
			before := b.times("checkpoint")
			out.deliver <- errors.New("mailbox full")
			b.await(t, 2, "prepares [0]")
			if now := b.times("checkpoint"); now != before {
				t.Errorf("%d checkpoints are complete without the record", now-before)
			}
			if shown := b.all("shows "); len(shown) > 0 {
				t.Errorf("shows %v before it was taken", shown)
			}
			out.deliver <- nil
			b.await(t, 1, "shows 0")
			in.let(2)
			out.deliver <- nil
			if err := wait(t, r); err != nil {
				t.Fatal(err)
			}
			same(t, "letters", b.all("shows "), upTo(2))
			if failures := r.Failures(); name == "tolerated" && len(failures) > 0 || name == "restarted" && len(failures) != 1 {
				t.Errorf("failures: %v", failures)
			}
			wants(t, errors.New(log.String()), "mailbox full")
		})
	}
}

// A job doesn't wait for what may never be answered when it is to stop.
func TestStoppedJobDoesNotWaitForWhatWasSent(t *testing.T) {
	b := newBoard()
	ctx, stop := context.WithCancel(t.Context())
	r, _ := launch(t, ctx, func(job *Job) error {
		job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: t.TempDir()}
		To(From(job, "in", count(b, "in", far).let(1)), "out", newBroker(b))
		return nil
	})
	b.await(t, 1, "prepares [0]")
	stop()
	if err := wait(t, r); !errors.Is(err, ErrSuspended) {
		t.Error(err)
	}
}
