package weir

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/state"
)

var rewrite = flag.Bool("rewrite", false, "kill the jobs of TestReadsWhatOlderVersionsStored anew, and keep their disks in testdata")

// These are disks of jobs that were killed, with a state of every kind, and files
// whose commit is due, compressed since version 2: one with the record of its run and
// a checkpoint, and one with a savepoint. The numbers rise with each version of any
// format; what older versions left stays and is read.
const (
	stored          = "testdata/disk-2"
	storedSavepoint = "testdata/savepoint-2"
)

// TestReadsWhatOlderVersionsStored lets a killed job go on from the disk that an
// earlier version of this program left, and starts new ones from the savepoints
// there (S68): at unchanged parallelism and at others, with its states declared in the
// order in which they were or in another (S67), and with an operator that it hadn't
// got before (S65). No two of a state's key, user key and value have the same type.
func TestReadsWhatOlderVersionsStored(t *testing.T) {
	if *rewrite {
		leave(t, stored, &history{from: Latest, interval: "10 ms", compressed: true}, 1, aim{"kill", "before rename out", 2})
		leave(t, storedSavepoint, &history{from: Latest, interval: "1 h", compressed: true}, 3, aim{"kill", "after rename _metadata", 1})
	}
	disks := append(must(filepath.Glob("testdata/disk-*"))(t), must(filepath.Glob("testdata/savepoint-*"))(t)...)
	if len(disks) < 2 {
		t.Fatal(disks)
	}
	for i := range 8 * len(disks) {
		disk, p, reversed := disks[i/8], 1+i%4, i%8 < 4
		t.Run(fmt.Sprintf("%s, parallelism %d, declared in reverse %v", disk, p, reversed), func(t *testing.T) {
			w := newWorld(2, func(string, ...any) {})
			w.calm = true
			lay(t, disk, w.disk)
			h := &history{from: Latest, interval: "10 ms", compressed: i%2 == 0, grown: true, reversed: reversed}
			for _, savepoint := range must(filepath.Glob(filepath.Join(disk, "points", "*")))(t) {
				h.from = "file:///points/" + filepath.Base(savepoint)
			}
			if finished, err := h.execute(w, p); err != nil || !finished {
				t.Fatalf("finished %v: %v", finished, err)
			}
			h.check(t, w.disk, p)
		})
	}
}

// leave runs the job until it is killed, and keeps its disk.
func leave(t *testing.T, to string, h *history, seed uint64, at aim) {
	w := newWorld(seed, func(string, ...any) {})
	w.rare = 1 << 20
	w.aim = at
	for name, words := range corpus {
		write(t, w.disk, path.Join("/in", name), strings.Join(words, "\n")+"\n")
	}
	if finished, err := h.execute(w, 2); err != nil || finished || w.hits[at.fault+" "+at.point] == 0 {
		t.Fatal(finished, err, w.hits)
	}
	w.disk.Crash(func(c filesystem.Change) int { return c.Bytes })
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	each(t, w.disk, "/", func(name string, content []byte) {
		to := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o666); err != nil {
			t.Fatal(err)
		}
	})
}

// lay puts what leave left on a disk.
func lay(t *testing.T, from string, disk *filesystem.Memory) {
	left := os.DirFS(from)
	err := fs.WalkDir(left, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(left, name)
		if err == nil {
			write(t, disk, path.Join("/", name), string(content))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, disk *filesystem.Memory, name, content string) {
	t.Helper()
	f, err := disk.Create(name)
	if err == nil {
		_, err = io.WriteString(f, content)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// each calls f with every file below dir.
func each(t *testing.T, disk *filesystem.Memory, dir string, f func(name string, content []byte)) {
	t.Helper()
	entries, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if e.Dir {
			each(t, disk, name, f)
			continue
		}
		r, err := disk.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		f(name, content)
	}
}

// corpus is the files that the job reads. A word is in one of them only, so that
// its occurrences have an order.
var corpus = map[string][]string{
	"rivers": occurrences(150, "Aare", "Inn", "Po"),
	"towns":  occurrences(110, "Ulm", "Jena"),
	"trees":  occurrences(40, "ash"),
}

// occurrences are n lines of a word and a number.
func occurrences(n int, words ...string) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprint(words[i*i%7%len(words)], " ", i*37%101))
	}
	return lines
}

