package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/record"
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

// A record's time and its key's hash go where it goes, whatever the length of the
// batches, also where some have times and some haven't, and while batches come back.
// None is longer than was asked for.
func TestTimesAndHashesStayWithTheirRecords(t *testing.T) {
	keys, err := codec.KeyFor[int]()
	if err != nil {
		t.Fatal(err)
	}
	key := func(v int) int { return v % 1000 }
	for name, edge := range map[string]Edge{
		"hash": Hash(key, keys), "rebalance": Rebalance[int](), "shuffle": Shuffle[int](), "forward": Forward[int](),
		"broadcast": Broadcast[int](), "custom": Custom(func(v, n int) int { return v / 7 % n }),
	} {
		for _, channels := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s to %d", name, channels), func(t *testing.T) {
				in := exchange.NewInbox(channels)
				r := Routing{MaxParallelism: 128, Chain: &Chain{}, BatchSize: 300}
				for i := range channels {
					r.Senders = append(r.Senders, in.Sender(i, 4, func() {}))
				}
				copies := map[int]int{}
				take := func() {
					for _, e, ok := in.Take(); ok; _, e, ok = in.Take() {
						b := e.Batch.(*record.Batch[int])
						if b.Len() > 300 {
							t.Fatalf("a batch of %d", b.Len())
						}
						for i, v := range b.Values {
							copies[v]++
							k := key(v)
							if name == "hash" && b.Hashes[i] != keys.Hash(&k) {
								t.Fatalf("record %d has the hash %x, want %x", v, b.Hashes[i], keys.Hash(&k))
							}
							if timed := v%2 == 1; timed != (len(b.Times) == b.Len()) || timed && b.Times[i] != int64(3*v) {
								t.Fatalf("record %d in a batch of %d with times %v", v, b.Len(), b.Times)
							}
						}
					}
				}
				each := 1
				if name == "broadcast" {
					each = channels
				}
				checkRouted(t, edge.Route(r), take, copies, each)
			})
		}
	}
}

// checkRouted has a router spread batches, odd records in those with times, while take
// counts what comes of them: each record as often as each says.
func checkRouted(t *testing.T, r Router, take func(), copies map[int]int, each int) {
	t.Helper()
	lengths := []int{0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000}
	total := 0
	for n := range 5 * len(lengths) {
		b := &record.Batch[int]{}
		for range lengths[n%len(lengths)] {
			if n%5 < 3 {
				b.Add(2 * total)
			} else {
				b.AddAt(2*total+1, int64(3*(2*total+1)))
			}
			total++
		}
		r.Receiver().(Receiver[int])(b)
		if n%2 == 0 {
			take()
		}
	}
	r.Flush()
	take()
	for v, n := range copies {
		if n != each {
			t.Errorf("record %d came %d times, want %d", v, n, each)
		}
	}
	if len(copies) != total {
		t.Errorf("%d records of %d", len(copies), total)
	}
}
