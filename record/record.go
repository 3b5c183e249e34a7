// Package record is what travels through a job: batches of typed records, and
// the barriers between them.
package record

import "reflect"

// A Batch is a run of records of one type, in order. It belongs to whoever
// holds it: who hands it on doesn't touch it again.
type Batch[T any] struct {
	Values []T
	// Times holds the event time of each value in nanoseconds since 1970, or is
	// empty where event time isn't in use.
	Times []int64
	// Hashes holds the hash of each value's key on the way into a keyed
	// operator, and is empty elsewhere.
	Hashes      []uint64
	asked, flat bool // whether values hold no reference, and whether that is known
}

// Add appends a record without a time.
func (b *Batch[T]) Add(v T) { b.Values = append(b.Values, v) }

// AddAt appends a record with its time, in nanoseconds since 1970. A batch has
// times for all of its records or for none.
func (b *Batch[T]) AddAt(v T, at int64) {
	b.Values = append(b.Values, v)
	b.Times = append(b.Times, at)
}

// Len is the number of records.
func (b *Batch[T]) Len() int { return len(b.Values) }

// Reset empties the batch and keeps its memory; references in it are dropped.
func (b *Batch[T]) Reset() {
	if b.refers() {
		clear(b.Values)
	}
	b.Values, b.Times, b.Hashes = b.Values[:0], b.Times[:0], b.Hashes[:0]
}

// refers reports whether values hold references. To clear those that don't would
// cost more than many an operator.
func (b *Batch[T]) refers() bool {
	if !b.asked {
		b.asked, b.flat = true, flat(reflect.TypeFor[T]())
	}
	return !b.flat
}

func flat(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return k >= reflect.Bool && k <= reflect.Complex128
	}
}

// A Barrier separates the records that belong to a checkpoint from those that
// come after it.
type Barrier struct {
	Checkpoint uint64
	Savepoint  bool
	// Drained says that the input was ended from outside. What has ended because of
	// that is in the snapshot as if it hadn't: a job that starts from it goes on.
	Drained bool
	// At is when the coordinator began the checkpoint, in nanoseconds since 1970.
	At int64
	// Target is the URI of the directory that the checkpoint's files go to; empty:
	// they stay in memory.
	Target string
}
