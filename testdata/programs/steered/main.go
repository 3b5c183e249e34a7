// Steered is a job that takes its commands, a line each, from standard input, and
// answers each with a line: it is to a service what the other programs are to a
// command line. It counts numbers that never end.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

var (
	checkpoints = flag.String("checkpoints", "", "`directory` of the checkpoints")
	savepoints  = flag.String("savepoints", "", "`directory` of savepoints for which none is given")
	output      = flag.String("output", "", "`directory` of the output")
	from        = flag.String("from", "", "the checkpoint to start from")
	retention   = flag.String("retention", "", "the retention `policy`")
	retained    = flag.Int("retained", 1, "how many checkpoints are kept")
)

func main() {
	flag.Parse()
	running, err := weir.Start(context.Background(), build)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(running.ID())
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		answer, err := obey(running, commands.Text())
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Println(answer)
	}
}

// obey carries out a command.
func obey(running *weir.Running, command string) (answer string, err error) {
	verb, dir, _ := strings.Cut(command, " ")
	switch verb {
	case "savepoint":
		return running.Savepoint(context.Background(), dir)
	case "cancel":
		return "cancelled", running.Cancel(context.Background())
	}
	return "", fmt.Errorf("what is %q?", verb)
}

func build(job *weir.Job) error {
	job.Name, job.Parallelism, job.From = "steered", 2, *from
	job.Checkpoints = weir.Checkpoints{
		Interval: 20 * time.Millisecond, Dir: *checkpoints, Retained: *retained, Retention: weir.Retention(*retention),
	}
	job.Config = map[string]string{
		"execution.checkpointing.savepoint-dir":         *savepoints,
		"execution.checkpointing.data-inline-threshold": "0", // each in files of its own
	}
	numbers := weir.KeyBy(weir.From(job, "numbers", numbers{}), func(int) string { return "all" })
	counted := weir.Process(numbers, "count", func(op *weir.Op[string, string]) weir.Handler[int] {
		count := state.NewValue[int](op, "count")
		return weir.Handler[int]{Record: func(n int) error {
			count.Set(count.Get() + 1)
			op.Emit(fmt.Sprint(n, " ", count.Get()))
			return nil
		}}
	})
	weir.To(counted, "output", file.Sink[string]{Dir: *output, Format: file.AppendLine})
	return nil
}

// numbers is a source of the numbers from 1, one a millisecond.
type numbers struct{}

func (numbers) Enumerate(_ context.Context, e connector.Enumeration[int]) error {
	e.Assign(0)
	return nil
}

func (numbers) Open(context.Context, connector.Reading) (connector.Reader[int, int], error) {
	return numbers{}, nil
}

func (numbers) Read(ctx context.Context, at *int, into *record.Batch[int]) error {
	select {
	case <-time.After(time.Millisecond):
		*at++
		into.Add(*at)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (numbers) Close() error { return nil }
