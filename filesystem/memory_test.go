package filesystem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// put writes a file, without Sync.
func put(t *testing.T, f FileSystem, name, content string) Writer {
	t.Helper()
	w, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	return w
}

// tree describes all files of m.
func tree(t *testing.T, f FileSystem, dir string) (all []string) {
	t.Helper()
	entries, err := f.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(dir, "/") + "/" + e.Name
		if e.Dir {
			all = append(all, tree(t, f, name)...)
			continue
		}
		r, err := f.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name+"="+string(content))
	}
	return all
}

func TestCrashLosesWhatWasNotSynced(t *testing.T) {
	m := NewMemory()
	script := func() {
		*m = *NewMemory()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(put(t, m, "/d/synced", "kept").Sync())
		half := put(t, m, "/d/half", "ab")
		must(half.Sync())
		_, err := io.WriteString(half, "cd")
		must(err)
		put(t, m, "/d/loose", "xyz")
		must(put(t, m, "/d/.tmp", "renamed").Sync())
		must(m.Rename("/d/.tmp", "/d/final"))
		must(put(t, m, "/e/gone", "back").Sync())
		must(m.Remove("/e/gone"))
		must(m.Remove("/e"))
	}

	script()
	m.Crash(nil)
	want := []string{"/d/final=renamed", "/d/half=ab", "/d/synced=kept", "/e/gone=back"}
	if got := tree(t, m, "/"); !slices.Equal(got, want) {
		t.Errorf("nothing kept: %q", got)
	}

	script()
	var asked []string
	m.Crash(func(c Change) int { asked = append(asked, fmt.Sprint(c)); return c.Bytes })
	want = []string{"/d/final=renamed", "/d/half=abcd", "/d/loose=xyz", "/d/synced=kept"}
	if got := tree(t, m, "/"); !slices.Equal(got, want) {
		t.Errorf("everything kept: %q", got)
	}
	want = []string{"{remove /e/gone 1}", "{remove /e 1}", "{create /d/loose 1}", "{write /d/loose 3}", "{write /d/half 2}"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked about %q", asked)
	}

	script()
	m.Crash(func(c Change) int { return 1 })
	want = []string{"/d/final=renamed", "/d/half=abc", "/d/loose=x", "/d/synced=kept"}
	if got := tree(t, m, "/"); !slices.Equal(got, want) {
		t.Errorf("one byte of each kept: %q", got)
	}
}

func TestCrashEndsHandlesAndLocks(t *testing.T) {
	m := NewMemory()
	w := put(t, m, "/d/f", "x")
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	r, err := m.Open("/d/f")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := m.Lock("/d")
	if err != nil {
		t.Fatal(err)
	}
	m.Crash(nil)
	if _, err := w.Write(nil); !errors.Is(err, fs.ErrClosed) {
		t.Error("write:", err)
	}
	if err := w.Sync(); !errors.Is(err, fs.ErrClosed) {
		t.Error("sync:", err)
	}
	if _, err := r.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Error("read:", err)
	}
	if _, err := m.Lock("/d"); err != nil {
		t.Error("lock:", err)
	}
	if lock.Unlock() == nil {
		t.Error("a lock of the dead unlocked that of the living")
	}
	if _, err := m.Lock("/d"); !errors.Is(err, ErrLocked) {
		t.Error("lock again:", err)
	}
}

func TestModifiedIsTheGivenTime(t *testing.T) {
	m := NewMemory()
	m.Now = func() time.Time { return time.Unix(7, 0) }
	put(t, m, "/f", "")
	if e, err := m.Stat("/f"); err != nil || !e.Modified.Equal(time.Unix(7, 0)) {
		t.Fatal(e, err)
	}
}

func TestFaultyFailsWhereItIsTold(t *testing.T) {
	m := NewMemory()
	var before, after []string
	f := &Faulty{FileSystem: m}
	f.Before = func(op, path string) error { before = append(before, op+" "+path); return nil }
	f.After = func(op, path string) error { after = append(after, op+" "+path); return nil }
	w := put(t, f, "/d/f", "full")
	w.Sync()
	w.Close()
	tree(t, f, "/d")
	f.Rename("/d/f", "/d/g")
	f.Stat("/none")
	f.MakeDir("/e")
	f.Lock("/e")
	f.Remove("/e")
	want := []string{"create /d/f", "write /d/f", "sync /d/f", "close /d/f", "list /d", "open /d/f", "read /d/f", "rename /d/f", "stat /none", "makedir /e", "lock /e", "remove /e"}
	if !slices.Equal(slices.Compact(before), want) {
		t.Errorf("before: %q", before)
	}
	if want = slices.Delete(want, 8, 9); !slices.Equal(slices.Compact(after), want) {
		t.Errorf("after: %q", after)
	}

	f.Before = func(op, path string) error {
		if op == "write" {
			return Torn{2, syscall.ENOSPC}
		}
		return nil
	}
	w, err := f.Create("/torn")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.WriteString(w, "xyz"); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk took %d bytes, %v", n, err)
	}
	f.Spoil = func(path string, offset int64, p []byte) { p[0] ^= 1 }
	r, err := f.Open("/torn")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "yy" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	f.After = func(op, path string) error { return syscall.EIO }
	if err := f.Remove("/torn"); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := m.Stat("/torn"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what failed afterwards wasn't done:", err)
	}
}
