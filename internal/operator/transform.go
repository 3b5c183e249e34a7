package operator

import (
	"errors"
	"iter"

	"github.com/weirstream/weir/record"
)

// A Body is what an operator without a key does with a batch: it reads in and
// emits to out.
type Body[I, O any] func(in *record.Batch[I], out *Output[O]) error

// Transform makes an operator of a body.
type Transform[I, O any] struct {
	Body Body[I, O]
	Last func() error // at the end of input; may be nil
	Quit func() error // at the very end; may be nil

	out   *Output[O]
	c     *Context
	view  record.Batch[I]
	ended bool
}

// ErrNoBody says that an operator has nothing to do with its records.
var ErrNoBody = errors.New("its handler has no function Record")

// Start puts the operator into its subtask. Its lists are those of the context.
func (t *Transform[I, O]) Start(c *Context, out *Output[O]) (Operator, error) {
	t.c, t.out = c, out
	t.ended = c.Restored != nil && c.Restored.Ended
	if t.Body == nil {
		return t, ErrNoBody
	}
	return t, c.sealLists()
}

// Receiver implements Operator.
func (t *Transform[I, O]) Receiver() any { return Receiver[I](t.receive) }

func (t *Transform[I, O]) receive(b *record.Batch[I]) {
	t.c.Records.Add(b.Len())
	outer := t.c.Chain.Enter(t.c)
	t.out.begin(len(b.Times) > 0)
	if err := t.Body(b, t.out); err != nil {
		t.c.Chain.Fail(t.c.Name, err)
	}
	t.out.end()
	t.c.Chain.Enter(outer)
}

// Slice implements Operator.
func (t *Transform[I, O]) Slice(batch any, from, to int) {
	t.receive(view(&t.view, batch.(*record.Batch[I]), from, to))
}

// Length implements Operator.
func (t *Transform[I, O]) Length(batch any) int { return len(batch.(*record.Batch[I]).Values) }

// End implements Operator.
func (t *Transform[I, O]) End() {
	if t.ended {
		return
	}
	t.ended = true
	if t.Last == nil {
		return
	}
	outer := t.c.Chain.Enter(t.c)
	t.out.begin(false)
	if err := t.Last(); err != nil {
		t.c.Chain.Fail(t.c.Name, err)
	}
	t.out.end()
	t.c.Chain.Enter(outer)
}

// Freeze implements Operator.
func (t *Transform[I, O]) Freeze(record.Barrier) (Part, error) {
	return &part{ended: t.ended, lists: t.c.Lists().Freeze()}, nil
}

// Completed implements Operator.
func (t *Transform[I, O]) Completed(uint64) {}

// Err implements Operator.
func (t *Transform[I, O]) Err() error {
	return t.c.Lists().Err()
}

// Close implements Operator.
func (t *Transform[I, O]) Close() error {
	if t.Quit == nil {
		return nil
	}
	return t.Quit()
}

// view makes to show some records of b.
func view[T any](to, b *record.Batch[T], from, upto int) *record.Batch[T] {
	to.Values = b.Values[from:upto:upto]
	to.Times, to.Hashes = nil, nil
	if len(b.Times) > 0 {
		to.Times = b.Times[from:upto]
	}
	if len(b.Hashes) > 0 {
		to.Hashes = b.Hashes[from:upto]
	}
	return to
}

// Map emits f of each record.
func Map[I, O any](f func(I) O) Body[I, O] {
	return func(in *record.Batch[I], out *Output[O]) error {
		from := in.Values
		b := out.Room(len(from))
		values := b.Values[:len(from)]
		for i := range from {
			values[i] = f(from[i])
		}
		b.Values, b.Times = values, append(b.Times, in.Times...)
		return nil
	}
}

// TryMap emits f of each record, and stops at its first error.
func TryMap[I, O any](f func(I) (O, error)) Body[I, O] {
	return func(in *record.Batch[I], out *Output[O]) error {
		b := out.Room(len(in.Values))
		for _, from := range in.Values {
			v, err := f(from)
			if err != nil {
				return err
			}
			b.Values = append(b.Values, v)
		}
		b.Times = append(b.Times, in.Times...)
		return nil
	}
}

// Filter emits the records that f says yes to.
func Filter[T any](f func(T) bool) Body[T, T] {
	return func(in *record.Batch[T], out *Output[T]) error {
		b := out.Room(len(in.Values))
		if len(in.Times) > 0 {
			for i := range in.Values {
				if f(in.Values[i]) {
					b.AddAt(in.Values[i], in.Times[i])
				}
			}
			return nil
		}
		values := b.Values[:len(in.Values)]
		n := 0
		for _, v := range in.Values {
			values[n] = v // stays there only if n goes on
			kept := 0
			if f(v) {
				kept = 1 // no branch: nobody could foresee it
			}
			n += kept
		}
		b.Values = values[:n]
		clear(values[n:min(n+1, len(values))])
		return nil
	}
}

// Each calls f with each record.
func Each[I, O any](f func(I, func(O)) error, out *Output[O]) Body[I, O] {
	emit := out.Emit
	return func(in *record.Batch[I], out *Output[O]) error {
		for i, v := range in.Values {
			if out.timed {
				out.at = in.Times[i]
			}
			if err := f(v, emit); err != nil {
				return err
			}
		}
		return nil
	}
}

// FlatMap emits what f says for each record.
func FlatMap[I, O any](f func(I) iter.Seq[O], out *Output[O]) Body[I, O] {
	emit := func(v O) bool { out.Emit(v); return true }
	return func(in *record.Batch[I], out *Output[O]) error {
		for i, v := range in.Values {
			if out.timed {
				out.at = in.Times[i]
			}
			f(v)(emit)
		}
		return nil
	}
}

// Do calls f with each record and emits nothing.
func Do[I any](f func(I) error) Body[I, struct{}] {
	return func(in *record.Batch[I], _ *Output[struct{}]) error {
		for _, v := range in.Values {
			if err := f(v); err != nil {
				return err
			}
		}
		return nil
	}
}

// Handle calls a handler's function with each record.
func Handle[I, O any](f func(I) error) Body[I, O] {
	return func(in *record.Batch[I], out *Output[O]) error {
		for i, v := range in.Values {
			if out.timed {
				out.at = in.Times[i]
			}
			if err := f(v); err != nil {
				return err
			}
		}
		return nil
	}
}
