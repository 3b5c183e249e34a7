package main

import (
	"context"
	"io"
	"math/bits"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// An event is what the measured jobs process.
type event struct {
	Key   uint64
	Value int64
}

// generator makes the record of a number, the same each time. Its keys are
// uniform below a bound, and a key's records are all alike, so that its sums are
// the same in whatever order they come.
func generator(keys uint64) func(n uint64) event {
	return func(n uint64) event {
		n *= 0x9e3779b97f4a7c15
		n = (n ^ n>>32) * 0xbf58476d1ce4e5b9
		key, _ := bits.Mul64(n, keys)
		return event{key, int64(key&7) + 1}
	}
}

// A tally is what a sink keeps of everything that it gets. It fills a cache line,
// so that tallies of two goroutines don't share one.
type tally struct {
	check uint64
	_     [56]byte
}

// add takes in one result. The order doesn't matter.
func (t *tally) add(key uint64, value int64) {
	t.check += key ^ uint64(value)<<20
}

// numbers is the source of n records, made one by one from their numbers.
type numbers struct {
	n    uint64
	make func(n uint64) event
}

// stretch is a split: the records from Next to End, without End.
type stretch struct{ Next, End uint64 }

// stretches is the number of splits for each reader: enough for a fair share.
const stretches = 16

func (s numbers) Bounded() bool { return true }

func (s numbers) Enumerate(_ context.Context, e connector.Enumeration[stretch]) error {
	parts := uint64(stretches * e.Parallelism())
	for i := range parts {
		e.Assign(stretch{i * s.n / parts, (i + 1) * s.n / parts})
	}
	return nil
}

func (s numbers) Open(context.Context, connector.Reading) (connector.Reader[event, stretch], error) {
	return s, nil
}

func (s numbers) Read(_ context.Context, at *stretch, into *record.Batch[event]) error {
	full := len(into.Values)
	n := min(cap(into.Values)-full, int(at.End-at.Next))
	into.Values = into.Values[:full+n]
	events, next := into.Values[full:], at.Next
	for i := range events {
		events[i] = s.make(next + uint64(i))
	}
	at.Next += uint64(n)
	if at.Next == at.End {
		return io.EOF
	}
	return nil
}

func (s numbers) Close() error { return nil }
