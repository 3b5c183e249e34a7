package weir_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A ledger checks the law of wordcount's output directory: at every moment its
// final files hold, for each word, the counts 1, 2, ... k, each exactly once, and
// what is final once stays as it is. It shares nothing with the engine.
type ledger struct {
	dir    string
	prefix string           // of the files that count; "part-" for all
	files  map[string]int64 // the final files read so far, and their sizes
	words  map[string]*tally
}

// tally is which counts of a word were seen.
type tally struct {
	seen []bool // count n at n-1
	n    int
}

func newLedger(dir string) *ledger {
	return &ledger{dir: dir, prefix: "part-", files: map[string]int64{}, words: map[string]*tally{}}
}

// check reads what has become final since the last check.
func (l *ledger) check() error {
	names, err := l.settled()
	if err != nil {
		return err
	}
	for name := range l.files {
		if !slices.Contains(names, name) {
			return fmt.Errorf("final file %s has vanished", name)
		}
	}
	touched := map[string]bool{}
	for _, name := range names {
		if err := l.read(name, touched); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for word := range touched {
		if t := l.words[word]; t.n != len(t.seen) {
			return fmt.Errorf("word %q has %d counts, the highest is %d: count %d is missing", word, t.n, len(t.seen), slices.Index(t.seen, false)+1)
		}
	}
	return nil
}

// settled lists the final files as they were at one moment. A file may become
// final while a directory is listed, and a later one be seen without it; the
// next listing has both. So two that are equal hold all files up to the last.
func (l *ledger) settled() ([]string, error) {
	before, err := l.list()
	for err == nil {
		var now []string
		if now, err = l.list(); slices.Equal(before, now) {
			return now, err
		}
		before = now
	}
	return nil, err
}

func (l *ledger) list() (names []string, err error) {
	entries, err := os.ReadDir(l.dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), l.prefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (l *ledger) read(name string, touched map[string]bool) error {
	info, err := os.Stat(filepath.Join(l.dir, name))
	if err != nil {
		return err
	}
	if size, known := l.files[name]; known {
		if size != info.Size() {
			return fmt.Errorf("final, and has changed from %d to %d bytes", size, info.Size())
		}
		return nil
	}
	content, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		return err
	}
	l.files[name] = int64(len(content))
	if len(content) == 0 || content[len(content)-1] != '\n' {
		return fmt.Errorf("it is empty or its last line isn't whole")
	}
	for line := range bytes.Lines(content) {
		word, count, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\t")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || strconv.Itoa(n) != count || word == "" {
			return fmt.Errorf("bad line %q", line)
		}
		if !l.add(word, n) {
			return fmt.Errorf("count %d of word %q is there twice", n, word)
		}
		touched[word] = true
	}
	return nil
}

// add enters a count, and returns false if it is there already.
func (l *ledger) add(word string, n int) bool {
	t := l.words[word]
	if t == nil {
		t = &tally{}
		l.words[word] = t
	}
	if n > len(t.seen) {
		t.seen = append(t.seen, make([]bool, n-len(t.seen))...)
	}
	if t.seen[n-1] {
		return false
	}
	t.seen[n-1] = true
	t.n++
	return true
}

// holds returns how many lines are final.
func (l *ledger) holds() (lines int) {
	for _, t := range l.words {
		lines += t.n
	}
	return lines
}

// mustHold checks the law now.
func (l *ledger) mustHold(t *testing.T) {
	t.Helper()
	if err := l.check(); err != nil {
		t.Fatalf("output in %s: %v", l.dir, err)
	}
}

// mustBeWhole checks what must be there when the job has ended: all of it, and
// nothing that isn't final.
func (l *ledger) mustBeWhole(t *testing.T, want map[string]int) {
	t.Helper()
	l.mustHold(t)
	if hidden := hidden(t, l.dir); len(hidden) > 0 {
		t.Errorf("unfinished files are left: %v", hidden)
	}
	for word, n := range want {
		if got := l.words[word]; got == nil || got.n != n {
			t.Fatalf("word %q: got %+v, it occurs %d times", word, got, n)
		}
	}
	if len(l.words) != len(want) {
		t.Fatalf("%d words, want %d", len(l.words), len(want))
	}
}

// hidden lists what isn't final.
func hidden(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// split is how plain tools split the text below a file or directory into words,
// one on a line. Files are kept apart even where the last line has no end.
const split = `find -H "$1" -type f -exec sh -c 'for f; do cat "$f"; echo; done' sh {} + | tr -cs A-Za-z '\n' | grep .`

// occurrences counts words with plain tools.
func occurrences(t *testing.T, path string) map[string]int {
	t.Helper()
	words := map[string]int{}
	for line := range strings.Lines(shell(t, split+` | sort | uniq -c`, path)) {
		var n int
		var word string
		if _, err := fmt.Sscan(line, &n, &word); err != nil {
			t.Fatal(err)
		}
		words[word] = n
	}
	return words
}

// mostFrequent is what wordcount prints without -output.
func mostFrequent(t *testing.T, path string) string {
	t.Helper()
	return shell(t, split+` | sort | uniq -c | sort -k1,1nr -k2 | head -20 | awk '{ print $2, $1 }'`, path)
}

// countLines returns how many lines the files below a directory have.
func countLines(t *testing.T, dir string) (lines int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var content []byte
			content, err = os.ReadFile(path)
			lines += bytes.Count(content, []byte("\n"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestLedgerSeesWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ files, want string }{
		{"a\t1\nb\t1\n|a\t2\n", ""},
		{"a\t1\n|a\t1\n", "count 1 of word \"a\" is there twice"},
		{"a\t1\na\t3\n", "count 2 is missing"},
		{"a\t2\n", "count 1 is missing"},
		{"a\t1", "isn't whole"},
		{"a 1\n", "bad line"},
		{"a\t01\n", "bad line"},
	} {
		l := newLedger(t.TempDir())
		for i, content := range strings.Split(test.files, "|") {
			if err := os.WriteFile(fmt.Sprintf("%s/part-%d", l.dir, i), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.check(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.files, err, test.want)
		}
	}
}
