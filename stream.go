package weir

import (
	"fmt"
	"iter"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// recordType finds the codec of an operator's records, and notes a mistake where
// there can't be any.
func recordType[T any](j *Job, verb, uid string) record.Type {
	c, err := codec.For[T]()
	if err != nil {
		j.mistake(verb, uid, fmt.Errorf("its records can't travel: %w", err))
		return nil
	}
	return record.TypeOf(c)
}

// transform adds an operator without a key whose body is made by open.
func transform[I, O any](in Stream[I], verb, uid string, opts []Option, open func(c *operator.Context, out *operator.Output[O]) *operator.Transform[I, O]) Stream[O] {
	j := in.job
	spec := operator.Spec{
		Out: recordType[O](j, verb, uid),
		Open: func(c *operator.Context, next []any) (operator.Operator, error) {
			if err := c.Lists().Err(); err != nil {
				return nil, err
			}
			out := operator.NewOutput[O](c, next)
			return open(c, out).Start(c, out)
		},
	}
	return stream[O](j, j.add(verb, graph.Node{UID: uid}, node{spec: spec}, in.from, opts))
}

// body adds an operator that has nothing but a body.
func body[I, O any](in Stream[I], verb, uid string, opts []Option, b operator.Body[I, O]) Stream[O] {
	return transform(in, verb, uid, opts, func(*operator.Context, *operator.Output[O]) *operator.Transform[I, O] {
		return &operator.Transform[I, O]{Body: b}
	})
}

// Map emits f of each record.
func Map[I, O any](in Stream[I], uid string, f func(I) O, opts ...Option) Stream[O] {
	in.job.given("map", uid, "function", f != nil)
	return body(in, "map", uid, opts, operator.Map(f))
}

// TryMap emits f of each record. An error fails the job, which is then restarted
// as its settings say.
func TryMap[I, O any](in Stream[I], uid string, f func(I) (O, error), opts ...Option) Stream[O] {
	in.job.given("try map", uid, "function", f != nil)
	return body(in, "try map", uid, opts, operator.TryMap(f))
}

// Filter emits the records for which keep returns true.
func Filter[T any](in Stream[T], uid string, keep func(T) bool, opts ...Option) Stream[T] {
	in.job.given("filter", uid, "function", keep != nil)
	return body(in, "filter", uid, opts, operator.Filter(keep))
}

// Each calls f with each record; f emits what it likes, until it returns.
func Each[I, O any](in Stream[I], uid string, f func(record I, emit func(O)) error, opts ...Option) Stream[O] {
	in.job.given("each", uid, "function", f != nil)
	return transform(in, "each", uid, opts, func(_ *operator.Context, out *operator.Output[O]) *operator.Transform[I, O] {
		return &operator.Transform[I, O]{Body: operator.Each(f, out)}
	})
}

// FlatMap emits all that f returns for each record.
func FlatMap[I, O any](in Stream[I], uid string, f func(I) iter.Seq[O], opts ...Option) Stream[O] {
	in.job.given("flat map", uid, "function", f != nil)
	return transform(in, "flat map", uid, opts, func(_ *operator.Context, out *operator.Output[O]) *operator.Transform[I, O] {
		return &operator.Transform[I, O]{Body: operator.FlatMap(f, out)}
	})
}

// Do calls f with each record.
func Do[T any](in Stream[T], uid string, f func(T) error, opts ...Option) {
	in.job.given("do", uid, "function", f != nil)
	body(in, "do", uid, opts, operator.Do(f))
}

// A Handler is the functions of an operator at work in one subtask. Each may be
// nil, but for Record. They are called one at a time.
type Handler[I any] struct {
	// Record is called with each record. An error fails the job.
	Record func(I) error
	// End is called once, when the input has ended; it may still emit. It has no
	// key. After a restart from a checkpoint that was taken behind the end it isn't
	// called again.
	End func() error
	// Close is called last, however the subtask ended.
	Close func() error
}

// Out is an operator without a key at work in one subtask: what it emits goes
// through it. It belongs to the goroutine that calls the handler.
type Out[O any] struct {
	out *operator.Output[O]
	c   *operator.Context
}

// Emit passes a record on.
func (o *Out[O]) Emit(v O) { o.out.Emit(v) }

// Subtask is the number of the subtask, from 0 on, of Parallelism.
func (o *Out[O]) Subtask() int { return o.c.Index }

// Parallelism is how many subtasks the operator has.
func (o *Out[O]) Parallelism() int { return o.c.Degree }

// Restored says whether the operator was part of the checkpoint that the job, or
// this attempt to run it, goes on from. It is false in all subtasks or in none:
// one that got no share of what was saved has empty state, and this is true.
func (o *Out[O]) Restored() bool { return o.c.Restored != nil }

// RestoredCheckpoint is the number of the checkpoint that the job, or this attempt
// to run it, goes on from; 0 if it began at the beginning. An operator that is new
// in the job is told, too.
func (o *Out[O]) RestoredCheckpoint() uint64 { return o.c.Checkpoint }

// Lists is where state.NewSplit and its like keep the operator's state.
func (o *Out[O]) Lists() *state.Lists { return o.c.Lists() }

// Operate runs an operator without a key. The constructor is called once per
// subtask; it declares the operator's state and returns its functions.
func Operate[I, O any](in Stream[I], uid string, construct func(op *Out[O]) Handler[I], opts ...Option) Stream[O] {
	in.job.given("operate", uid, "constructor", construct != nil)
	return withSides(transform(in, "operate", uid, opts, func(c *operator.Context, out *operator.Output[O]) *operator.Transform[I, O] {
		t := &operator.Transform[I, O]{}
		h := construct(&Out[O]{out: out, c: c})
		if t.Last, t.Quit = h.End, h.Close; h.Record != nil {
			t.Body = operator.Handle[I, O](h.Record)
		}
		return t
	}))
}

// Union is a view of several streams as one, in no particular order.
func Union[T any](first Stream[T], others ...Stream[T]) Stream[T] {
	all := Stream[T]{job: first.job, from: append([]origin(nil), first.from...)}
	for _, o := range others {
		if o.job != first.job {
			first.job.mistake("union", "", errNoStream)
			continue
		}
		all.from = append(all.from, o.from...)
	}
	return all
}

// Forward is a view of a stream whose records go to the subtask of the next
// operator that has the number of their own. It is how streams flow anyway
// between operators of equal parallelism; others are refused.
func Forward[T any](in Stream[T]) Stream[T] {
	return through(in, graph.Forward, operator.Forward[T]())
}

// Rebalance is a view of a stream whose records go to the next operator's
// subtasks in turn.
func Rebalance[T any](in Stream[T]) Stream[T] {
	return through(in, graph.Rebalance, operator.Rebalance[T]())
}

// Rescale is a view of a stream whose records go in turn to a few of the next
// operator's subtasks, those near to their own: 2 subtasks share 4 as 2 and 2,
// and 4 feed 2 in pairs. Between machines fewer records travel than with
// Rebalance, and the load is as uneven as it is.
func Rescale[T any](in Stream[T]) Stream[T] {
	return through(in, graph.Rescale, operator.Rebalance[T]()) // in turn, to those it has channels to
}

// Shuffle is a view of a stream whose records go to the next operator's subtasks
// at random.
func Shuffle[T any](in Stream[T]) Stream[T] {
	return through(in, graph.Shuffle, operator.Shuffle[T]())
}

// Global is a view of a stream whose records all go to subtask 0 of the next
// operator.
func Global[T any](in Stream[T]) Stream[T] {
	return through(in, graph.Global, operator.Forward[T]())
}

// Replicate is a view of a stream whose records go to every subtask of the next
// operator, as with Flink's broadcast. The subtasks share what a record refers to
// (slices, maps, pointers), and so must not change it.
func Replicate[T any](in Stream[T]) Stream[T] {
	return through(in, graph.Broadcast, operator.Broadcast[T]())
}

// PartitionBy is a view of a stream whose records go to the subtask of the next
// operator that a function chooses, from 0 to subtasks-1. Any other number fails
// the job. The function is called by all subtasks of the operators that the
// stream comes from, at the same time.
func PartitionBy[T any](in Stream[T], choose func(record T, subtasks int) int) Stream[T] {
	in.job.given("partition by", "", "function", choose != nil)
	return through(in, graph.Custom, operator.Custom(choose))
}
