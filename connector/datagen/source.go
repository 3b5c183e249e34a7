// Package datagen makes up records, as many and as fast as one likes: record n
// is the same whenever, and wherever, it is made.
package datagen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// A Source makes the records 0, 1, 2, ... by a function. What a job has read of
// them is exact after a restart and at any parallelism, as with input that is
// stored somewhere.
//
// The records of a bounded source are made in up to 1024 ranges, one after the
// other, as many at a time as there are readers. Those of an endless one are
// divided into 128 strides that go on side by side: this is also the largest
// number of readers that get any.
type Source[T any] struct {
	// Make returns record n. It may draw from r, which is as if seeded by Seed and
	// n; it must depend on nothing else, and not keep r. It is called by several
	// goroutines at once.
	Make func(n int64, r *rand.Rand) T
	// Time, if not nil, returns the event time of record n.
	Time func(n int64, v T) time.Time
	// Count is how many records there are. 0 means that they never end.
	Count int64
	// Rate limits how many records all readers together make in a second. It is
	// divided evenly, so that a reader without work leaves its part unused. 0 means
	// no limit.
	Rate float64
	// Seed makes another stream of the same kind.
	Seed uint64
}

// A Split is the records Next, Next + Step, Next + 2 Step, ... below End.
type Split struct{ Next, End, Step int64 }

const (
	ranges  = 1024
	strides = 128
)

// Bounded implements connector.Bounded.
func (s Source[T]) Bounded() bool { return s.Count > 0 }

// Check implements connector.Checked.
func (s Source[T]) Check() error {
	var wrong []error
	if s.Make == nil {
		wrong = append(wrong, errors.New("it has no Make"))
	}
	if s.Count < 0 || s.Rate < 0 {
		wrong = append(wrong, fmt.Errorf("count %d and rate %v can't be negative", s.Count, s.Rate))
	}
	return errors.Join(wrong...)
}

// Enumerate implements connector.Source.
func (s Source[T]) Enumerate(_ context.Context, e connector.Enumeration[Split]) error {
	if s.Count == 0 {
		for i := range int64(strides) {
			e.Assign(Split{Next: i, End: math.MaxInt64, Step: strides})
		}
	}
	// As many ranges as there are records in each, if these are few.
	n := min(ranges, int64(math.Ceil(math.Sqrt(float64(s.Count)))))
	for i := range n {
		e.Assign(Split{Next: cut(s.Count, i, n), End: cut(s.Count, i+1, n), Step: 1})
	}
	return nil
}

// cut is where part i of n of count records begins.
func cut(count, i, n int64) int64 { return count/n*i + min(i, count%n) }

// Open implements connector.Source.
func (s Source[T]) Open(_ context.Context, r connector.Reading) (connector.Reader[T, Split], error) {
	d := &reader[T]{Source: s, start: mix(s.Seed + gamma)}
	d.random = rand.New(&d.bits)
	if s.Rate > 0 {
		d.pace = connector.NewPace(s.Rate / float64(r.Parallelism()))
	}
	return d, nil
}

type reader[T any] struct {
	Source[T]
	start  uint64 // of bits, for record 0
	bits   bits
	random *rand.Rand // of bits
	pace   *connector.Pace
}

// Read implements connector.Reader.
func (r *reader[T]) Read(ctx context.Context, at *Split, into *record.Batch[T]) error {
	room := cap(into.Values) - into.Len()
	if r.pace != nil {
		due, err := r.pace.Wait(ctx)
		if err != nil {
			return err
		}
		room = min(room, r.turn(at, due))
	}
	n := min(int64(max(room, 1)), (at.End-at.Next-1)/at.Step+1)
	r.make(at, n, into)
	if r.pace != nil {
		r.pace.Took(int(n))
	}
	if at.Next >= at.End {
		return io.EOF
	}
	return nil
}

// turn is how many of the records that are due come from one split. All strides
// have their turn within about a step of the pace, so that none is ahead of others.
func (r *reader[T]) turn(at *Split, due int) int {
	if at.Step == 1 {
		return due
	}
	return max(1, int(r.Rate/100/strides))
}

// make makes the next n records of a split.
func (r *reader[T]) make(at *Split, n int64, into *record.Batch[T]) {
	values, next := into.Values, at.Next
	for range n {
		r.bits.state = mix(r.start + uint64(next)*gamma)
		values = append(values, r.Make(next, r.random))
		next += at.Step
	}
	if r.Time != nil {
		for i, v := range values[len(into.Values):] {
			into.Times = append(into.Times, r.Time(at.Next+int64(i)*at.Step, v).UnixNano())
		}
	}
	into.Values, at.Next = values, next
}

// Close implements connector.Reader.
func (r *reader[T]) Close() error { return nil }

// bits is SplitMix64. Its state is all there is, so that it costs next to nothing
// to begin another sequence with each record.
type bits struct{ state uint64 }

const gamma = 0x9e3779b97f4a7c15

// Uint64 implements rand.Source.
func (b *bits) Uint64() uint64 {
	b.state += gamma
	return mix(b.state)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

var _ connector.Source[int, Split] = Source[int]{}
var _ connector.Bounded = Source[int]{}
