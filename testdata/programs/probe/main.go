// Probe is jobs that are wrong, fail, or block, for the tests of the command line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/record"
)

var (
	job    = flag.String("job", "degrees", "which `job` to run")
	degree = flag.Int("degree", 0, "the parallelism that the code sets")
	output = flag.String("output", "", "`directory` of the output")
)

func main() {
	weir.Main(func(j *weir.Job) error {
		build, ok := map[string]func(*weir.Job) error{
			"degrees": degrees, "wrong": wrong, "endless": endless, "block": block, "fail": fail, "panic": panics,
		}[*job]
		if !ok {
			return fmt.Errorf("no job %q", *job)
		}
		return build(j)
	})
}

// say writes a line at once.
func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// degrees says in each subtask of two operators whose it is.
func degrees(j *weir.Job) error {
	j.Parallelism = *degree
	numbers := weir.FromSlice(j, "numbers", []int{1, 2, 3})
	say("build")
	for _, o := range []struct {
		uid  string
		opts []weir.Option
	}{{"free", nil}, {"own", []weir.Option{weir.Parallelism(3)}}} {
		weir.Operate(numbers, o.uid, func(*weir.Out[int]) weir.Handler[int] {
			say("subtask of %s", o.uid)
			return weir.Handler[int]{Record: func(int) error { return nil }}
		}, o.opts...)
	}
	return nil
}

// wrong has several mistakes.
func wrong(j *weir.Job) error {
	numbers := weir.FromSlice(j, "numbers", []int{1, 2, 3})
	twice := weir.Map(numbers, "same", func(n int) float64 { return float64(n) })
	weir.Count(weir.KeyBy(twice, func(f float64) float64 { return f }), "count")
	weir.Print(twice, "same")
	return errors.New("and the builder's own")
}

// tick never ends.
type tick struct{}

func (tick) Enumerate(_ context.Context, e connector.Enumeration[int]) error {
	e.Assign(0)
	return nil
}

func (tick) Open(context.Context, connector.Reading) (connector.Reader[string, int], error) {
	return tick{}, nil
}

func (tick) Read(ctx context.Context, at *int, into *record.Batch[string]) error {
	select {
	case <-time.After(time.Millisecond):
		*at++
		into.Add(fmt.Sprint(*at))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (tick) Close() error { return nil }

var (
	_ connector.Source[string, int] = tick{}
	_ io.Closer                     = tick{}
)

// endless has a source that never ends.
func endless(j *weir.Job) error {
	ticks := weir.From(j, "ticks", tick{})
	if *output != "" {
		weir.To(ticks, "output", file.Sink[string]{Dir: *output, Format: file.AppendLine})
		return nil
	}
	weir.Do(ticks, "first", func(s string) error {
		if s == "1" {
			say("first record")
		}
		return nil
	})
	return nil
}

// block has a function that doesn't come back.
func block(j *weir.Job) error {
	weir.Do(weir.From(j, "ticks", tick{}), "blocked", func(string) error {
		say("blocked")
		time.Sleep(time.Hour)
		return nil
	})
	return nil
}

// fail has a function that fails, each time.
func fail(j *weir.Job) error {
	weir.Do(weir.FromSlice(j, "numbers", []int{1, 2, 3}), "picky", func(n int) error {
		if n == 2 {
			say("attempt")
			return errors.New("I don't like 2")
		}
		return nil
	})
	return nil
}

// panics has a function that panics, each time.
func panics(j *weir.Job) error {
	weir.Do(weir.FromSlice(j, "numbers", []int{1, 2, 3}), "nervous", func(n int) error {
		if n == 2 {
			say("attempt")
			panic("2 frightens me")
		}
		return nil
	})
	return nil
}
