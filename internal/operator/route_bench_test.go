package operator

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/record"
)

type sample struct {
	Key   uint64
	Value int64
}

// BenchmarkRouter shows what a record costs on its way into the channels; ns/op
// is per record.
func BenchmarkRouter(b *testing.B) {
	keys, err := codec.KeyFor[uint64]()
	if err != nil {
		b.Fatal(err)
	}
	edges := []struct {
		name string
		edge Edge
	}{
		{"hash", Hash(func(s sample) uint64 { return s.Key }, keys)},
		{"rebalance", Rebalance[sample]()},
	}
	for _, e := range edges {
		for _, channels := range []int{1, 2, 8} {
			b.Run(fmt.Sprintf("%s/%d", e.name, channels), func(b *testing.B) {
				in := exchange.NewInbox(channels)
				r := Routing{MaxParallelism: 128}
				for i := range channels {
					r.Senders = append(r.Senders, in.Sender(i, 4, func() {}))
				}
				receive := e.edge.Route(r).Receiver().(Receiver[sample])
				batch := &record.Batch[sample]{}
				for i := range BatchSize {
					batch.Add(sample{uint64(i) * 0x9E3779B97F4A7C15, 1})
				}
				b.ReportAllocs()
				for b.Loop() {
					receive(batch)
					for _, _, ok := in.Take(); ok; _, _, ok = in.Take() {
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/BatchSize, "ns/record")
			})
		}
	}
}

// BenchmarkEmit is an operator that emits each record as it is.
func BenchmarkEmit(b *testing.B) {
	c := newContext()
	out := NewOutput[sample](c, []any{Receiver[sample](func(*record.Batch[sample]) {})})
	op, err := (&Transform[sample, sample]{Body: Handle[sample, sample](func(s sample) error { out.Emit(s); return nil })}).Start(c, out)
	if err != nil {
		b.Fatal(err)
	}
	batch := &record.Batch[sample]{Values: make([]sample, BatchSize)}
	b.ReportAllocs()
	for b.Loop() {
		op.Slice(batch, 0, BatchSize)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/BatchSize, "ns/record")
}
