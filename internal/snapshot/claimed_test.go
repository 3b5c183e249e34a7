package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/filesystem"
)

const oldDir = "/old/fedcba9876543210fedcba9876543210"

// claimed is the storage of a job that owns checkpoint 7 of another, beside which that
// one has left others.
func claimed(t *testing.T, files filesystem.FileSystem) *Claimed {
	t.Helper()
	old := directory(files)
	old.Path = oldDir
	write(t, old, 6)
	cp := write(t, old, 7)
	write(t, old, 8)
	return &Claimed{
		Storage: directory(files), Files: files, Path: oldDir + "/chk-7", URI: "file://" + oldDir + "/chk-7", Random: old.Random,
		Number: cp.Number, JobID: cp.JobID, Began: cp.Began,
	}
}

// on is the same storage on another file system.
func (c Claimed) on(files filesystem.FileSystem) *Claimed {
	c.Files, c.Storage = files, directory(files)
	return &c
}

func latest(s Storage) string {
	found, err := s.Latest(context.Background(), true)
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(found.Checkpoint.Number, " in ", found.Dir, " of ", found.Complete, " up to ", found.Highest, " skipped ", len(found.Skipped))
}

func TestClaimedSnapshotIsTheOldestCheckpoint(t *testing.T) {
	files := filesystem.NewMemory()
	c := claimed(t, files)
	around := slices.DeleteFunc(tree(files, "/old"), func(name string) bool { return strings.HasPrefix(name, c.Path) })
	if got, want := latest(c), "7 in "+c.URI+" of [7] up to 7 skipped 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	write(t, c.Storage.(*Directory), 9)
	if got, want := latest(c), "9 in file://"+jobDir+"/chk-9 of [7 9] up to 9 skipped 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for range 2 {
		if err := c.Discard(7); err != nil {
			t.Error(err)
		}
	}
	if got, want := latest(c), "9 in file://"+jobDir+"/chk-9 of [9] up to 9 skipped 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := tree(files, "/old"); !slices.Equal(got, around) {
		t.Errorf("there is %q, and should be %q", got, around)
	}
}

// The job's only checkpoint is damaged: it goes on from the claimed snapshot, which is
// still there. When that is, too, or is gone, it doesn't begin from the beginning.
func TestClaimedSnapshotIsFallenBackTo(t *testing.T) {
	files := filesystem.NewMemory()
	c := claimed(t, files)
	write(t, c.Storage.(*Directory), 9)
	damaged := &filesystem.Faulty{FileSystem: files, Spoil: func(path string, _ int64, p []byte) {
		if strings.HasPrefix(path, jobDir) {
			clear(p)
		}
	}}
	if got, want := latest(c.on(damaged)), "7 in "+c.URI+" of [7 9] up to 9 skipped 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := c.on(damaged).Latest(context.Background(), false); !errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "claimed") {
		t.Errorf("without fallback: %v", err)
	}
	if err := c.Discard(7); err != nil {
		t.Fatal(err)
	}
	if got := latest(c.on(damaged)); !strings.Contains(got, "none of 1 checkpoints") || !strings.Contains(got, "claimed snapshot") {
		t.Error(got)
	}
	if err := c.Storage.Discard(9); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Latest(context.Background(), true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("both are gone: %v", err)
	}
}

// What lies in the claimed snapshot's place now may be another: of another job, or of
// the same job begun anew. It is neither deleted nor gone on from.
func TestAnotherSnapshotInTheClaimedOnesPlaceIsLeft(t *testing.T) {
	for name, change := range map[string]func(*Claimed){
		"of another job":     func(c *Claimed) { c.JobID = "0123" },
		"of another number":  func(c *Claimed) { c.Number = 5 },
		"of another time":    func(c *Claimed) { c.Began++ },
		"not to be read":     func(c *Claimed) { c.Files.Rename(c.Path+"/_metadata", c.Path+"/other") },
		"not a snapshot yet": func(c *Claimed) { c.Files.Rename(c.Path+"/_metadata", c.Path+"/"+unfinished+"x") },
	} {
		files := filesystem.NewMemory()
		c := claimed(t, files)
		change(c)
		before := tree(files, "/old")
		if got := latest(c); !strings.HasPrefix(got, "error: claimed snapshot") {
			t.Errorf("%s: %s", name, got)
		}
		c.Discard(c.Number)
		c.Clear()
		if got := tree(files, "/old"); !slices.Equal(got, before) {
			t.Errorf("%s: there is %q, and was %q", name, got, before)
		}
	}
}

