package weir_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/state"
)

func itself[T any](v T) T { return v }

// The words of a few lines are counted. Count emits a word's count each time it
// comes, so the last one for a word is how often it came in all.
func Example() {
	var counts []weir.Pair[string, int64]
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		lines := weir.FromSlice(job, "lines", []string{"to be or", "not to be"})
		words := weir.FlatMap(lines, "split", strings.FieldsSeq)
		weir.Collect(weir.Count(weir.KeyBy(words, itself), "count"), "collect", &counts)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range counts {
		fmt.Println(c.Key, c.Value)
	}
	// Output:
	// to 1
	// be 1
	// or 1
	// not 1
	// to 2
	// be 2
}

// A keyed operator declares its state in its constructor, which runs once in each
// subtask.
func ExampleProcess() {
	type reading struct {
		Sensor  string
		Degrees int
	}
	rising := func(op *weir.Op[string, string]) weir.Handler[reading] {
		before := state.NewValue[int](op, "before")
		return weir.Handler[reading]{Record: func(r reading) error {
			if last, ok := before.Lookup(); ok && r.Degrees > last {
				op.Emit(fmt.Sprintf("%s rises from %d to %d", op.Key(), last, r.Degrees))
			}
			before.Set(r.Degrees)
			return nil
		}}
	}
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		in := weir.FromSlice(job, "readings", []reading{{"attic", 20}, {"cellar", 8}, {"attic", 22}, {"cellar", 7}})
		bySensor := weir.KeyBy(in, func(r reading) string { return r.Sensor })
		weir.Print(weir.Process(bySensor, "rising", rising), "print")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: attic rises from 20 to 22
}

// An operator without a key may keep lists; what they hold is dealt out anew when
// the job is restored at another parallelism.
func ExampleOperate() {
	pairs := func(op *weir.Out[[]string]) weir.Handler[string] {
		held := state.NewSplit[string](op, "held")
		flush := func() error {
			op.Emit(slices.Collect(held.All()))
			held.Clear()
			return nil
		}
		return weir.Handler[string]{
			Record: func(s string) error {
				if held.Append(s); held.Len() < 2 {
					return nil
				}
				return flush()
			},
			End: flush,
		}
	}
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		in := weir.FromSlice(job, "in", []string{"a", "b", "c"})
		weir.Print(weir.Operate(in, "pairs", pairs), "print")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// [a b]
	// [c]
}

func ExampleReduce() {
	type sale struct {
		Shop  string
		Cents int
	}
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		sales := weir.FromSlice(job, "sales", []sale{{"east", 5}, {"west", 2}, {"east", 7}})
		byShop := weir.KeyBy(sales, func(s sale) string { return s.Shop })
		weir.Print(weir.Reduce(byShop, "sum", func(a, b sale) sale { return sale{a.Shop, a.Cents + b.Cents} }), "print")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {east {east 5}}
	// {west {west 2}}
	// {east {east 12}}
}

func ExampleFold() {
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		words := weir.FromSlice(job, "words", []string{"ant", "bee", "asp"})
		byLetter := weir.KeyBy(words, func(w string) byte { return w[0] })
		weir.Print(weir.Fold(byLetter, "lengths", func(sum int, w string) int { return sum + len(w) }), "print")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {97 3}
	// {98 3}
	// {97 6}
}

func ExampleEach() {
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		in := weir.FromSlice(job, "in", []int{1, 2, 3})
		weir.Print(weir.Each(in, "twice", func(n int, emit func(string)) error {
			for range n {
				emit(strconv.Itoa(n))
			}
			return nil
		}), "print")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1
	// 2
	// 2
	// 3
	// 3
	// 3
}

func ExampleUnion() {
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		a := weir.FromSlice(job, "a", []int{1, 2})
		b := weir.FromSlice(job, "b", []int{10, 20})
		even := weir.Filter(weir.Union(a, b), "even", func(n int) bool { return n%2 == 0 })
		weir.Print(weir.Map(even, "text", strconv.Itoa), "print")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// 2
	// 10
	// 20
}

func ExampleFlatMap() {
	letters := func(s string) iter.Seq[rune] {
		return func(yield func(rune) bool) {
			for _, r := range s {
				if !yield(r) {
					return
				}
			}
		}
	}
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		in := weir.FromSlice(job, "in", []string{"ab", "c"})
		weir.Do(weir.FlatMap(in, "letters", letters), "do", func(r rune) error {
			fmt.Printf("%c\n", r)
			return nil
		})
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// a
	// b
	// c
}

