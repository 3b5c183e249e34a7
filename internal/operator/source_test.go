package operator

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
)

// passing is a source whose records come once.
type passing struct{ erratic }

func (passing) Lossy() bool { return true }

// Records that a checkpoint holds already are left out when they are read again.
// Where they aren't, others would be left out in their place.
func TestNothingIsLeftOutOfWhatCanNotBeReadAgain(t *testing.T) {
	c, want := newContext(), []int{7, 8, 9}
	at := codecOf[span]().Append([]byte{2}, &span{7, 10}) // two records after the position
	c.Restored = &snapshot.State{Splits: [][]byte{at}}
	var got []int
	op, err := NewSource(c, passing{erratic{rand.New(rand.NewPCG(1, 2))}}, codecOf[span](), NewOutput[int](c, []any{Receiver[int](func(b *record.Batch[int]) {
		got = append(got, b.Values...)
	})}))
	if err != nil {
		t.Fatal(err)
	}
	src, in := op.(Source), exchange.NewInbox(1)
	src.Begin(Fetching{To: in.Sender(0, 4, src.Resume), Want: func() {}, Failed: func(err error, _ string) { t.Error(err) }})
	if err := src.Assign(nil, true); err != nil {
		t.Fatal(err)
	}
	for !t.Failed() {
		c.Executor.(*byHand).step()
		_, e, ok := in.Take()
		if ok && e.Kind == exchange.End {
			break
		}
		if ok {
			n := src.Length(e.Batch)
			src.Slice(e.Batch, 0, n)
			src.Consumed(e.Note, n, true)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	part, _ := src.Freeze(record.Barrier{})
	if s, _ := part.Write(context.Background(), nil); len(s.Splits) > 0 {
		t.Errorf("%d splits are left", len(s.Splits))
	}
}