// A history is what the job knows of all words, in a state of every kind.
type history struct {
	from       string // what it starts from
	interval   string // of its checkpoints
	compressed bool   // the state in them
	grown      bool   // by an operator
	reversed   bool   // the order in which states are declared
	// What each subtask began with, of the operator without key and of the new one.
	begun, fresh []beginning
}

type beginning struct {
	restored   bool
	checkpoint uint64
	held, own  []string
	rules      map[string]int
}

// execute runs the job until it ends or is killed.
func (h *history) execute(w *world, parallelism int) (finished bool, err error) {
	files := filesystem.Set{"file": w.files()}
	p, err := prepare(func(job *Job) error { h.build(job, files); return nil }, config.Layer{}, config.Assignments([]string{
		"pipeline.name=history", "execution.state-recovery.path=" + h.from, fmt.Sprint("parallelism.default=", parallelism),
		"execution.checkpointing.dir=file:///ckpt", "execution.checkpointing.interval=" + h.interval, "execution.checkpointing.data-inline-threshold=500",
		fmt.Sprint("execution.checkpointing.snapshot-compression=", h.compressed),
	}))
	if err != nil {
		return false, err
	}
	return w.execute(p, environment{
		executor: w, files: files, random: w.rng.Uint64, log: slog.New(slog.DiscardHandler), sliceMax: 1, line: w.send,
	})
}

func (h *history) build(job *Job, files filesystem.Set) {
	lines := From(job, "lines", file.Source{Path: "/in", FileSystems: files})
	told := Process(KeyBy(lines, word), "tell", h.tell)
	To(told, "told", file.Sink[string]{Dir: "/out/told", Format: file.AppendLine, FileSystems: files})
	To(Operate(Rebalance(lines), "call", h.call), "called", file.Sink[string]{Dir: "/out/called", Format: file.AppendLine, FileSystems: files})
	if h.grown {
		Process(KeyBy(told, word), "new", func(op *Op[string, string]) Handler[string] {
			count := state.NewValue[int](op, "count")
			h.fresh = append(h.fresh, beginning{restored: op.Restored(), checkpoint: op.RestoredCheckpoint(),
				held: slices.Collect(state.NewSplit[string](op, "held").All())})
			return Handler[string]{Record: func(string) error {
				count.Set(count.Get() + 1)
				return nil
			}}
		})
	}
}

func word(line string) string { w, _, _ := strings.Cut(line, " "); return w }

func number(line string) int64 {
	n, _ := strconv.ParseInt(line[strings.Index(line, " ")+1:], 10, 64)
	return n
}

// declare declares states, perhaps in reverse.
func (h *history) declare(all ...func()) {
	if h.reversed {
		slices.Reverse(all)
	}
	for _, f := range all {
		f()
	}
}

type sum struct{ Of, N int64 }

var mean = state.Aggregate[int64, sum, float64]{
	Add:    func(s sum, v int64) sum { return sum{s.Of + v, s.N + 1} },
	Result: func(s sum) float64 { return float64(s.Of) / float64(s.N) },
}

// tell emits, at each occurrence of a word, all that is known of it.
func (h *history) tell(op *Op[string, string]) Handler[string] {
	var count state.Value[int64]
	var recent state.List[int64]
	var digits state.Map[uint8, int64]
	var most state.Reducing[int64]
	var average state.Aggregating[int64, sum, float64]
	h.declare(
		func() { count = state.NewValue[int64](op, "count") },
		func() { recent = state.NewList[int64](op, "recent") },
		func() { digits = state.NewMap[uint8, int64](op, "digits") },
		func() { most = state.NewReducing(op, "most", func(a, b int64) int64 { return max(a, b) }) },
		func() { average = state.NewAggregating(op, "average", mean) },
	)
	return Handler[string]{Record: func(line string) error {
		n := number(line)
		count.Set(count.Get() + 1)
		if recent.Len() == 3 {
			recent.Clear()
		}
		recent.Append(n)
		digits.Put(uint8(n%10), digits.Get(uint8(n%10))+1)
		most.Add(n)
		average.Add(n)
		op.Emit(tale(op.Key(), count.Get(), slices.Collect(recent.All()), maps.Collect(digits.All()), most.Get(), average.Get()))
		return nil
	}}
}

