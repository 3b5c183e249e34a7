package weir

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// A parcel says which subtask sent it, and as its how-manieth.
type parcel struct{ From, N int }

// letter is a parcel on the side.
type letter struct{ P parcel }

// A post office is where each subtask of a receiving operator leaves what it got.
type postOffice struct {
	mu      sync.Mutex // guards what is below
	senders int
	got     []*[]parcel // by receiving subtask, in any order
}

func (o *postOffice) counter() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.senders++
	return o.senders - 1
}

func (o *postOffice) box() *[]parcel {
	o.mu.Lock()
	defer o.mu.Unlock()
	box := new([]parcel)
	o.got = append(o.got, box)
	return box
}

// deliver runs a job in which each of the senders sends each, on its main and on
// its side output, to the receivers, spread by views.
func deliver(t *testing.T, senders, receivers, each int, encode bool, opts []Option,
	main func(Stream[parcel]) Stream[parcel], side func(Stream[letter]) Stream[letter]) (mains, sides *postOffice) {
	t.Helper()
	var from postOffice
	mains, sides = new(postOffice), new(postOffice)
	letters := NewTag[letter]("letters")
	r, _ := launch(t, context.Background(), func(job *Job) error {
		n := 0
		evenly := func(_, subtasks int) int { n++; return n % subtasks } // asked by one subtask
		in := FromSlice(job, "in", make([]int, senders*each), Parallelism(1))
		sent := Operate(PartitionBy(in, evenly), "send", func(op *Out[parcel]) Handler[int] {
			write, p := letters.Of(op), parcel{From: from.counter()}
			return Handler[int]{Record: func(int) error {
				op.Emit(p)
				write(letter{p})
				p.N++
				return nil
			}}
		}, Parallelism(senders))
		receive := append([]Option{Parallelism(receivers)}, opts...)
		Operate(main(sent), "receive", func(*Out[int]) Handler[parcel] {
			box := mains.box()
			return Handler[parcel]{Record: func(p parcel) error { *box = append(*box, p); return nil }}
		}, receive...)
		Operate(side(Side(sent, letters)), "read", func(*Out[int]) Handler[letter] {
			box := sides.box()
			return Handler[letter]{Record: func(l letter) error { *box = append(*box, l.P); return nil }}
		}, receive...)
		return nil
	}, func(env *environment) { env.encode = encode })
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	return mains, sides
}

// sendersOf returns how many each sender has sent to one box, and checks that they
// came in the order in which they were sent.
func sendersOf(t *testing.T, box []parcel) map[int]int {
	t.Helper()
	count, last := map[int]int{}, map[int]int{}
	for _, p := range box {
		if before, any := last[p.From]; any && p.N <= before {
			t.Fatalf("number %d of sender %d comes after number %d", p.N, p.From, before)
		}
		count[p.From]++
		last[p.From] = p.N
	}
	return count
}