// An operator gets another uid, and takes over its state from a savepoint that knows
// it by the former one.
func ExampleFormerly() {
	visits, counts := make(chan string), make(chan weir.Pair[string, int64])
	counting := func(from, uid string, opts ...weir.Option) func(*weir.Job) error {
		return func(job *weir.Job) error {
			job.From = from
			in := weir.FromChannel(job, "visits", visits)
			weir.Do(weir.Count(weir.KeyBy(in, itself), uid, opts...), "show", func(n weir.Pair[string, int64]) error {
				counts <- n
				return nil
			})
			return nil
		}
	}
	visit := func() {
		visits <- "museum"
		fmt.Println(<-counts)
	}
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "savepoints")
	defer os.RemoveAll(dir)

	old, err := weir.Start(ctx, counting("", "counter"))
	if err != nil {
		fmt.Println(err)
		return
	}
	visit()
	savepoint, err := old.Savepoint(ctx, dir)
	if err != nil {
		fmt.Println(err)
	}
	old.Cancel(ctx)

	renamed, err := weir.Start(ctx, counting(savepoint, "visitors", weir.Formerly("counter")))
	if err != nil {
		fmt.Println(err)
		return
	}
	visit()
	renamed.Cancel(ctx)
	// Output:
	// {museum 1}
	// {museum 2}
}

// Words of more than three letters go to a side output, as their lengths.
func ExampleSide() {
	long := weir.NewTag[int]("long")
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		in := weir.FromSlice(job, "in", []string{"to", "whom", "it", "concerns"})
		short := weir.Operate(in, "sort out", func(op *weir.Out[string]) weir.Handler[string] {
			emitLong := long.Of(op)
			return weir.Handler[string]{Record: func(s string) error {
				if len(s) > 3 {
					emitLong(len(s))
				} else {
					op.Emit(s)
				}
				return nil
			}}
		})
		weir.Print(short, "print short")
		weir.Print(weir.Side(short, long), "print long")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// to
	// 4
	// it
	// 8
}

// Each of three subtasks takes the orders of its regions.
func ExamplePartitionBy() {
	type order struct{ Region, Number int }
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		orders := weir.FromSlice(job, "orders", []order{{1, 100}, {2, 101}, {4, 102}}, weir.Parallelism(1))
		byRegion := weir.PartitionBy(orders, func(o order, subtasks int) int { return o.Region % subtasks })
		first := weir.Operate(byRegion, "first", func(op *weir.Out[order]) weir.Handler[order] {
			seen := false
			return weir.Handler[order]{Record: func(o order) error {
				if !seen {
					op.Emit(o)
				}
				seen = true
				return nil
			}}
		}, weir.Parallelism(3))
		weir.Print(first, "print")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// {1 100}
	// {2 101}
}

// Both subtasks get every record.
func ExampleReplicate() {
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		rates := weir.FromSlice(job, "rates", []string{"EUR 1.08", "GBP 1.27"}, weir.Parallelism(1))
		weir.Print(weir.Replicate(rates), "print", weir.Parallelism(2))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// EUR 1.08
	// EUR 1.08
	// GBP 1.27
	// GBP 1.27
}

// A job is stopped with a savepoint, and another goes on where it has stopped: in all,
// each number is counted once.
func ExampleRunning_Stop() {
	dir, err := os.MkdirTemp("", "savepoints")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var count int64
	rate := 1.0 // records in a second, so that there is time to stop the job
	first := make(chan struct{})
	begun := sync.OnceFunc(func() { close(first) })
	build := func(job *weir.Job) error {
		numbers := weir.From(job, "numbers", datagen.Source[int64]{
			Count: 2000, Rate: rate, Make: func(n int64, _ *rand.Rand) int64 { return n },
		})
		counts := weir.Count(weir.KeyBy(numbers, func(int64) string { return "all" }), "count")
		weir.Do(counts, "keep", func(c weir.Pair[string, int64]) error {
			count = c.Value
			begun()
			return nil
		})
		return nil
	}
	ctx := context.Background()
	running, err := weir.Start(ctx, build)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-first
	savepoint, err := running.Stop(ctx, weir.Stop{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	rate = 0 // the others at once
	err = weir.Run(ctx, func(job *weir.Job) error {
		job.From = savepoint
		return build(job)
	})
	fmt.Println(count, err)
	// Output: 2000 <nil>
}
