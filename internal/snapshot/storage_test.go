package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

const jobDir = "/cp/0123456789abcdef0123456789abcdef"

func directory(files filesystem.FileSystem) *Directory {
	rng := rand.New(rand.NewPCG(1, 2))
	return &Directory{Files: files, Path: jobDir, URI: "file://" + jobDir, Random: rng.Uint64, Log: slog.New(slog.DiscardHandler)}
}

// write stores a checkpoint of one operator with one big and one small file.
func write(t *testing.T, d *Directory, n uint64) Checkpoint {
	t.Helper()
	if err := d.Begin(n); err != nil {
		t.Fatal(err)
	}
	cp := Checkpoint{Number: n, JobID: path.Base(d.Path), Operators: []Operator{{
		ID: graph.ID{1}, UID: "count", Parallelism: 1, MaxParallelism: 128,
		Subtasks: []State{writeTask(t, d, n)[graph.ID{1}]},
	}}}
	if err := d.Store(cp); err != nil {
		t.Fatal(err)
	}
	return cp
}

func writeTask(t *testing.T, d *Directory, n uint64) Task {
	t.Helper()
	h := state.Handle{Last: 127}
	for _, size := range []int{5000, 10} {
		f := put(t, Target{Files: d.Files, Dir: d.chk(n), Inline: 1000, Random: d.Random}, strings.Repeat("x", size))
		h.Files = append(h.Files, f)
	}
	return Task{graph.ID{1}: {Keyed: []state.Handle{h}}}
}