// TestRecordsGoWhereViewsSayInOrder runs every view over main and side outputs,
// chained and not, encoded and not, between few and many subtasks.
func TestRecordsGoWhereViewsSayInOrder(t *testing.T) {
	const each = 3000
	type sizes struct{ senders, receivers int }
	everywhere := []sizes{{1, 1}, {1, 3}, {3, 1}, {2, 3}, {4, 2}}
	for _, view := range []struct {
		name  string
		main  func(Stream[parcel]) Stream[parcel]
		side  func(Stream[letter]) Stream[letter]
		sizes []sizes
		// check looks at what one receiver has: how many records of each sender.
		check func(s sizes, receiver int, from map[int]int) error
	}{
		{"plain", asItIs[parcel], asItIs[letter], everywhere, nil},
		{"forward", Forward[parcel], Forward[letter], []sizes{{1, 1}, {3, 3}}, func(_ sizes, _ int, from map[int]int) error {
			return wantFrom(from, 1, each)
		}},
		{"rebalance", Rebalance[parcel], Rebalance[letter], everywhere, func(s sizes, _ int, from map[int]int) error {
			return wantFrom(from, s.senders, each/s.receivers)
		}},
		{"rescale", Rescale[parcel], Rescale[letter], []sizes{{1, 1}, {3, 3}, {2, 4}, {4, 2}}, func(s sizes, _ int, from map[int]int) error {
			return wantFrom(from, max(1, s.senders/s.receivers), each/max(1, s.receivers/s.senders))
		}},
		{"shuffle", Shuffle[parcel], Shuffle[letter], everywhere, nil},
		{"replicate", Replicate[parcel], Replicate[letter], everywhere, func(s sizes, _ int, from map[int]int) error {
			return wantFrom(from, s.senders, each)
		}},
		{"partition by", func(in Stream[parcel]) Stream[parcel] {
			return PartitionBy(in, func(p parcel, subtasks int) int { return p.N % subtasks })
		}, func(in Stream[letter]) Stream[letter] {
			return PartitionBy(in, func(l letter, subtasks int) int { return l.P.N % subtasks })
		}, everywhere, func(s sizes, _ int, from map[int]int) error {
			return wantFrom(from, s.senders, each/s.receivers)
		}},
		{"global", Global[parcel], Global[letter], everywhere, func(s sizes, receiver int, from map[int]int) error {
			if receiver > 0 { // the boxes are sorted, the fullest first
				return wantFrom(from, 0, 0)
			}
			return wantFrom(from, s.senders, each)
		}},
	} {
		for _, s := range view.sizes {
			for _, encode := range []bool{false, true} {
				for _, opts := range [][]Option{nil, {NoChain()}} {
					mains, sides := deliver(t, s.senders, s.receivers, each, encode, opts, view.main, view.side)
					for output, office := range map[string]*postOffice{"main": mains, "side": sides} {
						slices.SortFunc(office.got, func(a, b *[]parcel) int { return len(*b) - len(*a) })
						what, total := fmt.Sprintf("%s, %s output, %d to %d", view.name, output, s.senders, s.receivers), 0
						for i, box := range office.got {
							from := sendersOf(t, *box)
							total += len(*box)
							if view.check != nil {
								if err := view.check(s, i, from); err != nil {
									t.Errorf("%s: %v", what, err)
								}
							}
						}
						if want := s.senders * each; len(office.got) != s.receivers || view.name != "replicate" && total != want {
							t.Errorf("%s: %d records of %d", what, total, want)
						}
					}
				}
			}
		}
	}
}

func asItIs[T any](in Stream[T]) Stream[T] { return in }

// wantFrom compares what a receiver has with a number of senders and of records of each.
func wantFrom(from map[int]int, senders, each int) error {
	if len(from) != senders {
		return fmt.Errorf("records from %d senders, want %d", len(from), senders)
	}
	for sender, n := range from {
		if n != each {
			return fmt.Errorf("%d records from sender %d, want %d", n, sender, each)
		}
	}
	return nil
}

func TestPartitionOutOfRangeSaysWhoAndWhere(t *testing.T) {
	r, _ := launch(t, context.Background(), func(job *Job) error {
		in := FromSlice(job, "in", []int{1, 2, 3})
		odd := Filter(in, "odd", func(n int) bool { return n%2 == 1 })
		Do(PartitionBy(odd, func(n, _ int) int { return n }), "do", func(int) error { return nil }, Parallelism(3))
		return nil
	})
	wants(t, wait(t, r), `operator "odd": partition to "do": the function chose subtask 3, and there are 0 to 2`)
}

func TestPanicInAPartitionNamesTheOperator(t *testing.T) {
	r, _ := launch(t, context.Background(), func(job *Job) error {
		in := FromSlice(job, "in", []int{1, 2, 3})
		Do(PartitionBy(in, func(int, int) int { panic("no idea") }), "do", func(int) error { return nil })
		return nil
	})
	wants(t, wait(t, r), `operator "in": panic: no idea`)
}

func TestForwardBetweenParallelismsIsRefused(t *testing.T) {
	err := Run(context.Background(), func(job *Job) error {
		Do(Forward(FromSlice(job, "in", []int{1}, Parallelism(2))), "do", func(int) error { return nil }, Parallelism(3))
		return nil
	})
	wants(t, err, `forward from "in" at `, `to "do" at `, "parallelisms 2 and 3 differ")
}
