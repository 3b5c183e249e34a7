package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// pace is how far apart the records of a latency row are.
const pace = 100 * time.Microsecond

// latencyRow says after which time 99 of 100 records have come to the sink, while
// checkpoints are taken, and so many subtasks of another stream are busy.
func latencyRow(name string, s scale, busy int) row {
	return row{name, least("ms", func(lasting time.Duration) (float64, error) {
		took, err := latencies(int(max(lasting, s.enough)/pace), s.interval, busy)
		if err != nil {
			return 0, err
		}
		slices.Sort(took)
		return milliseconds(took[len(took)*99/100]), nil
	})}
}

// latencies is how long each of n records is on its way, through a shuffle.
func latencies(n int, interval time.Duration, busy int) ([]time.Duration, error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source := &paced{n: uint64(n)}
	took := make([]time.Duration, 0, n)
	err = weir.Run(context.Background(), func(job *weir.Job) error {
		job.Checkpoints = weir.Checkpoints{Interval: interval, Dir: "file://" + dir}
		events := weir.From(job, "paced", source, weir.Parallelism(1))
		byKey := weir.KeyBy(events, func(e event) uint64 { return e.Key })
		newest := weir.Fold(byKey, "newest", func(_ int64, e event) int64 { return e.Value }, weir.Parallelism(1))
		weir.Do(newest, "take", func(p weir.Pair[uint64, int64]) error {
			took = append(took, source.since(p.Value))
			return nil
		}, weir.Parallelism(1))
		if busy > 0 {
			spun := weir.Map(weir.From(job, "busy", source.spinning(), weir.Parallelism(busy)), "spin",
				func(e event) event { return event{e.Key * e.Key, e.Value} }, weir.Parallelism(busy))
			weir.Do(spun, "forget", func(event) error { return nil }, weir.Parallelism(busy))
		}
		return nil
	})
	if err == nil && len(took) != n {
		err = errors.New("records are missing")
	}
	return took, err
}

// paced is a source of n records, one at a time. Their values say when each was due,
// so that a source that is held up itself shows, too.
type paced struct {
	n     uint64
	began time.Time
	over  atomic.Bool
}

func (p *paced) since(due int64) time.Duration { return time.Since(p.began) - time.Duration(due) }

func (p *paced) Bounded() bool { return true }

func (p *paced) Enumerate(_ context.Context, e connector.Enumeration[stretch]) error {
	e.Assign(stretch{0, p.n})
	return nil
}

func (p *paced) Open(context.Context, connector.Reading) (connector.Reader[event, stretch], error) {
	return p, nil
}

func (p *paced) Read(_ context.Context, at *stretch, into *record.Batch[event]) error {
	if at.Next == 0 {
		p.began = time.Now()
	}
	due := time.Duration(at.Next) * pace
	time.Sleep(due - time.Since(p.began))
	into.Add(event{at.Next % 1000, int64(due)})
	if at.Next++; at.Next == at.End {
		p.over.Store(true)
		return io.EOF
	}
	return nil
}

func (p *paced) Close() error { return nil }

// spinning is a source that is as fast as it can be, until p is over.
func (p *paced) spinning() spinning { return spinning{numbers{1 << 50, generator(1 << 20)}, &p.over} }

type spinning struct {
	numbers
	over *atomic.Bool
}

func (s spinning) Open(context.Context, connector.Reading) (connector.Reader[event, stretch], error) {
	return s, nil
}

func (s spinning) Read(ctx context.Context, at *stretch, into *record.Batch[event]) error {
	if s.over.Load() {
		return io.EOF
	}
	return s.numbers.Read(ctx, at, into)
}
