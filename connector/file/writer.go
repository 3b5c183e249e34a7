package file

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/record"
)

// A writer formats records for its output.
type writer[T any] struct {
	output
	format func([]byte, T) []byte
	after  time.Duration
	began  time.Time // when the current file got its first records; zero if none were seen
}

// Write implements connector.Writer.
func (w *writer[T]) Write(_ context.Context, b *record.Batch[T]) error {
	if w.after > 0 {
		if err := w.age(time.Now()); err != nil {
			return err
		}
	}
	for _, v := range b.Values {
		w.tail = w.format(w.tail, v)
		if err := w.grown(); err != nil {
			return err
		}
	}
	return nil
}

// age ends the current file if it is old enough.
func (w *writer[T]) age(now time.Time) error {
	switch {
	case w.size() == 0:
	case now.Sub(w.began) < w.after:
		return nil
	default:
		if err := w.end(); err != nil {
			return err
		}
	}
	w.began = now
	return nil
}

// Prepare implements connector.Writer.
func (w *writer[T]) Prepare(context.Context) ([]Part, error) {
	if err := w.end(); err != nil {
		return nil, err
	}
	parts := w.ended
	w.ended = nil
	return parts, nil
}

// Close implements connector.Writer.
func (w *writer[T]) Close() error {
	if err := w.discard(); err != nil {
		return fmt.Errorf("close file sink: %w", err)
	}
	return nil
}