func put(t *testing.T, to Target, data string) state.File {
	t.Helper()
	w, err := to.Create(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk([]byte(data), 7) {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	f, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// tree lists all files and directories below dir.
func tree(files filesystem.FileSystem, dir string) (all []string) {
	entries, _ := files.List(dir)
	for _, e := range entries {
		all = append(all, path.Join(dir, e.Name))
		if e.Dir {
			all = append(all, tree(files, path.Join(dir, e.Name))...)
		}
	}
	return all
}

func newest(d *Directory) string {
	found, err := d.Latest(context.Background(), true)
	switch {
	case err != nil:
		return "error"
	case found.Checkpoint == nil:
		return "none"
	}
	return fmt.Sprint(found.Checkpoint.Number, " of ", found.Complete, " up to ", found.Highest, " skipped ", len(found.Skipped))
}

func TestSmallFilesStayInline(t *testing.T) {
	files := filesystem.NewMemory()
	target := Target{Files: files, Dir: "/d", Inline: 20, Random: rand.New(rand.NewPCG(1, 2)).Uint64}
	if f := put(t, target, strings.Repeat("a", 19)); f.Name != "" || f.Size != 19 || len(f.Data) != 19 {
		t.Errorf("19 bytes: %+v", f)
	}
	big := put(t, target, strings.Repeat("a", 20))
	if !named(big.Name) || big.Size != 20 || len(big.Data) != 0 {
		t.Errorf("20 bytes: %+v", big)
	}
	if f := put(t, Target{}, strings.Repeat("a", 1<<20)); f.Name != "" {
		t.Errorf("without a file system: %+v", f)
	}
	files.Crash(nil)
	if err := Verify(context.Background(), Origin{files, "/d"}, Checkpoint{Operators: []Operator{{Subtasks: []State{{Lists: []List{{File: big}}}}}}}); err != nil {
		t.Errorf("after a crash of the machine: %v", err)
	}
}

func TestAbortedFilesAreGone(t *testing.T) {
	files := filesystem.NewMemory()
	target := Target{Files: files, Dir: "/d", Random: rand.New(rand.NewPCG(1, 2)).Uint64}
	w, _ := target.Create(context.Background())
	w.Write([]byte("abc"))
	w.Abort()

	full := &filesystem.Faulty{FileSystem: files, Before: func(op, _ string) error {
		if op == "sync" {
			return syscall.ENOSPC
		}
		return nil
	}}
	target.Files = full
	w, _ = target.Create(context.Background())
	w.Write([]byte("abc"))
	if _, err := w.Finish(); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if got := tree(files, "/d"); len(got) > 0 {
		t.Error(got)
	}
}

// What is written goes out a buffer at a time, or as much as may stay inline, if that is
// more; and all of it.
func TestFilesAreWrittenABufferAtATime(t *testing.T) {
	for _, test := range []struct{ inline, buffer, writes int }{
		{0, 0, 143}, {0, 100, 10}, {0, 1000, 1}, {200, 100, 5}, {200, 300, 4}, {1001, 10, 0},
	} {
		memory, writes := filesystem.NewMemory(), 0
		files := &filesystem.Faulty{FileSystem: memory, Before: func(op, _ string) error {
			if op == "write" {
				writes++
			}
			return nil
		}}
		data := strings.Repeat("seven b", 143)[:1000]
		target := Target{Files: files, Dir: "/d", Inline: test.inline, Buffer: test.buffer, Random: rand.New(rand.NewPCG(1, 2)).Uint64}
		f := put(t, target, data)
		if writes != test.writes || f.Size != 1000 {
			t.Errorf("%+v: %d writes of %d bytes", test, writes, f.Size)
		}
		b, err := Origin{memory, "/d"}.Open(context.Background(), f)
		got := make([]byte, 1000)
		if err == nil {
			_, err = b.ReadAt(got, 0)
		}
		if err != nil || string(got) != data {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

// A file whose name is taken again and again is another's, and isn't deleted.
func TestNamesThatAreTakenStay(t *testing.T) {
	files := filesystem.NewMemory()
	target := Target{Files: files, Dir: "/d", Random: func() uint64 { return 7 }}
	put(t, target, "first")
	before := tree(files, "/d")
	w, err := target.Create(context.Background())
	if err == nil {
		_, err = w.Write([]byte("second"))
		w.Abort()
	}
	if !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if got := tree(files, "/d"); !slices.Equal(got, before) {
		t.Errorf("there is %q, and was %q", got, before)
	}
}

// In memory a state may have so many bytes, and an acknowledgement: the error says how
// many there are and may be, and what to do.
func TestWhatIsTooLargeForMemory(t *testing.T) {
	target := Target{Most: 10}
	if f := put(t, target, "0123456789"); f.Size != 10 {
		t.Error(f)
	}
	w, _ := target.Create(context.Background())
	_, err := w.Write([]byte("0123456789a"))
	w.Abort()
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "a state has 11 bytes, and may have 10; set execution.checkpointing.dir") {
		t.Error(err)
	}
	part := Task{graph.ID{1}: {
		Keyed:   []state.Handle{{Files: []state.File{{Data: make([]byte, 10), Size: 10}, {Name: "x", Size: 1000}}}},
		Splits:  [][]byte{make([]byte, 5)},
		Pending: []Pending{{Data: make([]byte, 7)}},
	}}
	if err := part.Fits(22); err != nil {
		t.Error(err)
	}
	if err := part.Fits(21); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "(execution.checkpointing.max-acknowledgement-size) has 22 bytes, and may have 21") {
		t.Error(err)
	}
}

// S32: what clears away a checkpoint that failed, or a part of it that came late,
// deletes nothing of a completed one, whose files it may refer to.
func TestFailedCheckpointTakesNoFilesOfAnotherAlong(t *testing.T) {
	files := filesystem.NewMemory()
	d := directory(files)
	write(t, d, 5)
	shared := put(t, Target{Files: files, Dir: jobDir + "/shared", Random: d.Random}, "of five")
	before := tree(files, jobDir)
	if err := d.Begin(6); err != nil {
		t.Fatal(err)
	}
	part := writeTask(t, d, 6)
	h := &part[graph.ID{1}].Keyed[0]
	for _, name := range []string{"../shared/" + shared.Name, "../chk-5/" + path.Base(before[1])} {
		h.Files = append(h.Files, state.File{Name: name, Size: 1})
	}
	if err := errors.Join(d.Release(6, part), d.Discard(6)); err != nil {
		t.Error(err)
	}
	if got := tree(files, jobDir); !slices.Equal(got, before) {
		t.Errorf("there is %q, and was %q", got, before)
	}
	if got := newest(d); got != "5 of [5] up to 5 skipped 0" {
		t.Error(got)
	}
}

// S46: wherever writing a checkpoint is cut off, and whatever the machine then
// forgets, it is there whole or not at all, and the one before it is.
func TestStoredWholeOrNotAtAll(t *testing.T) {
	stored := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		files := filesystem.NewMemory()
		write(t, directory(files), 6)
		left := rng.IntN(12) // operations until the kill
		killed := errors.New("killed")
		dying := directory(&filesystem.Faulty{FileSystem: files, Before: func(op, _ string) error {
			if left--; left == 0 && op == "write" {
				return filesystem.Torn{Bytes: rng.IntN(300), Err: killed}
			}
			if left <= 0 {
				return killed
			}
			return nil
		}})
		err := dying.Begin(7)
		if err == nil {
			err = dying.Store(Checkpoint{Number: 7, Operators: sample().Operators[:1]})
		}
		files.Crash(func(c filesystem.Change) int { return rng.IntN(c.Bytes + 1) })

		got := newest(directory(files))
		switch {
		case got == "7 of [6 7] up to 7 skipped 0":
			stored++
		case err == nil:
			t.Fatalf("seed %d: stored, but then: %s", seed, got)
		case !strings.HasPrefix(got, "6 of [6] up to "):
			t.Fatalf("seed %d: %s", seed, got)
		}
	}
	if stored == 0 {
		t.Error("never stored")
	}
}

func TestFullDiskLeavesNothingOfACheckpoint(t *testing.T) {
	files := filesystem.NewMemory()
	d := directory(files)
	write(t, d, 6)
	before := tree(files, jobDir)
	d.Files = &filesystem.Faulty{FileSystem: files, Before: func(op, _ string) error {
		if op == "write" {
			return filesystem.Torn{Bytes: 10, Err: syscall.ENOSPC}
		}
		return nil
	}}
	d.Begin(7)
	if err := d.Store(sample()); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if err := d.Discard(7); err != nil {
		t.Error(err)
	}
	if got := tree(files, jobDir); !slices.Equal(got, before) {
		t.Errorf("%v, but before %v", got, before)
	}
}

// A rename that reports an error may have happened all the same.
func TestUnknownOutcomeIsToldApart(t *testing.T) {
	files := filesystem.NewMemory()
	d := directory(&filesystem.Faulty{FileSystem: files, After: func(op, _ string) error {
		if op == "rename" {
			return errors.New("connection lost")
		}
		return nil
	}})
	d.Begin(7)
	if err := d.Store(Checkpoint{Number: 7}); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if got := newest(d); got != "7 of [7] up to 7 skipped 0" {
		t.Error(got)
	}
}

// S47: another job in the same directory can't be overwritten.
func TestMetadataIsNeverReplaced(t *testing.T) {
	files := filesystem.NewMemory()
	write(t, directory(files), 5)
	if err := directory(files).Store(Checkpoint{Number: 5, JobName: "other"}); !errors.Is(err, fs.ErrExist) || errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	cp, _, err := Load(files, jobDir+"/chk-5")
	if err != nil || cp.JobName == "other" {
		t.Error(cp, err)
	}
	other := directory(files)
	other.Path = "/cp/ffffffffffffffffffffffffffffffff"
	write(t, other, 5)
	if got := newest(directory(files)); got != "5 of [5] up to 5 skipped 0" {
		t.Error(got)
	}
}

// S40: wherever a deletion is interrupted, it can be repeated; what is gone is fine.
func TestDiscardIsRepeatable(t *testing.T) {
	for left := range 8 {
		files := filesystem.NewMemory()
		write(t, directory(files), 3)
		n := 0
		d := directory(&filesystem.Faulty{FileSystem: files, Before: func(op, _ string) error {
			if op == "remove" {
				if n++; n > left {
					return errors.New("killed")
				}
			}
			return nil
		}})
		d.Discard(3)
		if got := newest(directory(files)); got != "none" {
			t.Errorf("%d removed: still there: %s", left, got)
		}
		for range 2 {
			if err := directory(files).Discard(3); err != nil {
				t.Errorf("%d removed: %v", left, err)
			}
		}
		if got := tree(files, jobDir); !slices.Equal(got, []string{jobDir + "/shared", jobDir + "/taskowned"}) {
			t.Errorf("%d removed: %v", left, got)
		}
	}
}

// A machine that dies during or after a deletion may bring back any of the files, but
// never metadata without them.
func TestDiscardedCheckpointDoesNotComeBack(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		files := filesystem.NewMemory()
		write(t, directory(files), 3)
		if err := directory(files).Discard(3); err != nil {
			t.Fatal(err)
		}
		files.Crash(func(c filesystem.Change) int { return rng.IntN(c.Bytes + 1) })
		if got := newest(directory(files)); got != "none" {
			t.Fatalf("seed %d: %s", seed, got)
		}
	}
}

// S43: what isn't ours stays.
func TestClearLeavesForeignFiles(t *testing.T) {
	files := filesystem.NewMemory()
	d := directory(files)
	write(t, d, 1)
	write(t, d, 2)
	w, _ := files.Create("/cp/u.txt")
	w.Close()
	if err := d.Clear(); err != nil {
		t.Error(err)
	}
	if got := tree(files, "/cp"); !slices.Equal(got, []string{"/cp/u.txt"}) {
		t.Error(got)
	}

	write(t, d, 1)
	w, _ = files.Create(jobDir + "/chk-1/notes.txt")
	w.Close()
	if err := d.Clear(); err != nil {
		t.Error(err)
	}
	if got := tree(files, jobDir); !slices.Equal(got, []string{jobDir + "/chk-1", jobDir + "/chk-1/notes.txt"}) {
		t.Error(got)
	}
}

// S62 b, c: a byte that flipped in a state file or in the metadata leads to the
// newest older checkpoint that verifies; nothing is deleted.
func TestLatestFallsBackFromWhatIsCorrupt(t *testing.T) {
	for _, harm := range []string{"state", "_metadata", "missing", "cut"} {
		t.Run(harm, func(t *testing.T) {
			files := filesystem.NewMemory()
			write(t, directory(files), 5)
			cp := write(t, directory(files), 6)
			file := jobDir + "/chk-6/" + cp.Operators[0].Subtasks[0].Keyed[0].Files[0].Name
			if harm == "_metadata" {
				file = jobDir + "/chk-6/_metadata"
			}
			d := directory(&filesystem.Faulty{FileSystem: files, Spoil: func(path string, offset int64, p []byte) {
				if path == file && offset == 0 && harm != "missing" {
					p[len(p)/2] ^= 4
				}
			}})
			switch harm {
			case "missing":
				files.Remove(file)
			case "cut":
				files.Remove(file)
				w, _ := files.Create(file)
				w.Write([]byte("xxx"))
			}
			before := tree(files, jobDir)
			if got := newest(d); got != "5 of [5 6] up to 6 skipped 1" {
				t.Error(got)
			}
			if _, err := d.Latest(context.Background(), false); err == nil || !strings.Contains(err.Error(), "chk-6") {
				t.Errorf("without fallback: %v", err)
			}
			if got := tree(files, jobDir); !slices.Equal(got, before) {
				t.Errorf("%v, but before %v", got, before)
			}
		})
	}
}

// S62 a: what can't be read just now isn't passed over.
func TestLatestNeverSkipsAnIOError(t *testing.T) {
	files := filesystem.NewMemory()
	write(t, directory(files), 5)
	write(t, directory(files), 6)
	for _, op := range []string{"list", "stat", "open", "read"} {
		denied := true
		d := directory(&filesystem.Faulty{FileSystem: files, Before: func(o, path string) error {
			if denied && o == op && (op == "list" || strings.Contains(path, "chk-6")) {
				return fs.ErrPermission
			}
			return nil
		}})
		if _, err := d.Latest(context.Background(), true); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", op, err)
		}
		denied = false
		if got := newest(d); got != "6 of [5 6] up to 6 skipped 0" {
			t.Errorf("%s: %s", op, got)
		}
	}
}

func TestLatestOfNothingButCorruptOnesIsAnError(t *testing.T) {
	files := filesystem.NewMemory()
	d := directory(files)
	if got := newest(d); got != "none" {
		t.Error(got)
	}
	write(t, d, 5)
	d.Files = &filesystem.Faulty{FileSystem: files, Spoil: func(_ string, _ int64, p []byte) { clear(p) }}
	if _, err := d.Latest(context.Background(), true); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// A directory without metadata isn't a checkpoint, but its number is taken (S46).
func TestLatestPassesOverWhatWasNeverComplete(t *testing.T) {
	d := directory(filesystem.NewMemory())
	write(t, d, 5)
	d.Begin(6)
	writeTask(t, d, 6)
	if got := newest(d); got != "5 of [5] up to 6 skipped 0" {
		t.Error(got)
	}
	_, _, err := Load(d.Files, jobDir+"/chk-6")
	if err == nil || !strings.Contains(err.Error(), "incomplete or corrupt metadata") {
		t.Error(err)
	}
}

func TestLoadTakesTheDirectoryOrTheFile(t *testing.T) {
	d := directory(filesystem.NewMemory())
	want := write(t, d, 5)
	for _, at := range []string{jobDir + "/chk-5", jobDir + "/chk-5/_metadata"} {
		cp, dir, err := Load(d.Files, at)
		if err != nil || dir != jobDir+"/chk-5" || !reflect.DeepEqual(cp, want) {
			t.Errorf("%s: %+v %q %v", at, cp, dir, err)
		}
	}
	if _, _, err := Load(d.Files, jobDir+"/chk-9"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// Who gives a job's directory instead of a checkpoint's is told what there is.
func TestLoadOfAJobsDirectoryNamesItsCheckpoints(t *testing.T) {
	d := directory(filesystem.NewMemory())
	write(t, d, 5)
	write(t, d, 6)
	d.Begin(7)
	writeTask(t, d, 7)
	_, _, err := Load(d.Files, jobDir)
	if !errors.Is(err, ErrNoMetadata) || !strings.HasSuffix(err.Error(), "one in chk-5, chk-6") {
		t.Error(err)
	}
}

func TestCleanRemovesWhatDeadProcessesLeft(t *testing.T) {
	d := directory(filesystem.NewMemory())
	write(t, d, 5)
	writeTask(t, d, 5) // of a subtask that was too late
	d.Begin(6)
	writeTask(t, d, 6)
	writeFile(d.Files, jobDir+"/chk-6/._metadata.inprogress.x", []byte("We"))
	d.Begin(7)
	writeFile(d.Files, jobDir+"/chk-7/notes.txt", []byte("mine"))
	keep := append(tree(d.Files, jobDir+"/chk-7"), jobDir+"/chk-7")
	cp := write(t, d, 9)
	d.Begin(10)
	writeTask(t, d, 10) // pending
	keep = append(keep, tree(d.Files, jobDir+"/chk-9")...)
	keep = append(keep, tree(d.Files, jobDir+"/chk-10")...)

	if err := d.Clean(cp.Number); err != nil {
		t.Fatal(err)
	}
	after := tree(d.Files, jobDir)
	for _, name := range keep {
		if !slices.Contains(after, name) {
			t.Errorf("%s is gone", name)
		}
	}
	if n := len(tree(d.Files, jobDir+"/chk-5")); n != 2 {
		t.Errorf("%d files in chk-5", n)
	}
	if slices.Contains(after, jobDir+"/chk-6") {
		t.Error("chk-6 is still there")
	}
	if got := newest(d); got != "9 of [5 9] up to 10 skipped 0" {
		t.Error(got)
	}
}

// S40: a checkpoint that is discarded while others are looked at is no error: the rest is
// cleaned all the same.
func TestCleanDoesWithoutWhatIsDiscardedMeanwhile(t *testing.T) {
	d := directory(filesystem.NewMemory())
	write(t, d, 4)
	d.Begin(5)
	writeTask(t, d, 5)
	write(t, d, 6)
	other, discarded := directory(d.Files), false
	d.Files = &filesystem.Faulty{FileSystem: d.Files, After: func(op, path string) error {
		if op == "list" && path == jobDir && !discarded {
			discarded = true
			return other.Discard(4)
		}
		return nil
	}}
	if err := d.Clean(6); err != nil || !discarded {
		t.Error(discarded, err)
	}
	if got := newest(d); got != "6 of [6] up to 6 skipped 0" {
		t.Error(got)
	}
	if got := tree(other.Files, jobDir+"/chk-5"); len(got) > 0 {
		t.Errorf("there is still %q", got)
	}
}

func TestCleanKeepsWhatOtherCheckpointsReferTo(t *testing.T) {
	d := directory(filesystem.NewMemory())
	d.Begin(5)
	f := writeTask(t, d, 5)[graph.ID{1}].Keyed[0].Files[0]
	writeTask(t, d, 5)
	f.Name = "../chk-5/" + f.Name
	d.Begin(6)
	if err := d.Store(Checkpoint{Number: 6, Operators: []Operator{{Parallelism: 1, MaxParallelism: 1,
		Subtasks: []State{{Keyed: []state.Handle{{Files: []state.File{f}}}}}}}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Clean(6); err != nil {
		t.Fatal(err)
	}
	if got := newest(d); got != "6 of [6] up to 6 skipped 0" {
		t.Error(got)
	}
	if n := len(tree(d.Files, jobDir+"/chk-5")); n != 1 {
		t.Errorf("%d files in chk-5", n)
	}
}

func TestReleaseDeletesWhatALateSubtaskWrote(t *testing.T) {
	d := directory(filesystem.NewMemory())
	d.Begin(5)
	one, other := writeTask(t, d, 5), writeTask(t, d, 5)
	if err := d.Release(5, one); err != nil {
		t.Error(err)
	}
	if n := len(tree(d.Files, jobDir+"/chk-5")); n != 1 {
		t.Errorf("%d files left", n)
	}
	for range 2 {
		if err := d.Release(5, other); err != nil {
			t.Error(err)
		}
	}
	if got := tree(d.Files, jobDir); slices.Contains(got, jobDir+"/chk-5") {
		t.Error(got)
	}
}

func TestMemoryKeepsCheckpoints(t *testing.T) {
	var m Memory
	if found, err := m.Latest(context.Background(), true); err != nil || found.Checkpoint != nil {
		t.Error(found, err)
	}
	cp := sample()
	cp.Operators = cp.Operators[2:]
	for n := range uint64(3) {
		cp.Number = n + 1
		if err := m.Store(cp); err != nil {
			t.Fatal(err)
		}
	}
	m.Discard(1)
	found, err := m.Latest(context.Background(), true)
	if err != nil || !reflect.DeepEqual(*found.Checkpoint, cp) || !slices.Equal(found.Complete, []uint64{2, 3}) || found.Highest != 3 {
		t.Errorf("%+v %v", found, err)
	}
}
