// Wordcount counts the words of text files: maximal runs of ASCII letters, case
// kept. It is Weir's main example, and the job by which its promise is tested:
// kill it as often as you like, the output is as if nothing had happened.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/build"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/state"
)

var (
	input  = flag.String("input", "", "`file or directory` to read; without it the *.go files of the Go installation")
	output = flag.String("output", "", "`directory` for a line \"word<TAB>count\" for every word read; without it the most frequent words are printed at the end")
	rate   = flag.Int("rate", 0, "read at most `N` lines a second; 0 is no limit")
)

func main() { weir.Main(wordCount) }

func wordCount(job *weir.Job) error {
	job.Name = "wordcount"
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if path := strings.TrimPrefix(*input, "file://"); path != "" && !strings.Contains(path, "://") {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("-input: %w", err)
		}
	}
	if *rate < 0 {
		return fmt.Errorf("-rate %d: want 0 or more", *rate)
	}
	lines := weir.From(job, "lines", source())
	words := weir.FlatMap(lines, "split", split)
	counts := weir.Count(weir.KeyBy(words, func(word string) string { return word }), "count")
	if *output != "" {
		weir.To(counts, "output", file.Sink[count]{Dir: *output, Format: formatLine})
		return nil
	}
	local := weir.Operate(counts, "top of each", top)
	all := weir.Operate(local, "top", top, weir.Parallelism(1))
	lined := weir.Map(all, "line", func(c count) string { return fmt.Sprintf("%s %d", c.Key, c.Value) }, weir.Parallelism(1))
	weir.Print(lined, "print", weir.Parallelism(1))
	return nil
}

type count = weir.Pair[string, int64]

func source() file.Source {
	if *input != "" {
		return file.Source{Path: *input, Rate: *rate}
	}
	return file.Source{Path: filepath.Join(goroot(), "src"), Match: "*.go", Rate: *rate}
}

// goroot is where the Go installation is.
func goroot() string {
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	return build.Default.GOROOT
}

// split yields the words of a line.
func split(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(line); i++ {
			from := i
			for i < len(line) && letter(line[i]) {
				i++
			}
			if from < i && !yield(line[from:i]) {
				return
			}
		}
	}
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func formatLine(dst []byte, c count) []byte {
	dst = append(append(dst, c.Key...), '\t')
	return append(strconv.AppendInt(dst, c.Value, 10), '\n')
}

// most is how many words are printed.
const most = 20

// top keeps the most frequent words seen and emits them at the end of input. As
// a word's count only grows, one that belongs to the most frequent in the end is
// among them from its last record on.
func top(op *weir.Out[count]) weir.Handler[count] {
	kept := state.NewSplit[count](op, "top")
	var best []count // what kept holds, ranked
	return weir.Handler[count]{
		Record: func(c count) error {
			if best == nil {
				best = rank(nil, kept.All())
			}
			if len(best) == most && compare(c, best[most-1]) > 0 {
				return nil
			}
			best = enter(best, c)
			kept.Clear()
			kept.Append(best...)
			return nil
		},
		End: func() error {
			for c := range kept.All() {
				op.Emit(c)
			}
			return nil
		},
	}
}

// rank enters all counts, as they are after a change of parallelism: in any
// order, and with older counts of the same words.
func rank(best []count, counts iter.Seq[count]) []count {
	for c := range counts {
		best = enter(best, c)
	}
	return best
}

// enter puts a count in its place, and takes out a lower one of the same word,
// else the last if there are too many.
func enter(best []count, c count) []count {
	if old := slices.IndexFunc(best, func(b count) bool { return b.Key == c.Key }); old >= 0 {
		c.Value = max(c.Value, best[old].Value)
		best = slices.Delete(best, old, old+1)
	}
	at, _ := slices.BinarySearchFunc(best, c, compare)
	best = slices.Insert(best, at, c)
	return best[:min(most, len(best))]
}

// compare puts more frequent words first, and of equally frequent ones the
// alphabetically first.
func compare(a, b count) int {
	return cmp.Or(cmp.Compare(b.Value, a.Value), strings.Compare(a.Key, b.Key))
}