func tale(word string, count int64, recent []int64, digits map[uint8]int64, most int64, average float64) string {
	return fmt.Sprint(word, " ", count, recent, digits, most, " ", average)
}

// tales are what tell should emit of the whole corpus.
func tales() (all []string) {
	type known struct {
		count, most, sum int64
		recent           []int64
		digits           map[uint8]int64
	}
	of := map[string]*known{}
	for _, lines := range corpus {
		for _, line := range lines {
			k := of[word(line)]
			if k == nil {
				k = &known{digits: map[uint8]int64{}}
				of[word(line)] = k
			}
			n := number(line)
			if k.count%3 == 0 {
				k.recent = nil
			}
			k.count, k.most, k.sum, k.recent = k.count+1, max(k.most, n), k.sum+n, append(k.recent, n)
			k.digits[uint8(n%10)]++
			all = append(all, tale(word(line), k.count, k.recent, k.digits, k.most, float64(k.sum)/float64(k.count)))
		}
	}
	return all
}

var rules = map[string]int{"": 0, "one": 1, "zwei": 2}

// call emits all lines when they have ended, and notes what it was restored with.
func (h *history) call(op *Out[string]) Handler[string] {
	var held, own *state.Items[string]
	var told *state.Broadcast[string, int]
	h.declare(
		func() { held = state.NewSplit[string](op, "held") },
		func() { own = state.NewUnion[string](op, "own") },
		func() { told = state.NewBroadcast[string, int](op, "rules") },
	)
	if !op.Restored() {
		for k, v := range rules {
			told.Put(k, v)
		}
	}
	h.begun = append(h.begun, beginning{op.Restored(), op.RestoredCheckpoint(),
		slices.Collect(held.All()), slices.Collect(own.All()), maps.Collect(told.All())})
	return Handler[string]{
		Record: func(line string) error {
			held.Append(line)
			own.Append(line)
			return nil
		},
		End: func() error {
			for line := range held.All() {
				op.Emit(line)
			}
			return nil
		},
	}
}

// check looks at what the job was restored with, and at what it has written.
func (h *history) check(t *testing.T, disk *filesystem.Memory, parallelism int) {
	var all []string
	for _, lines := range corpus {
		all = append(all, lines...)
	}
	for dir, want := range map[string][]string{"/out/told": tales(), "/out/called": all} {
		var got []string
		each(t, disk, dir, func(_ string, content []byte) {
			got = append(got, strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")...)
		})
		if !alike(got, want) {
			t.Errorf("%s: %d lines, want %d: %q", dir, len(got), len(want), got)
		}
	}
	if len(h.begun) != parallelism || len(h.fresh) != parallelism {
		t.Fatalf("%d and %d subtasks, want %d", len(h.begun), len(h.fresh), parallelism)
	}
	var held []string
	for _, b := range h.begun {
		held = append(held, b.held...)
	}
	if len(held) == 0 || len(held) == len(all) {
		t.Errorf("restored with %d of %d lines", len(held), len(all))
	}
	for i, b := range h.begun {
		if !b.restored || b.checkpoint == 0 || !alike(b.own, held) || !maps.Equal(b.rules, rules) {
			t.Errorf("subtask %d began with %+v", i, b)
		}
		if n := h.fresh[i]; n.restored || n.checkpoint != b.checkpoint || len(n.held) > 0 {
			t.Errorf("the new operator's subtask %d began with %+v", i, n)
		}
	}
}

// alike says whether two lists have the same items, in whatever order.
func alike(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
