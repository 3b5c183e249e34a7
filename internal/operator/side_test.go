package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/record"
)

// lanes are senders that nobody reads from.
func lanes(n int) (to []exchange.Sender) {
	in := exchange.NewInbox(n)
	for i := range n {
		to = append(to, in.Sender(i, 4, func() {}))
	}
	return to
}

// spell returns an operator that emits even numbers, tells odd ones to one side
// and in words to two readers of another, and says at the end what it has had.
func spell(t *testing.T, c *Context, next ...any) Operator {
	t.Helper()
	out := NewOutput[int](c, next)
	odd, words, nobody := EmitTo[int](out.Sides(), "odd"), EmitTo[string](out.Sides(), "words"), EmitTo[int](out.Sides(), "nobody")
	n := 0
	return start(t, c, &Transform[int, int]{
		Body: Handle[int, int](func(v int) error {
			if n++; v%2 == 0 {
				out.Emit(v)
				return nil
			}
			nobody(v)
			odd(v)
			EmitTo[string](out.Sides(), "words")(fmt.Sprint(v))
			return nil
		}),
		Last: func() error { words(fmt.Sprint("had ", n)); return nil },
	}, out)
}

func TestSideOutputsHaveTheirReadersInOrderAndTime(t *testing.T) {
	for _, timed := range []bool{false, true} {
		var even, odd []int
		var one, two []string
		var times []int64
		op := spell(t, newContext(), To("", collect(&even)), To("words", collect(&one)), To("odd", collect(&odd)),
			To("words", Receiver[string](func(b *record.Batch[string]) {
				two, times = append(two, b.Values...), append(times, b.Times...)
			})))
		in := batchOf(0, 6000)
		var wantEven, wantOdd []int
		var want []string
		var wantTimes []int64
		for v := range 6000 {
			if timed {
				in.Times = append(in.Times, int64(v)+1)
			}
			if v%2 == 0 {
				wantEven = append(wantEven, v)
				continue
			}
			wantOdd, want = append(wantOdd, v), append(want, fmt.Sprint(v))
			if timed {
				wantTimes = append(wantTimes, int64(v)+1)
			}
		}
		for from := 0; from < 6000; from += 2500 {
			to := min(6000, from+2500)
			if op.Slice(in, from, to); len(one) != to/2 {
				t.Errorf("after %d records %d are through the chain", to, len(one))
			}
		}
		op.End()
		want = append(want, "had 6000")
		if !slices.Equal(even, wantEven) || !slices.Equal(odd, wantOdd) || !slices.Equal(one, want) || !slices.Equal(two, want) {
			t.Errorf("timed %v: %d even, %d odd, %d and %d words", timed, len(even), len(odd), len(one), len(two))
		}
		if !slices.Equal(times, wantTimes) {
			t.Errorf("timed %v: %d times, want %d", timed, len(times), len(wantTimes))
		}
	}
}

// A side output that is first asked for in the middle of a slice is there at once.
func TestSideOutputMayBeAskedForLate(t *testing.T) {
	c := newContext()
	var got []int
	var times []int64
	out := NewOutput[int](c, []any{To("late", Receiver[int](func(b *record.Batch[int]) {
		got, times = append(got, b.Values...), append(times, b.Times...)
	}))})
	op := start(t, c, &Transform[int, int]{Body: Handle[int, int](func(v int) error {
		EmitTo[int](out.Sides(), "late")(v)
		return nil
	})}, out)
	in := &record.Batch[int]{}
	in.AddAt(7, 70)
	in.AddAt(8, 80)
	op.Slice(in, 0, 2)
	if !slices.Equal(got, []int{7, 8}) || !slices.Equal(times, []int64{70, 80}) {
		t.Errorf("got %v at %v", got, times)
	}
}

// S08 holds for side outputs, too.
func TestEmitToASideOutsideOfFunctionsIsRefused(t *testing.T) {
	out := NewOutput[int](newContext(), nil)
	emit := EmitTo[string](out.Sides(), "words")
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "emit outside of a handler's functions") {
			t.Error(said)
		}
	}()
	emit("now")
}

func TestErrorKeepsSideOutputsBack(t *testing.T) {
	c := newContext()
	var odd []int
	op := spell(t, c, To("odd", collect(&odd)))
	c.Chain.Fail("another", fmt.Errorf("broken"))
	if op.Slice(batchOf(0, 10), 0, 10); len(odd) > 0 {
		t.Errorf("emitted %v", odd)
	}
}

func TestTagsOfOneNameAndTwoTypesFailTheOperator(t *testing.T) {
	var got []string
	for name, emit := range map[string]func(s *Sides){
		"another reader":  func(s *Sides) { EmitTo[int](s, "words")(1) },
		"another emitter": func(s *Sides) { EmitTo[string](s, "words"); EmitTo[int](s, "words")(1) },
	} {
		c := newContext()
		emit(NewOutput[int](c, []any{To("words", collect(&got))}).Sides())
		if err := c.Chain.Err(); err == nil || !strings.Contains(err.Error(), `operator "op": side output "words": it emits records of type int`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
