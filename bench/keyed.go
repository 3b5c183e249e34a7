package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// keyedRow compares the engine with goroutines.
func keyedRow(name string, keys uint64, p int) row {
	engine := func(n uint64) (uint64, error) {
		check, _, err := keyedSum(n, keys, p, weir.Checkpoints{})
		return check, err
	}
	byHand := func(n uint64) (uint64, error) { return keyedSumByHand(n, keys, p), nil }
	return throughput(name, contest{engine: engine, other: byHand, with: "goroutines, a channel of slices, Go maps"})
}

// checkpointRow compares the engine with itself.
func checkpointRow(name string, keys uint64, s scale) row {
	with := func(n uint64) (uint64, error) { return checkpointed(name, n, keys, s.interval) }
	without := func(n uint64) (uint64, error) {
		check, _, err := keyedSum(n, keys, 1, weir.Checkpoints{})
		return check, err
	}
	return throughput(name, contest{engine: with, other: without, with: "the same without checkpoints", least: s.enough})
}

// checkpointed is the keyed sum with checkpoints to disk, some of which must have
// been completed while records flowed.
func checkpointed(name string, n, keys uint64, interval time.Duration) (uint64, error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	check, completed, err := keyedSum(n, keys, 1, weir.Checkpoints{Interval: interval, Dir: "file://" + dir})
	if err != nil {
		return 0, err
	}
	during := completed - 1 // the last one is that of the end
	fmt.Fprintf(os.Stderr, "%s: %d checkpoints, and one at the end\n", name, during)
	if during < 1 {
		return 0, errors.New("not valid: no checkpoint was completed while records flowed; let it run for longer (-seconds)")
	}
	return check, nil
}

// keyedSum is a job that keeps a sum per key and gives each new sum to its sink.
// It returns the number of completed checkpoints, too.
func keyedSum(n, keys uint64, p int, c weir.Checkpoints) (check uint64, completed int64, err error) {
	sink := &sums{}
	err = weir.Run(context.Background(), func(job *weir.Job) error {
		job.Parallelism = p
		job.Checkpoints = c
		events := weir.From(job, "numbers", numbers{n, generator(keys)})
		byKey := weir.KeyBy(events, func(e event) uint64 { return e.Key })
		added := weir.Fold(byKey, "sum", func(sum int64, e event) int64 { return sum + e.Value })
		weir.To(added, "tally", sink)
		return nil
	})
	return sink.check.Load(), sink.completed.Load(), err
}

// sums is a sink that keeps a checksum of what it gets. Its committer commits
// nothing; it sees which checkpoints are complete.
type sums struct {
	connector.AtLeastOnce
	check     atomic.Uint64
	completed atomic.Int64
	newest    uint64 // checkpoint that is complete
}

// A mark is prepared by each writer at each barrier.
type mark struct{ Subtask int }

func (s *sums) Open(_ context.Context, w connector.Writing) (connector.Writer[weir.Pair[uint64, int64], mark], error) {
	t := &tally{}
	return &writer{s, t, t.add, mark{w.Subtask()}}, nil
}

func (s *sums) OpenCommitter(context.Context, connector.Commitment) (connector.Committer[mark], error) {
	return s, nil
}

func (s *sums) Recover(context.Context, []connector.Committable[mark]) error { return nil }

func (s *sums) Commit(_ context.Context, due []connector.Committable[mark]) error {
	if n := due[len(due)-1].Checkpoint; n > s.newest {
		s.newest = n
		s.completed.Add(1)
	}
	return nil
}

func (s *sums) Close() error { return nil }

type writer struct {
	sums  *sums
	tally *tally
	sink  func(key uint64, sum int64)
	mark  mark
}

func (w *writer) Write(_ context.Context, b *record.Batch[weir.Pair[uint64, int64]]) error {
	for i := range b.Values {
		w.sink(b.Values[i].Key, b.Values[i].Value)
	}
	return nil
}

func (w *writer) Prepare(context.Context) ([]mark, error) { return []mark{w.mark}, nil }

func (w *writer) Close() error {
	w.sums.check.Add(w.tally.check)
	return nil
}
