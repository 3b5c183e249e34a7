package operator

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
)

// NewSink makes the sink operator of one subtask.
func NewSink[T, C any](c *Context, sink connector.Sink[T, C], committables codec.Codec[C]) (Operator, error) {
	s := &sinkOp[T, C]{c: c, codec: committables}
	if c.Restored != nil {
		s.ended = c.Restored.Ended
	}
	w, err := sink.Open(c, c)
	if err != nil {
		return nil, err
	}
	s.writer = w
	return s, nil
}

type sinkOp[T, C any] struct {
	c      *Context
	codec  codec.Codec[C]
	writer connector.Writer[T, C]
	// pending is what has been prepared for checkpoints that aren't known to be
	// complete, oldest first. It is in every snapshot until then: what a failed
	// checkpoint had prepared is due with the next one.
	pending []snapshot.Pending
	ended   bool
	view    record.Batch[T]
}

func (s *sinkOp[T, C]) Receiver() any { return Receiver[T](s.receive) }

func (s *sinkOp[T, C]) receive(b *record.Batch[T]) {
	if !s.c.Chain.passes() {
		return
	}
	s.c.Records.Add(b.Len())
	outer := s.c.Chain.Enter(s.c)
	if err := s.writer.Write(s.c, b); err != nil {
		s.c.Chain.Fail(s.c.Name, fmt.Errorf("write: %w", err))
	}
	s.c.Chain.Enter(outer)
}

func (s *sinkOp[T, C]) Slice(batch any, from, to int) {
	s.receive(view(&s.view, batch.(*record.Batch[T]), from, to))
}

func (s *sinkOp[T, C]) Length(batch any) int { return len(batch.(*record.Batch[T]).Values) }

func (s *sinkOp[T, C]) End() { s.ended = true }

func (s *sinkOp[T, C]) Freeze(b record.Barrier) (Part, error) {
	prepared, err := s.writer.Prepare(s.c)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	for i := range prepared {
		s.pending = append(s.pending, snapshot.Pending{
			Checkpoint: b.Checkpoint, Subtask: s.c.Index, Data: s.codec.Append(nil, &prepared[i]),
		})
	}
	return Whole(snapshot.State{Pending: slices.Clone(s.pending), Ended: s.ended}), nil
}

func (s *sinkOp[T, C]) Completed(checkpoint uint64) {
	s.pending = slices.DeleteFunc(s.pending, func(p snapshot.Pending) bool { return p.Checkpoint <= checkpoint })
}

func (s *sinkOp[T, C]) Err() error   { return nil }
func (s *sinkOp[T, C]) Close() error { return s.writer.Close() }
