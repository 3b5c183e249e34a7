package weir

import (
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/keygroup"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/heap"
)

// KeyedStream is a stream looked at by key: all records of a key go to the same
// subtask of the next operator, in their order.
type KeyedStream[K comparable, T any] struct {
	Stream[T]
	key   func(T) K
	codec codec.Key[K]
}

// KeyBy is a view of a stream by key. The key of a record must depend on the
// record alone. Types whose equality isn't that of their bytes (floats,
// time.Time, interfaces, pointers) can't be keys, nor be in them.
func KeyBy[K comparable, T any](in Stream[T], key func(T) K) KeyedStream[K, T] {
	in.job.given("key by", "", "function", key != nil)
	c, err := codec.KeyFor[K]()
	if err != nil {
		in.job.mistake("key by", "", err)
		return KeyedStream[K, T]{Stream: in, key: key}
	}
	return KeyedStream[K, T]{through(in, graph.Hash, operator.Hash(key, c)), key, c}
}

// Op is a keyed operator at work in one subtask: the key at hand, and where what
// it emits goes. It belongs to the goroutine that calls the handler.
type Op[K comparable, O any] struct {
	Out[O]
	keys *state.Keyspace[K]
}

// Key returns the key of the record being processed.
func (o *Op[K, O]) Key() K { return o.keys.Key() }

// Time returns the time of the record being processed, the zero time where event
// time isn't in use.
func (o *Op[K, O]) Time() time.Time {
	if at := o.out.Time(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Keyspace is where state.NewValue and its like keep the operator's state.
func (o *Op[K, O]) Keyspace() *state.Keyspace[K] { return o.keys }

// keyed adds a keyed operator whose body is made by open.
func keyed[K comparable, I, O any](in KeyedStream[K, I], verb, uid string, opts []Option, open func(*Op[K, O], *operator.Transform[I, O])) Stream[O] {
	j := in.job
	spec := operator.Spec{
		Out: recordType[O](j, verb, uid),
		Open: func(c *operator.Context, next []any) (operator.Operator, error) {
			if err := c.Lists().Err(); err != nil {
				return nil, err
			}
			first, last := keygroup.Range(c.Index, c.Degree, c.MaxParallelism)
			out := operator.NewOutput[O](c, next)
			store, err := c.Backend.Open(c)
			if err != nil {
				return nil, err
			}
			k := &operator.Keyed[K, I, O]{Keys: state.NewKeyspace(in.codec, c.MaxParallelism, first, last, store)}
			open(&Op[K, O]{Out[O]{out, c}, k.Keys}, &k.Transform)
			return k.Start(c, out)
		},
	}
	return stream[O](j, j.add(verb, graph.Node{UID: uid, Keyed: true}, node{spec: spec}, in.from, opts))
}

// Process runs a keyed operator. The constructor is called once per subtask; it
// declares the operator's state and returns its functions.
func Process[K comparable, I, O any](in KeyedStream[K, I], uid string, construct func(op *Op[K, O]) Handler[I], opts ...Option) Stream[O] {
	in.job.given("process", uid, "constructor", construct != nil)
	return withSides(keyed(in, "process", uid, opts, func(op *Op[K, O], t *operator.Transform[I, O]) {
		h := construct(op)
		if t.Last, t.Quit = h.End, h.Close; h.Record == nil {
			return
		}
		t.Body = func(b *record.Batch[I], out *operator.Output[O]) error {
			for i := range b.Values {
				if len(b.Times) > 0 {
					out.At(b.Times[i])
				}
				op.keys.Set(in.key(b.Values[i]), b.Hashes[i])
				if err := h.Record(b.Values[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}))
}

// Pair is a key and what belongs to it.
type Pair[K, V any] struct {
	Key   K
	Value V
}

// Count emits, for each record, its key and how many records that key has had.
func Count[K comparable, T any](in KeyedStream[K, T], uid string, opts ...Option) Stream[Pair[K, int64]] {
	return fold(in, "count", uid, opts, func(run folded[K, int64], _ []T) {
		for i, to := range run.values {
			*to++
			run.out[i] = Pair[K, int64]{run.keys[i], *to}
		}
	})
}

// Reduce emits, for each record, its key and f of all records that the key has
// had, from left to right; the first one is taken as it is.
func Reduce[K comparable, T any](in KeyedStream[K, T], uid string, f func(T, T) T, opts ...Option) Stream[Pair[K, T]] {
	in.job.given("reduce", uid, "function", f != nil)
	return fold(in, "reduce", uid, opts, func(run folded[K, T], records []T) {
		n := len(run.values)
		keys, out, records := run.keys[:n], run.out[:n], records[:n] // so that the loop needs no checks
		for i, to := range run.values {
			v := records[i]
			if run.fresh>>i&1 == 0 {
				v = f(*to, v)
			}
			*to = v
			out[i] = Pair[K, T]{keys[i], v}
		}
	})
}

// Fold emits, for each record, its key and what f makes of that key's value and
// the record. A key's value begins as the zero V.
func Fold[K comparable, T, V any](in KeyedStream[K, T], uid string, f func(V, T) V, opts ...Option) Stream[Pair[K, V]] {
	in.job.given("fold", uid, "function", f != nil)
	return fold(in, "fold", uid, opts, func(run folded[K, V], records []T) {
		n := len(run.values)
		keys, out, records := run.keys[:n], run.out[:n], records[:n] // so that the loop needs no checks
		for i, to := range run.values {
			v := f(*to, records[i])
			*to = v
			out[i] = Pair[K, V]{keys[i], v}
		}
	})
}

// folded is what a fold changes for a few records: their keys, the values of these
// (one key's may be there several times), a bit for each that says whether it is
// new, and room for what is emitted after each change.
type folded[K, V any] struct {
	keys   []K
	values []*V
	fresh  uint64
	out    []Pair[K, V]
}

// fold keeps one value per key and emits it after each change. It works on the
// state's table itself.
func fold[K comparable, T, V any](in KeyedStream[K, T], verb, uid string, opts []Option, change func(run folded[K, V], records []T)) Stream[Pair[K, V]] {
	return keyed(in, verb, uid, opts, func(op *Op[K, Pair[K, V]], t *operator.Transform[T, Pair[K, V]]) {
		table := state.NewTable[V](op, "value")
		var keys [state.Together]K
		var values [state.Together]*V
		t.Body = func(b *record.Batch[T], out *operator.Output[Pair[K, V]]) error {
			to := out.Room(len(b.Values))
			emitted := to.Values[:len(b.Values)]
			table.Ahead(b.Hashes)
			for from := 0; from < len(b.Values); from += state.Together {
				table.Ahead(b.Hashes[min(from+state.Together, len(b.Hashes)):])
				records := b.Values[from:min(from+state.Together, len(b.Values))]
				n := len(records)
				hashes := b.Hashes[from : from+n]
				if !codec.Unhash(in.codec, hashes, keys[:n]) {
					operator.Keys(in.key, records, keys[:n])
				}
				fresh := table.Refs(keys[:n], hashes, values[:n])
				change(folded[K, V]{keys[:n], values[:n], fresh, emitted[from : from+n]}, records)
			}
			to.Values, to.Times = emitted, append(to.Times, b.Times...)
			return nil
		}
	})
}

// backend is where a job keeps state if it doesn't say.
func (j *Job) backend() state.Backend {
	if j.State != nil {
		return j.State
	}
	return heap.Backend{}
}
