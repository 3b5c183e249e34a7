// Package commit runs the committers of sinks: it gives them, in order, what
// their writers prepared and a complete checkpoint made due.
package commit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/snapshot"
)

// A Sink opens committers without its types being known.
type Sink interface {
	Open(ctx context.Context, c connector.Commitment) (Committer, error)
	// Schema says what the committables are.
	Schema() codec.Schema
}

// A Committer is a connector.Committer that takes committables as they are
// stored, in whatever order.
type Committer interface {
	Recover(ctx context.Context, pending []snapshot.Pending) error
	Commit(ctx context.Context, due []snapshot.Pending) error
	Close() error
}

// New returns the untyped form of a sink's committing part.
func New[C any](sink connector.Committing[C], committables codec.Codec[C]) Sink {
	return typed[C]{sink, committables}
}

type typed[C any] struct {
	sink  connector.Committing[C]
	codec codec.Codec[C]
}

// Schema implements Sink.
func (t typed[C]) Schema() codec.Schema { return t.codec.Schema() }

// Open implements Sink.
func (t typed[C]) Open(ctx context.Context, c connector.Commitment) (Committer, error) {
	to, err := t.sink.OpenCommitter(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open committer: %w", err)
	}
	return &committer[C]{to: to, codec: t.codec}, nil
}

type committer[C any] struct {
	to    connector.Committer[C]
	codec codec.Codec[C]
}

// Recover implements Committer.
func (c *committer[C]) Recover(ctx context.Context, pending []snapshot.Pending) error {
	all, err := c.decode(pending)
	if err == nil {
		err = c.to.Recover(ctx, all)
	}
	if err != nil {
		return fmt.Errorf("commit what was pending in the restored checkpoint: %w", err)
	}
	return nil
}

// Commit implements Committer.
func (c *committer[C]) Commit(ctx context.Context, due []snapshot.Pending) error {
	all, err := c.decode(due)
	if err == nil {
		err = c.to.Commit(ctx, all)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Close implements Committer.
func (c *committer[C]) Close() error {
	if err := c.to.Close(); err != nil {
		return fmt.Errorf("close committer: %w", err)
	}
	return nil
}

// decode returns the committables by checkpoint, then by subtask, then in the
// order in which they were prepared.
func (c *committer[C]) decode(pending []snapshot.Pending) ([]connector.Committable[C], error) {
	pending = slices.Clone(pending)
	slices.SortStableFunc(pending, func(a, b snapshot.Pending) int {
		return cmp.Or(cmp.Compare(a.Checkpoint, b.Checkpoint), cmp.Compare(a.Subtask, b.Subtask))
	})
	all := make([]connector.Committable[C], len(pending))
	for i, p := range pending {
		all[i].Checkpoint, all[i].Subtask = p.Checkpoint, p.Subtask
		n, err := c.codec.Decode(p.Data, &all[i].Value)
		if err == nil && n < len(p.Data) {
			err = fmt.Errorf("%d bytes too many", len(p.Data)-n)
		}
		if err != nil {
			return nil, fmt.Errorf("committable of checkpoint %d, subtask %d: %w", p.Checkpoint, p.Subtask, err)
		}
	}
	return all, nil
}
