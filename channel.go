package weir

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/record"
)

// FromChannel reads what is sent to a channel, in one subtask, until the channel
// is closed; then the stream ends.
//
// A channel can't be read again. When the job is restarted, or stopped, what it
// had taken from the channel and what isn't in the latest checkpoint is lost:
// that may be some thousand records more than have been processed. A job with
// checkpoints therefore refuses a channel that isn't given the option AcceptLoss.
func FromChannel[T any](job *Job, uid string, ch <-chan T, opts ...Option) Stream[T] {
	job.given("from channel", uid, "channel", ch != nil)
	single := func(n *graph.Node) {
		if n.Parallelism > 1 {
			job.mistake("from channel", uid, fmt.Errorf("it has one subtask, not %d", n.Parallelism))
		}
		n.Parallelism = 1
	}
	return From(job, uid, channel[T](ch), append(slices.Clone(opts), single)...)
}

// AcceptLoss lets a job with checkpoints have a source that can't be read again.
// Its state and output are then as if the records that a restart has lost had
// never been sent.
func AcceptLoss() Option { return func(o *graph.Node) { o.AcceptLoss = true } }

type channel[T any] <-chan T

// channelSplit is a channel. It has no position.
type channelSplit struct{}

func (channel[T]) Lossy() bool { return true }

func (channel[T]) Enumerate(_ context.Context, e connector.Enumeration[channelSplit]) error {
	e.Assign(channelSplit{})
	return nil
}

func (c channel[T]) Open(context.Context, connector.Reading) (connector.Reader[T, channelSplit], error) {
	return c, nil
}

// Read waits for one record, and takes what else is there already.
func (c channel[T]) Read(ctx context.Context, _ *channelSplit, into *record.Batch[T]) error {
	select {
	case v, open := <-c:
		if !open {
			return io.EOF
		}
		into.Add(v)
	case <-ctx.Done():
		return ctx.Err()
	}
	for len(into.Values) < cap(into.Values) {
		select {
		case v, open := <-c:
			if !open {
				return io.EOF
			}
			into.Add(v)
		default:
			return nil
		}
	}
	return nil
}

func (channel[T]) Close() error { return nil }
