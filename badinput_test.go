package weir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/filesystem"
)

// Bad input, and disks without room, through the whole engine: each is a clear
// error or has a defined result, and nothing is lost.

// faults makes a file system whose operations fail as strike says.
func faults(strike func(op, path string) error) filesystem.Set {
	return filesystem.Set{"file": &filesystem.Faulty{FileSystem: filesystem.Local{}, Before: strike}}
}

// put writes a file, and the directories above it.
func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, content, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// text is numbered lines.
func text(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.Bytes()
}

// copies is a job that copies lines from one directory to another.
func copies(job *Job, from file.Source, to string) {
	To(Rebalance(From(job, "in", from)), "out", file.Sink[string]{Dir: to, Format: file.AppendLine})
}

// Lines are bytes: what isn't UTF-8 goes through keys, state, checkpoints and
// channels between processes as it is, and so do names of files.
func TestBytesThatAreNotTextStayAsTheyAre(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	want := map[string]int{}
	var content bytes.Buffer
	for range 2000 {
		line := make([]byte, random.IntN(3))
		for i := range line {
			line[i] = byte(0x80 + random.IntN(0x80))
		}
		want[string(line)]++
		content.Write(append(line, '\n'))
	}
	from, to := t.TempDir(), t.TempDir()
	memory := filesystem.NewMemory()
	w := must(memory.Create("/in/\xff\xfe"))(t)
	w.Write(content.Bytes())
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	b, fails := newBoard(), &fault{point: "line"}
	var opened, seen atomic.Int64
	input := &filesystem.Faulty{FileSystem: memory, Before: func(op, _ string) error {
		if op == "open" && opened.Add(1) > 10 { // of about forty splits
			b.await(t, 1, "checkpoint")
		}
		return nil
	}}
	r, _ := launch(t, t.Context(), func(job *Job) error {
		job.Parallelism = 2
		job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: from}
		job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1, Delay: time.Millisecond}
		lines := From(job, "in", file.Source{Path: "memory:///in", FileSystems: filesystem.Set{"memory": input}, SplitBytes: 100})
		struck := TryMap(lines, "strike", func(line string) (string, error) {
			if seen.Add(1) > 500 && b.times("checkpoint") > 0 {
				return line, fails.strike("line")
			}
			return line, nil
		})
		To(Count(KeyBy(struck, func(line string) string { return line }), "count"), "out", file.Sink[Pair[string, int64]]{
			Dir: to, Format: func(dst []byte, p Pair[string, int64]) []byte { return fmt.Appendf(dst, "%s\t%d\n", p.Key, p.Value) },
		})
		return nil
	}, announced(b), func(env *environment) { env.encode = true })
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	var all []string
	for line, n := range want {
		for i := range n {
			all = append(all, fmt.Sprintf("%s\t%d", line, i+1))
		}
	}
	slices.Sort(all)
	if got := lines(t, to); !slices.Equal(got, all) {
		t.Errorf("%d lines, want %d", len(got), len(all))
	}
	if len(r.Failures()) != 1 {
		t.Errorf("failures: %v", r.Failures())
	}
}

func TestLineOf100MegabytesIsALine(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	long := strings.Repeat("0123456789", 10<<20)
	put(t, from+"/long", []byte("before\n"+long+"\nafter\n"))
	build := func(most int) func(*Job) error {
		return func(job *Job) error {
			job.Checkpoints.Interval = 10 * time.Millisecond
			job.Restart.Strategy = "none"
			copies(job, file.Source{Path: from, LineBytes: most}, to)
			return nil
		}
	}
	r, _ := launch(t, t.Context(), build(50<<20))
	wants(t, wait(t, r), `operator "in": read: read "`+from+`/long" at byte 7: the line is longer than 52428800 bytes`)
	if got := lines(t, to); len(got) > 1 || len(got) == 1 && got[0] != "before" {
		t.Errorf("%d lines of a failed job", len(got))
	}
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	r, _ = launch(t, t.Context(), build(0))
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, to); !slices.Equal(got, []string{long, "after", "before"}) {
		t.Errorf("%d lines differ", len(got))
	}
}

func TestEmptyInputIsReadToItsEnd(t *testing.T) {
	for _, files := range [][]string{{}, {"empty"}, {"empty", "empty.gz", "sub/empty.zst"}} {
		from, to := t.TempDir(), t.TempDir()
		for _, name := range files {
			put(t, filepath.Join(from, name), nil)
		}
		r, log := launch(t, t.Context(), func(job *Job) error {
			copies(job, file.Lines(from), to)
			return nil
		})
		if err := wait(t, r); err != nil {
			t.Error(err)
		}
		if left := must(os.ReadDir(to))(t); len(left) > 0 {
			t.Errorf("output of %v: %v", files, left)
		}
		if !strings.Contains(log.String(), "there is nothing to read") {
			t.Errorf("nobody is told that %v holds nothing", files)
		}
	}
}

