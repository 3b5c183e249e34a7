package main

import (
	"context"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/record"
)

// coordinateRow says how much work a checkpoint of so many subtasks is for the
// coordinator, and how that compares with a hundred.
func coordinateRow(name string, subtasks int) row {
	return row{name, func(lasting time.Duration) (result, error) {
		few, err := least("µs", coordinating(100))(lasting)
		if err != nil {
			return result{}, err
		}
		r, err := least("µs", coordinating(subtasks))(lasting)
		with, ratio := "100 subtasks", r.Rate/few.Rate
		r.ComparedWith, r.ComparedRate, r.Ratio = &with, &few.Rate, &ratio
		return r, err
	}}
}

// coordinating measures the coordinator's work per checkpoint.
func coordinating(subtasks int) func(time.Duration) (float64, error) {
	return func(lasting time.Duration) (float64, error) {
		c := checkpoint.New(checkpoint.Policy{Interval: time.Second, Timeout: time.Minute, Concurrent: 1, Retained: 3}, 0, nil)
		now := time.Unix(0, 0)
		started := checkpoint.Started{Attempt: 1}
		for i := range subtasks {
			started.Subtasks = append(started.Subtasks, graph.Subtask{Index: i})
		}
		c.Step(now, started)
		began, n := time.Now(), uint64(0)
		for n == 0 || time.Since(began) < lasting/rounds {
			n++
			c.Step(now, checkpoint.Enumerated{Checkpoint: n})
			for _, s := range started.Subtasks {
				c.Step(now, checkpoint.Ack{Attempt: 1, Subtask: s, Checkpoint: n})
			}
			c.Step(now, checkpoint.Stored{Checkpoint: n})
			c.Step(now, checkpoint.Committed{Checkpoint: n})
			now = now.Add(time.Second)
			c.Step(now, checkpoint.Tick{})
		}
		return 1e3 * milliseconds(time.Since(began)) / float64(n), nil
	}
}

// historyRow compares the last hundred of so many checkpoints of a job of a hundred
// subtasks with the hundred behind the first hundred.
func historyRow(name string, checkpoints int) row {
	return row{name, func(time.Duration) (result, error) {
		source := silence{make(chan struct{}, 50)}
		running, err := weir.Start(context.Background(), func(job *weir.Job) error {
			job.Parallelism = cap(source.begun)
			nothing := weir.From(job, "nothing", source)
			weir.Do(weir.Forward(nothing), "do", func(int) error { return nil }, weir.NoChain())
			return nil
		})
		if err != nil {
			return result{}, err
		}
		defer running.Cancel(context.Background())
		for range cap(source.begun) {
			<-source.begun
		}
		hundred := func() (ms float64, err error) {
			began := time.Now()
			for range 100 {
				if _, _, err := running.Checkpoint(context.Background(), false); err != nil {
					return 0, err
				}
			}
			return milliseconds(time.Since(began)) / 100, nil
		}
		var took []float64
		for range max(3, checkpoints/100) {
			ms, err := hundred()
			if err != nil {
				return result{}, err
			}
			took = append(took, ms)
		}
		first, last, with := took[1], took[len(took)-1], "its first ones"
		ratio := last / first
		return result{Rate: last, Unit: "ms", ComparedWith: &with, ComparedRate: &first, Ratio: &ratio}, nil
	}}
}

// silence is a source of nothing that never ends. It says when a subtask has begun
// to wait.
type silence struct{ begun chan struct{} }

func (s silence) Enumerate(_ context.Context, e connector.Enumeration[int]) error {
	e.Assign(make([]int, e.Parallelism())...)
	return nil
}

func (s silence) Open(context.Context, connector.Reading) (connector.Reader[int, int], error) {
	return s, nil
}

func (s silence) Read(ctx context.Context, _ *int, _ *record.Batch[int]) error {
	s.begun <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (s silence) Close() error { return nil }
