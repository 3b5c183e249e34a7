package weir

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/commit"
	"github.com/weirstream/weir/internal/enumerate"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/record"
)

// From reads a source.
func From[T, S any](job *Job, uid string, source connector.Source[T, S], opts ...Option) Stream[T] {
	splits, err := codec.For[S]()
	if err != nil {
		job.mistake("from", uid, fmt.Errorf("its splits can't be stored: %w", err))
	}
	job.given("from", uid, "source", source != nil)
	job.check("from", uid, source)
	what := node{
		source: enumerate.New(source, splits),
		spec: operator.Spec{
			Out: recordType[T](job, "from", uid),
			Open: func(c *operator.Context, next []any) (operator.Operator, error) {
				return operator.NewSource(c, source, splits, operator.NewOutput[T](c, next))
			},
		},
	}
	n := graph.Node{UID: uid, Kind: graph.Source}
	if s, ok := source.(connector.Bounded); ok {
		n.Bounded = s.Bounded()
	}
	if s, ok := source.(connector.Lossy); ok {
		n.Lossy = s.Lossy()
	}
	return stream[T](job, job.add("from", n, what, nil, opts))
}

// To writes a stream to a sink.
func To[T, C any](in Stream[T], uid string, sink connector.Sink[T, C], opts ...Option) {
	j := in.job
	committables, err := codec.For[C]()
	if err != nil {
		j.mistake("to", uid, fmt.Errorf("its committables can't be stored: %w", err))
	}
	if !j.given("to", uid, "sink", sink != nil) {
		return
	}
	j.check("to", uid, sink)
	what := node{guarantee: sink.Guarantee(), spec: operator.Spec{
		Open: func(c *operator.Context, _ []any) (operator.Operator, error) {
			return operator.NewSink(c, sink, committables)
		},
	}}
	if commits, ok := sink.(connector.Committing[C]); ok {
		what.sink = commit.New(commits, committables)
	}
	j.add("to", graph.Node{UID: uid, Kind: graph.Sink, Commits: what.sink != nil}, what, in.from, opts)
}

// FromSlice reads the values of a slice, in their order; the stream then ends.
// The slice must hold the same values whenever the job is started again from one
// of its checkpoints, and must not be changed while it runs. With a parallelism
// above 1 each subtask reads a part of it.
func FromSlice[T any](job *Job, uid string, values []T, opts ...Option) Stream[T] {
	return From(job, uid, sliceSource[T]{values}, opts...)
}

type sliceSource[T any] struct{ values []T }

// sliceSplit is the values from Next to End, without End.
type sliceSplit struct{ Next, End int }

func (s sliceSource[T]) Bounded() bool { return true }

func (s sliceSource[T]) Enumerate(_ context.Context, e connector.Enumeration[sliceSplit]) error {
	n := e.Parallelism()
	for i := range n {
		if from, to := i*len(s.values)/n, (i+1)*len(s.values)/n; from < to {
			e.Assign(sliceSplit{from, to})
		}
	}
	return nil
}

func (s sliceSource[T]) Open(context.Context, connector.Reading) (connector.Reader[T, sliceSplit], error) {
	return s, nil
}

func (s sliceSource[T]) Read(_ context.Context, at *sliceSplit, into *record.Batch[T]) error {
	if at.End > len(s.values) {
		return fmt.Errorf("the slice has %d values, and had at least %d when the checkpoint was taken", len(s.values), at.End)
	}
	n := min(at.End-at.Next, cap(into.Values)-len(into.Values))
	into.Values = append(into.Values, s.values[at.Next:at.Next+n]...)
	if at.Next += n; at.Next == at.End {
		return io.EOF
	}
	return nil
}

func (s sliceSource[T]) Close() error { return nil }

// Print writes each record to standard output, on a line of its own. After a
// restart lines may come again.
func Print[T any](in Stream[T], uid string, opts ...Option) {
	Do(in, uid, func(v T) error { _, err := fmt.Println(v); return err }, opts...)
}

// Collect appends the records to a slice of this process, each once, when the
// checkpoint that holds them is complete; all of them are there when Run has
// returned. It is for tests and small results: they are in memory, and in each
// checkpoint until then. A job that another Run resumes commits anew what was
// pending, so that records of the last interval can come again in the new slice.
func Collect[T any](in Stream[T], uid string, into *[]T, opts ...Option) {
	in.job.given("collect", uid, "slice", into != nil)
	To(in, uid, &collector[T]{into: into}, opts...)
}

type collector[T any] struct {
	connector.ExactlyOnce
	mu   sync.Mutex // guards what is below
	into *[]T
	done uint64 // everything up to this checkpoint has been appended
}

// collected is what one subtask has collected before one checkpoint.
type collected[T any] struct{ Records []T }

func (c *collector[T]) Open(context.Context, connector.Writing) (connector.Writer[T, collected[T]], error) {
	return &collecting[T]{}, nil
}

func (c *collector[T]) OpenCommitter(context.Context, connector.Commitment) (connector.Committer[collected[T]], error) {
	return c, nil
}

func (c *collector[T]) Recover(ctx context.Context, pending []connector.Committable[collected[T]]) error {
	return c.Commit(ctx, pending)
}

func (c *collector[T]) Commit(_ context.Context, due []connector.Committable[collected[T]]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.done
	for _, d := range due {
		if d.Checkpoint > before {
			*c.into = append(*c.into, d.Value.Records...)
			c.done = max(c.done, d.Checkpoint)
		}
	}
	return nil
}

func (c *collector[T]) Close() error { return nil }

type collecting[T any] struct{ records []T }

func (w *collecting[T]) Write(_ context.Context, b *record.Batch[T]) error {
	w.records = append(w.records, b.Values...)
	return nil
}

func (w *collecting[T]) Prepare(context.Context) ([]collected[T], error) {
	if len(w.records) == 0 {
		return nil, nil
	}
	all := collected[T]{w.records}
	w.records = nil
	return []collected[T]{all}, nil
}

func (w *collecting[T]) Close() error { return nil }