func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A job that is resumed when its input has gone fails and says why; when the
// input is there again it goes on where it was.
func TestInputThatIsGoneAtARestoreIsNamedAndNothingIsLost(t *testing.T) {
	const lineCount = 20_000
	for name, content := range map[string][]byte{"text": text(lineCount), "text.gz": zipped(t, text(lineCount))} {
		for what, c := range map[string]struct {
			change func(path string) error
			says   []string
		}{
			"vanishes": {os.Remove, []string{"no such file"}},
			"shrinks":  {func(path string) error { return os.Truncate(path, 1000) }, []string{fmt.Sprintf("has shrunk from %d to 1000 bytes", len(content))}},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				checkpoints, to, path := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), name)
				b := newBoard()
				life := func(ctx context.Context, rate int) *Running {
					r, _ := launch(t, ctx, func(job *Job) error {
						job.Name, job.From = "copy", Latest
						job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: checkpoints}
						job.Restart.Strategy = "none"
						copies(job, file.Source{Path: path, Rate: rate}, to)
						return nil
					}, announced(b))
					return r
				}
				put(t, path, content)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				r := life(ctx, lineCount/10)
				b.await(t, 3, "checkpoint")
				stop()
				if err := wait(t, r); !errors.Is(err, ErrSuspended) {
					t.Fatal(err)
				}
				if err := c.change(path); err != nil {
					t.Fatal(err)
				}
				wants(t, wait(t, life(t.Context(), 0)), append(c.says, `operator "in": read: open "`+path+`" at byte `)...)
				put(t, path, content)
				if err := wait(t, life(t.Context(), 0)); err != nil {
					t.Fatal(err)
				}
				same(t, "output", lines(t, to), upTo(lineCount))
			})
		}
	}
}

// A directory that can't be read isn't taken for an empty one, nor is it passed over.
func TestDirectoryThatCanNotBeReadIsNamedAndReadLater(t *testing.T) {
	for _, strategy := range []string{"none", "fixed-delay"} {
		t.Run(strategy, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			put(t, from+"/a", []byte("1\n"))
			put(t, from+"/sub/b", []byte("2\n"))
			var tries atomic.Int32
			broken := faults(func(op, path string) error {
				if op == "list" && path == from+"/sub" && tries.Add(1) < 5 {
					return &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
				}
				return nil
			})
			r, _ := launch(t, t.Context(), func(job *Job) error {
				job.Restart = Restart{Strategy: strategy, Attempts: 10, Delay: time.Millisecond}
				copies(job, file.Source{Path: from, FileSystems: broken}, to)
				return nil
			})
			err := wait(t, r)
			if strategy == "none" {
				wants(t, err, `list "`+from+`/sub": `, "permission denied")
				same(t, "output", lines(t, to), nil)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			same(t, "output", lines(t, to), []string{"1", "2"})
		})
	}
}

// A disk is full for a while, below some directories, as one operation finds out.
type disk struct {
	*board
	full  atomic.Bool
	below []string
	op    string
}

func (d *disk) strike(op, path string) error {
	under := func(dir string) bool { return strings.HasPrefix(path, dir+"/") }
	if !d.full.Load() || op != d.op || !slices.ContainsFunc(d.below, under) {
		return nil
	}
	d.say("full")
	return filesystem.Torn{Bytes: 3, Err: &fs.PathError{Op: op, Path: path, Err: syscall.ENOSPC}}
}

// While a disk is full, checkpoints or attempts fail, as the job's settings say;
// when it has room again the job goes on, and its output is exact.
func TestFullDiskDelaysAJobAndLosesNothing(t *testing.T) {
	settings := map[string]func(*Job){
		"restarted": func(job *Job) {
			job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1 << 30, Delay: time.Millisecond}
		},
		"tolerated": func(job *Job) {
			job.Restart.Strategy = "none"
			job.Checkpoints.TolerableFailures = 1 << 30
		},
		"failed": func(job *Job) { job.Restart.Strategy = "none" },
	}
	for name, set := range settings {
		for i := range 9 {
			op, where := []string{"create", "write", "sync"}[i%3], []string{"checkpoints", "output", "both"}[i/3]
			t.Run(fmt.Sprint(name, " ", op, " ", where), func(t *testing.T) {
				t.Parallel()
				checkpoints, to := t.TempDir(), t.TempDir()
				b := newBoard()
				d := &disk{board: b, op: op, below: map[string][]string{"checkpoints": {checkpoints}, "output": {to}, "both": {checkpoints, to}}[where]}
				files := faults(d.strike)
				in := count(b, "in", 100)
				life := func() *Running {
					r, _ := launch(t, t.Context(), func(job *Job) error {
						job.Name, job.From, job.Parallelism = "full", Latest, 2
						job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: checkpoints}
						set(job)
						counts := Count(KeyBy(From(job, "in", in), func(n int) int { return n % 7 }), "count")
						To(counts, "out", file.Sink[Pair[int, int64]]{Dir: to, FileSystems: files, Format: printed[Pair[int, int64]]("").Format})
						Do(counts, "seen", func(p Pair[int, int64]) error { b.say("seen %v", p); return nil })
						return nil
					}, func(env *environment) { env.files = files })
					return r
				}
				r := life()
				in.let(40)
				b.await(t, 1, "seen {4 6}") // the number 39
				d.full.Store(true)
				in.let(60)
				b.await(t, 1, "full")
				if name == "failed" {
					wants(t, wait(t, r), "no space left on device")
					d.full.Store(false)
					r = life()
				} else {
					b.await(t, 5, "full")
					d.full.Store(false)
				}
				in.let(100)
				if err := wait(t, r); err != nil {
					t.Fatal(err)
				}
				var want []string
				for n := range 100 {
					want = append(want, fmt.Sprintf("{%d %d}", n%7, n/7+1))
				}
				same(t, "output", lines(t, to), want)
				if failures := r.Failures(); name == "restarted" {
					if len(failures) == 0 {
						t.Error("nothing has failed")
					} else {
						wants(t, failures[0].Err, "no space left on device")
					}
				} else if len(failures) > 0 {
					t.Errorf("failures: %v", failures)
				}
			})
		}
	}
}