// S40: a claimed snapshot whose deletion was interrupted is none to go on from, and
// the deletion is repeated.
func TestDeletingAClaimedSnapshotIsRepeatable(t *testing.T) {
	for left := range 5 {
		files := filesystem.NewMemory()
		c := claimed(t, files)
		write(t, c.Storage.(*Directory), 9)
		n := 0
		c.on(&filesystem.Faulty{FileSystem: files, Before: func(op, _ string) error {
			if op == "remove" {
				n++
			}
			if n > left {
				return errors.New("killed")
			}
			return nil
		}}).Discard(7)
		if _, _, err := Load(files, c.Path); err == nil {
			t.Errorf("%d removed: it is still there", left)
		}
		found, err := c.Latest(context.Background(), true)
		if again := slices.Contains(found.Complete, 7); err != nil || again != (left < 2) {
			t.Errorf("%d removed: %+v, %v", left, found, err)
		}
		if err := c.Discard(7); err != nil {
			t.Errorf("%d removed: %v", left, err)
		}
		if _, err := files.Stat(c.Path); !errors.Is(err, fs.ErrNotExist) && left != 2 {
			t.Errorf("%d removed: %q", left, tree(files, c.Path))
		}
	}
}

// When the job is over, with the claimed snapshot goes its directory, and no other.
func TestClearingTakesTheClaimedSnapshotAlong(t *testing.T) {
	files := filesystem.NewMemory()
	c := claimed(t, files)
	write(t, c.Storage.(*Directory), 9)
	if err := c.Clear(); err != nil {
		t.Error(err)
	}
	if got := tree(files, oldDir); slices.Contains(got, c.Path) || len(got) < 6 {
		t.Error(got)
	}
	if _, err := files.Stat(jobDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the job's own directory is left: %v", err)
	}
}

// S40: wherever a disposal is interrupted, the snapshot isn't one any more, and it can
// be disposed of again. What isn't the snapshot's stays: files that look like its own,
// and files of several checkpoints.
func TestDisposalIsRepeatableAndExact(t *testing.T) {
	for left := range 8 {
		files := filesystem.NewMemory()
		d := directory(files)
		cp := write(t, d, 3)
		shared := Target{Files: files, Dir: jobDir + "/shared", Random: rand.New(rand.NewPCG(5, 5)).Uint64}
		f := put(t, shared, "of several")
		f.Name = "../shared/" + f.Name
		h := &cp.Operators[0].Subtasks[0].Keyed[0]
		h.Files = append(h.Files, f)
		alike := put(t, Target{Files: files, Dir: jobDir + "/chk-3", Random: shared.Random}, "of nobody")
		n := 0
		dying := &filesystem.Faulty{FileSystem: files, Before: func(op, _ string) error {
			if op == "rename" || op == "remove" {
				n++
			}
			if n > left {
				return errors.New("killed")
			}
			return nil
		}}
		Dispose(context.Background(), dying, jobDir+"/chk-3", cp, d.Random)
		if _, _, err := Load(files, jobDir+"/chk-3"); (err == nil) != (left == 0) {
			t.Errorf("after %d steps: %v", left, err)
		}
		for range 2 {
			rest, err := Dispose(context.Background(), files, jobDir+"/chk-3", cp, d.Random)
			if err != nil || !slices.Equal(rest, []string{jobDir + "/chk-3/" + alike.Name}) {
				t.Errorf("after %d steps: %q, %v", left, rest, err)
			}
		}
		if got := tree(files, jobDir+"/shared"); len(got) != 1 {
			t.Errorf("after %d steps: in shared is %q", left, got)
		}
	}
}
