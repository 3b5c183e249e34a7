package operator

import (
	"slices"
	"strings"
	"testing"
)

// Global is a forward over many channels: the first has everything.
func TestForwardOverManyChannelsUsesTheFirst(t *testing.T) {
	values := batchOf(0, 5000).Values
	got, _ := spread(Forward[int](), 3, 128, values)
	if !slices.Equal(got[0], values) || len(got[1])+len(got[2]) > 0 {
		t.Errorf("%d, %d and %d of %d records", len(got[0]), len(got[1]), len(got[2]), len(values))
	}
}

func TestBroadcastSendsEverythingEverywhereInOrder(t *testing.T) {
	values := batchOf(0, 5000).Values
	for _, p := range []int{1, 3} {
		got, _ := spread(Broadcast[int](), p, 128, values)
		for subtask, vs := range got {
			if !slices.Equal(vs, values) {
				t.Errorf("subtask %d of %d has %d of %d records, or not in order", subtask, p, len(vs), len(values))
			}
		}
	}
}

func TestCustomAsksForEachRecord(t *testing.T) {
	values := batchOf(0, 5000).Values
	for _, p := range []int{1, 4} {
		asked := 0
		edge := Custom(func(v, subtasks int) int {
			if asked++; subtasks != p {
				t.Errorf("%d subtasks, want %d", subtasks, p)
			}
			return v / 7 % p
		})
		got, _ := spread(edge, p, 128, values)
		for subtask, vs := range got {
			if !slices.IsSorted(vs) {
				t.Errorf("channel %d isn't in order", subtask)
			}
			for _, v := range vs {
				if v/7%p != subtask {
					t.Fatalf("%d went to %d of %d", v, subtask, p)
				}
			}
		}
		if asked != len(values) {
			t.Errorf("asked %d times for %d records", asked, len(values))
		}
	}
}

// A function that chooses a subtask that isn't there fails the operator that
// emitted the record, and says for which one it chose.
func TestCustomOutOfRangeNamesBothOperators(t *testing.T) {
	for _, wrong := range []int{-1, 2} {
		chain := &Chain{}
		chain.Enter(&Context{Name: "orders"})
		edge := Custom(func(v, _ int) int {
			if v == 5 {
				return wrong
			}
			return 0
		})
		router := edge.Route(Routing{Senders: lanes(2), To: "bills", Chain: chain})
		router.Receiver().(Receiver[int])(batchOf(0, 10))
		err := chain.Err()
		if err == nil {
			t.Fatalf("%d passes", wrong)
		}
		for _, part := range []string{`operator "orders"`, `partition to "bills"`, "there are 0 to 1"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q lacks %q", err, part)
			}
		}
	}
}
