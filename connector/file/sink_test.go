package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/record"
)

const (
	jobA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	jobB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func number(dst []byte, v int) []byte { return append(strconv.AppendInt(dst, int64(v), 10), '\n') }

func numbers(files filesystem.FileSystem) Sink[int] {
	return Sink[int]{Dir: "memory:///out", Format: number, FileSystems: filesystem.Set{"memory": files}}
}

func openWriter(t testing.TB, s Sink[int], at situation) connector.Writer[int, Part] {
	t.Helper()
	w, err := s.Open(context.Background(), &at)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func openCommitter(t testing.TB, s Sink[int], at *situation) connector.Committer[Part] {
	t.Helper()
	c, err := s.OpenCommitter(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func writeNumbers(t testing.TB, w connector.Writer[int, Part], values ...int) {
	t.Helper()
	if err := w.Write(context.Background(), &record.Batch[int]{Values: values}); err != nil {
		t.Fatal(err)
	}
}

func prepare(t testing.TB, w connector.Writer[int, Part]) []Part {
	t.Helper()
	parts, err := w.Prepare(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func of(checkpoint uint64, parts ...Part) (due []connector.Committable[Part]) {
	for _, p := range parts {
		due = append(due, connector.Committable[Part]{Checkpoint: checkpoint, Value: p})
	}
	return due
}

// contents returns the files in the output directory, by name.
func contents(t testing.TB, m filesystem.FileSystem) map[string]string {
	t.Helper()
	entries, err := m.List("/out")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range entries {
		r, err := m.Open("/out/" + e.Name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		texts[e.Name] = string(text)
	}
	return texts
}

// A run is a job of two subtasks that writes numbers through the sink, with a
// checkpoint after every few, as the engine would do it.
type run struct {
	t      *testing.T
	memory *filesystem.Memory
	seen   map[string]string // final files, since they were first seen

	attempts  int
	completed checkpoint // in safe storage

	fault      fault
	at         int // the operation that it strikes, from 1
	operations int
	dead       bool
}

type checkpoint struct {
	number  uint64
	next    int // the first number that isn't written yet
	pending []connector.Committable[Part]
}

// A fault is what befalls one operation on the file system.
type fault struct {
	kill  bool // the machine dies; else the operation returns an error
	after bool // when the operation is done; else before
	torn  bool // part of a write is done
}

const (
	subtasks = 2
	interval = 15 // records
	records  = 4 * interval
)

// A stop is what a process panics with when it is killed.
type stop struct{}

func (r *run) strike(op string) error {
	switch {
	case r.dead:
		panic(stop{})
	case r.operations != r.at:
		return nil
	case r.fault.kill:
		r.dead = true
		panic(stop{})
	case op == "lock" && r.fault.after: // a lock that nobody holds
		return nil
	case r.fault.torn && op == "write":
		return filesystem.Torn{Bytes: 3, Err: syscall.ENOSPC}
	}
	return syscall.EIO
}

func (r *run) files() filesystem.FileSystem {
	return &filesystem.Faulty{
		FileSystem: r.memory,
		Before: func(op, _ string) error {
			if r.operations++; r.fault.after {
				return nil
			}
			return r.strike(op)
		},
		After: func(op, _ string) error {
			if !r.fault.after {
				return nil
			}
			return r.strike(op)
		},
	}
}

// attempt goes on from the completed checkpoint.
func (r *run) attempt() (err error) {
	defer func() {
		if r.dead {
			recover()
			err = errors.New("killed")
		}
	}()
	r.attempts++
	sink, ctx := numbers(r.files()), context.Background()
	sink.RollBytes = 24
	name := fmt.Sprint("a", r.attempts)
	master := &situation{job: jobA, attempt: name, restoredJob: jobA, restored: r.completed.number}
	c, err := sink.OpenCommitter(ctx, master)
	if err != nil {
		return err
	}
	defer r.close(c, &err)
	if err := c.Recover(ctx, r.completed.pending); err != nil {
		return err
	}
	r.holds(r.completed.next)
	if master.log.Len() > 0 {
		r.t.Errorf("a resumed job warns: %s", &master.log)
	}

	var writers []connector.Writer[int, Part]
	for i := range subtasks {
		w, err := sink.Open(ctx, &situation{job: jobA, attempt: name, subtask: i})
		if err != nil {
			return err
		}
		defer r.close(w, &err)
		w.(*writer[int]).piece, w.(*writer[int]).loose = 4+100*i, 10+100*i // the second writes only when a file ends
		writers = append(writers, w)
	}
	return r.work(ctx, c, writers)
}

// close closes what a living process would close.
func (r *run) close(c io.Closer, err *error) {
	if !r.dead {
		*err = errors.Join(*err, c.Close())
	}
}

// work is the rest of the job. A checkpoint whose preparation fails is followed
// by the next; what other subtasks had prepared for it is still pending.
func (r *run) work(ctx context.Context, c connector.Committer[Part], writers []connector.Writer[int, Part]) error {
	now := checkpoint{number: r.completed.number, next: r.completed.next}
	for r.completed.next < records {
		if now.number++; now.number > 20 {
			r.t.Fatal("no checkpoint succeeds")
		}
		for end := min(records, now.next+interval); now.next < end; now.next++ {
			if err := writers[now.next%subtasks].Write(ctx, &record.Batch[int]{Values: []int{now.next}}); err != nil {
				return err
			}
		}
		var failed error
		for i, w := range writers {
			parts, err := w.Prepare(ctx)
			failed = errors.Join(failed, err)
			for _, p := range parts {
				now.pending = append(now.pending, connector.Committable[Part]{Checkpoint: now.number, Subtask: i, Value: p})
			}
		}
		if failed != nil {
			continue
		}
		r.completed = now
		if err := c.Commit(ctx, now.pending); err != nil {
			return err
		}
		now.pending = nil
		r.holds(now.next)
	}
	return nil
}

// holds checks the law: the final files hold the numbers below n, each once and
// in order within a subtask, and no final file ever changes.
func (r *run) holds(n int) {
	r.t.Helper()
	var got []int
	last := map[int]int{}
	texts := contents(r.t, r.memory)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		p, ok := parseFinal(name)
		if !ok {
			continue
		}
		if before, ok := r.seen[name]; ok && before != texts[name] {
			r.t.Errorf("%s has changed", name)
		}
		r.seen[name] = texts[name]
		for _, line := range strings.Fields(texts[name]) {
			v, _ := strconv.Atoi(line)
			if before, ok := last[p.subtask]; ok && before > v {
				r.t.Errorf("subtask %d: %d comes after %d", p.subtask, v, before)
			}
			last[p.subtask] = v
			got = append(got, v)
		}
	}
	for name := range r.seen {
		if _, ok := texts[name]; !ok {
			r.t.Errorf("%s has gone", name)
		}
	}
	slices.Sort(got)
	want := make([]int, n)
	for i := range want {
		want[i] = i
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("the final files hold %v, want the numbers below %d", got, n)
	}
}

// Whatever befalls whichever operation on the file system, the job, restarted,
// ends with each record once, in files that never change, and leaves no other
// file behind.
func TestEachRecordOnceWhateverBefallsAnyOperation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	survives := map[string]func(filesystem.Change) int{
		"nothing unsynced":    nil,
		"everything unsynced": func(c filesystem.Change) int { return c.Bytes },
		"anything unsynced":   func(c filesystem.Change) int { return random.IntN(c.Bytes + 1) },
	}
	for _, f := range []fault{{}, {after: true}, {torn: true}, {kill: true}, {kill: true, after: true}} {
		for what, keep := range survives {
			n := 1
			for ; ; n++ {
				r := run{t: t, memory: filesystem.NewMemory(), seen: map[string]string{}, fault: f, at: n}
				for err := r.attempt(); err != nil; err = r.attempt() {
					if r.attempts > 3 {
						t.Fatalf("%+v at %d: %v", f, n, err)
					}
					if r.dead {
						r.dead = false
						r.memory.Crash(keep)
					}
				}
				r.ended()
				if t.Failed() {
					t.Fatalf("%+v at operation %d, %s survives", f, n, what)
				}
				if r.operations < n {
					break
				}
			}
			t.Logf("%+v: %d operations", f, n)
		}
	}
}

func (r *run) ended() {
	r.holds(records)
	for name := range contents(r.t, r.memory) {
		if _, ok := parseFinal(name); !ok {
			r.t.Errorf("%s is left", name)
		}
	}
	if _, err := r.memory.Lock("/out"); err != nil {
		r.t.Error(err)
	}
}

// S97: intervals without records make no files and nothing to commit.
func TestNoRecordsNoFile(t *testing.T) {
	m := filesystem.NewMemory()
	c := openCommitter(t, numbers(m), &situation{job: jobA, attempt: "1"})
	w := openWriter(t, numbers(m), situation{job: jobA, attempt: "1"})
	for range 3 {
		writeNumbers(t, w)
		if parts := prepare(t, w); parts != nil {
			t.Errorf("got %v", parts)
		}
		if err := c.Commit(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(w.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if got := contents(t, m); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// S106: a name is never given twice, neither in an attempt whose files have all
// been committed, nor in the next, at another parallelism, nor by another job.
func TestANameIsNeverGivenTwice(t *testing.T) {
	m := filesystem.NewMemory()
	names, n, number := map[string]bool{}, 0, uint64(0)
	for _, at := range []situation{{job: jobA, attempt: "1"}, {job: jobA, attempt: "2"}, {job: jobA, attempt: "2", subtask: 1}, {job: jobB, attempt: "1"}} {
		c, w := openCommitter(t, numbers(m), &at), openWriter(t, numbers(m), at)
		for range 3 {
			n, number = n+1, number+1
			writeNumbers(t, w, n)
			parts := prepare(t, w)
			if err := c.Commit(t.Context(), of(number, parts...)); err != nil {
				t.Fatal(err)
			}
			names[parts[0].Name] = true
		}
		if err := errors.Join(w.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if got := contents(t, m); len(names) != n || len(got) != n {
		t.Errorf("%d files have %d names and %d are there", n, len(names), len(got))
	}
}

// S107: two subtasks have prepared files and written more at the time of the
// crash; the restored job has three. The final files hold what was prepared, and
// what came later is gone.
func TestWhatWasWrittenAfterTheBarrierIsRemoved(t *testing.T) {
	m := filesystem.NewMemory()
	var pending []connector.Committable[Part]
	openCommitter(t, numbers(m), &situation{job: jobA, attempt: "1"})
	for i := range 2 {
		w := openWriter(t, numbers(m), situation{job: jobA, attempt: "1", subtask: i})
		writeNumbers(t, w, i, i, i)
		pending = append(pending, of(1, prepare(t, w)...)...)
		writeNumbers(t, w, i+10, i+10)
		prepare(t, w) // for a checkpoint that is never completed
		writeNumbers(t, w, i+20)
	}
	m.Crash(func(c filesystem.Change) int { return c.Bytes })

	c := openCommitter(t, numbers(m), &situation{job: jobA, attempt: "2", restoredJob: jobA, restored: 1})
	var writers []connector.Writer[int, Part]
	for i := range 3 {
		w := openWriter(t, numbers(m), situation{job: jobA, attempt: "2", subtask: i})
		writers = append(writers, w)
	}
	if err := c.Recover(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	for i, w := range writers {
		writeNumbers(t, w, i+30)
		if err := c.Commit(t.Context(), of(2, prepare(t, w)...)); err != nil {
			t.Fatal(err)
		}
	}
	var texts []string
	for _, text := range contents(t, m) {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	if want := []string{"0\n0\n0\n", "1\n1\n1\n", "30\n", "31\n", "32\n"}; !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

// S110: a pending file that somebody has removed is named, with its checkpoint;
// so is one that has another length, and a final file that isn't ours.
func TestAPendingFileThatIsNotAsItWasIsNamed(t *testing.T) {
	const hidden, final = ".part-" + jobA + "-0000-1-00001", "part-" + jobA + "-00000005-0000-1-00001"
	cases := map[string]struct {
		files map[string]string
		part  Part
		want  string
	}{
		"vanished":      {nil, Part{hidden, 4}, "the file has vanished"},
		"longer":        {map[string]string{hidden: "12345"}, Part{hidden, 4}, "the file has 5 bytes, not 4"},
		"another there": {map[string]string{hidden: "1234", final: "12345"}, Part{hidden, 4}, "is there already with 5 bytes, not 4"},
		"strange name":  {nil, Part{"../passwd", 4}, "no name that the file sink gives"},
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			m := filesystem.NewMemory()
			for name, text := range x.files {
				put(t, m, path.Join("/out", name), text)
			}
			c := openCommitter(t, numbers(m), &situation{job: jobA, attempt: "2"})
			err := c.Recover(t.Context(), of(5, x.part))
			if err == nil || !strings.Contains(err.Error(), x.want) ||
				!strings.HasPrefix(err.Error(), fmt.Sprintf("commit %q of checkpoint 5: ", path.Join("/out", x.part.Name))) {
				t.Errorf("got %v, want: %s", err, x.want)
			}
			if got := contents(t, m); !maps.Equal(got, x.files) {
				t.Errorf("got %v, want %v", got, x.files)
			}
		})
	}
}

// Files have an order: the first that can't be committed holds the later ones
// back (the exception to S100), and all come with the next try.
func TestCommitStopsAtTheFirstErrorAndMayBeRepeated(t *testing.T) {
	m := filesystem.NewMemory()
	renames := 0
	files := &filesystem.Faulty{FileSystem: m, Before: func(op, _ string) error {
		if op == "rename" {
			if renames++; renames == 2 {
				return syscall.EIO
			}
		}
		return nil
	}}
	c := openCommitter(t, numbers(files), &situation{job: jobA, attempt: "1"})
	w := openWriter(t, numbers(files), situation{job: jobA, attempt: "1"})
	var due []connector.Committable[Part]
	for n := range 3 {
		writeNumbers(t, w, n)
		due = append(due, of(uint64(n+1), prepare(t, w)...)...)
	}
	for i, want := range []int{1, 3, 3} {
		err := c.Commit(t.Context(), due)
		if failed := i == 0; (err != nil) != failed {
			t.Errorf("commit %d: %v", i+1, err)
		}
		final := 0
		for name := range contents(t, m) {
			if p, ok := parseFinal(name); ok {
				final++
				if p.checkpoint > uint64(want) {
					t.Errorf("commit %d: %s comes before those of older checkpoints", i+1, name)
				}
			}
		}
		if final != want {
			t.Errorf("commit %d: %d files are final, want %d", i+1, final, want)
		}
	}
}

// Each operation of a Prepare, and then that of the next, fails for a while; the
// writer holds everything until one succeeds.
func TestAFullDiskMakesPrepareFailAndLosesNothing(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "close", "open", "read"} {
		for _, torn := range []int{0, 1, 7, 100} {
			m := filesystem.NewMemory()
			full := map[string]int{}
			files := forgetful(m, func(op, _ string) error {
				if full[op] == 0 {
					return nil
				}
				full[op]--
				return filesystem.Torn{Bytes: torn, Err: syscall.ENOSPC}
			})
			w := openWriter(t, numbers(files), situation{job: jobA, attempt: "1"})
			w.(*writer[int]).loose, w.(*writer[int]).piece = 16, 8
			var got, want string
			for n := range 12 {
				for range n {
					writeNumbers(t, w, n)
					want = string(number([]byte(want), n))
				}
				full = map[string]int{op: 2, "sync": 2}
				parts, err := w.Prepare(t.Context())
				for i := 0; err != nil; i++ {
					if i > 5 {
						t.Fatal(err)
					}
					if !errors.Is(err, syscall.ENOSPC) {
						t.Fatal(err)
					}
					parts, err = w.Prepare(t.Context())
				}
				full = nil
				for _, p := range parts {
					text := contents(t, files)[p.Name]
					if int64(len(text)) != p.Size {
						t.Errorf("%v has %d bytes", p, len(text))
					}
					got += text
				}
			}
			if got != want {
				t.Errorf("%s, %d bytes of a write got through: got %q, want %q", op, torn, got, want)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if got := contents(t, m); len(got) != 11 {
				t.Errorf("%d files are there, want the 11 prepared ones", len(got))
			}
		}
	}
}

// forgetful returns a disk that forgets what a failed sync was about, although
// the next sync succeeds: that reads as zeros.
func forgetful(m *filesystem.Memory, before func(op, path string) error) *filesystem.Faulty {
	synced, forgotten := map[string]int64{}, map[string]bool{}
	return &filesystem.Faulty{
		FileSystem: m,
		Before: func(op, path string) error {
			err := before(op, path)
			if op == "sync" && err != nil {
				forgotten[path] = true
			}
			return err
		},
		After: func(op, path string) error {
			if op != "sync" || forgotten[path] {
				return nil
			}
			e, err := m.Stat(path)
			synced[path] = e.Size
			return err
		},
		Spoil: func(path string, offset int64, p []byte) {
			if forgotten[path] {
				clear(p[min(max(synced[path]-offset, 0), int64(len(p))):])
			}
		},
	}
}

func TestAFileThatWasNotPreparedGoesWithItsWriter(t *testing.T) {
	m := filesystem.NewMemory()
	s := numbers(m)
	s.RollBytes = 8
	w := openWriter(t, s, situation{job: jobA, attempt: "1"})
	writeNumbers(t, w, 1)
	prepare(t, w)
	w.(*writer[int]).piece = 1
	writeNumbers(t, w, 1000, 2000, 3000)
	if got := contents(t, m); len(got) != 3 {
		t.Errorf("got %v, want a prepared, an ended and an open file", got)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if got := contents(t, m); len(got) != 1 {
		t.Errorf("got %v, want the prepared file", got)
	}
}

// A second job can't write to the directory while the first one lives. Then it
// may, leaves the first one's unfinished files alone, and names them.
func TestASecondJobInTheDirectory(t *testing.T) {
	m := filesystem.NewMemory()
	first := openCommitter(t, numbers(m), &situation{job: jobA, attempt: "1"})
	w := openWriter(t, numbers(m), situation{job: jobA, attempt: "1"})
	writeNumbers(t, w, 1)
	left := prepare(t, w)[0].Name

	_, err := numbers(m).OpenCommitter(t.Context(), &situation{job: jobB, attempt: "1"})
	if !errors.Is(err, filesystem.ErrLocked) || !strings.Contains(err.Error(), `"/out"`) {
		t.Errorf("got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, m, "/out/.part-of-another-program", "")
	at := &situation{job: jobB, attempt: "1"}
	if err := openCommitter(t, numbers(m), at).Recover(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, m); got[left] != "1\n" || len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if log := at.log.String(); !strings.Contains(log, left) || strings.Contains(log, "another-program") {
		t.Errorf("got %s", log)
	}
}

// A new job that starts from an older checkpoint of another: that one's
// unfinished files go, its pending file is committed, and its files that are
// newer than the checkpoint are named.
func TestAJobThatStartsFromAnOlderCheckpoint(t *testing.T) {
	m := filesystem.NewMemory()
	c := openCommitter(t, numbers(m), &situation{job: jobA, attempt: "1"})
	w := openWriter(t, numbers(m), situation{job: jobA, attempt: "1"})
	var pending []connector.Committable[Part]
	for n := uint64(7); n < 10; n++ {
		writeNumbers(t, w, int(n))
		due := of(n, prepare(t, w)...)
		if n == 7 {
			pending = due
		}
		if err := c.Commit(t.Context(), due); err != nil {
			t.Fatal(err)
		}
	}
	writeNumbers(t, w, 10)
	prepare(t, w)
	m.Crash(nil)

	at := &situation{job: jobB, attempt: "1", restoredJob: jobA, restored: 7}
	if err := openCommitter(t, numbers(m), at).Recover(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	const name = "part-" + jobA + "-%08d-0000-1-%05d"
	want := map[string]string{}
	for n := 7; n < 10; n++ {
		file := fmt.Sprintf(name, n, n-6)
		want[file] = fmt.Sprintln(n)
		if newer := n > 7; strings.Contains(at.log.String(), file) != newer {
			t.Errorf("%s is newer: %v; got %s", file, newer, &at.log)
		}
	}
	if got := contents(t, m); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAFileEndsByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := filesystem.NewMemory()
		s := numbers(m)
		s.RollAfter = time.Minute
		w := openWriter(t, s, situation{job: jobA, attempt: "1"})
		for n := range 7 {
			writeNumbers(t, w, n)
			time.Sleep(25 * time.Second)
		}
		var texts []string
		for _, p := range prepare(t, w) {
			texts = append(texts, contents(t, m)[p.Name])
		}
		if want := []string{"0\n1\n2\n", "3\n4\n5\n", "6\n"}; !slices.Equal(texts, want) {
			t.Errorf("got %q, want %q", texts, want)
		}
	})
}

func TestNamesSayWhatTheyWereMadeFrom(t *testing.T) {
	for _, p := range []part{{jobA, 0, 0, "1", 1}, {jobB, 0, 12345, "x7f", 123456789}} {
		if got, ok := parseHidden(p.hidden()); !ok || got != p {
			t.Errorf("%s: got %+v, want %+v", p.hidden(), got, p)
		}
		p.checkpoint = 1234567890
		if got, ok := parseFinal(p.final()); !ok || got != p {
			t.Errorf("%s: got %+v, want %+v", p.final(), got, p)
		}
	}
	for _, name := range []string{"", ".part", ".part----", ".part--0000-1-00001", ".part-a-0-1-00001", ".part-a-0000-1-x", "part-a-0000-1-00001"} {
		if p, ok := parseHidden(name); ok {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}

func TestASinkWithoutWhatItNeedsIsRefused(t *testing.T) {
	for want, s := range map[string]Sink[int]{
		"no Format":          {Dir: t.TempDir()},
		`no file system for`: {Dir: "s3://bucket/out", Format: number},
		"it is empty":        {Format: number},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := (Sink[int]{Dir: "out", Format: number}).Check(); err != nil {
		t.Error(err)
	}
}

// The same on a real disk: lock, rename, a second owner, the directory made.
func TestOnALocalDisk(t *testing.T) {
	dir := t.TempDir() + "/made/by/the sink"
	s := Sink[string]{Dir: dir, Format: AppendLine}
	at := &situation{job: jobA, attempt: "1"}
	c, err := s.OpenCommitter(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenCommitter(t.Context(), &situation{job: jobB}); !errors.Is(err, filesystem.ErrLocked) {
		t.Errorf("got %v", err)
	}
	w, err := s.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if err := w.Write(t.Context(), &record.Batch[string]{Values: []string{"a line", strconv.Itoa(n)}}); err != nil {
			t.Fatal(err)
		}
		parts, err := w.Prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Commit(t.Context(), of(uint64(n+1), parts...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Write(t.Context(), &record.Batch[string]{Values: []string{"too late"}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
	src := Lines(dir)
	var got []string
	for _, split := range enumerate(t, src) {
		got = append(got, drain(t, open(t, src), split, 10)...)
	}
	if want := []string{"a line", "0", "a line", "1", "a line", "2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if c, err = s.OpenCommitter(t.Context(), at); err != nil {
		t.Error("the lock wasn't released:", err)
	} else if err := c.Close(); err != nil {
		t.Error(err)
	}
}
