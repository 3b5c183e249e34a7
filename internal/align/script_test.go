package align

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/record"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata print into them")

// TestScripts runs the scripts in testdata. A script is a row of blocks: lines
// of events, a line of dashes, and the actions that should come of them.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, string(script))
			if *rewrite {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if got != string(script) {
				t.Errorf("got:\n%s", got)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// run returns script with the actions that its events led to.
func run(t *testing.T, script string) string {
	var a *Aligner
	blocks := strings.Split(strings.TrimSpace(script), "\n\n")
	for i, block := range blocks {
		events, _, _ := strings.Cut(block, "\n----")
		var out []string
		for line := range strings.SplitSeq(events, "\n") {
			var ch int
			var n uint64
			verb, rest, _ := strings.Cut(line, " ")
			switch verb {
			case "#":
				continue
			case "new":
				fmt.Sscanf(rest, "channels=%d", &ch)
				a = New(ch, strings.HasSuffix(rest, "counting"))
				out = append(out, "ok")
				continue
			case "abort":
				fmt.Sscanf(rest, "%d", &n)
			case "close":
				fmt.Sscanf(rest, "channel=%d", &ch)
			default:
				fmt.Sscanf(rest, "%d channel=%d", &n, &ch)
			}
			event, ok := map[string]Event{
				"barrier": Barrier{Channel: ch, Barrier: record.Barrier{Checkpoint: n}},
				"marker":  Cancelled{Channel: ch, Checkpoint: n},
				"close":   Closed{Channel: ch},
				"abort":   Aborted{Checkpoint: n},
			}[verb]
			if !ok {
				t.Fatalf("unknown event %q", line)
			}
			for _, action := range a.Step(event) {
				out = append(out, show(action))
			}
		}
		if len(out) == 0 {
			out = []string{"-"}
		}
		blocks[i] = events + "\n----\n" + strings.Join(out, "\n")
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

func show(a Action) string {
	switch a := a.(type) {
	case Hold:
		return fmt.Sprintf("hold %d", a.Channel)
	case Release:
		return "release"
	case Complete:
		return fmt.Sprintf("complete %d", a.Barrier.Checkpoint)
	case Cancel:
		return fmt.Sprintf("cancel %d", a.Checkpoint)
	}
	return fmt.Sprintf("unknown action %T", a)
}
