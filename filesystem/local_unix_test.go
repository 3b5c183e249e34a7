//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesystem

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestLockEndsWithTheProcess(t *testing.T) {
	if dir := os.Getenv("WEIR_TEST_LOCK"); dir != "" {
		lock, err := (Local{}).Lock(dir)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		io.Copy(io.Discard, os.Stdin) // until it is killed
		runtime.KeepAlive(lock)
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestLockEndsWithTheProcess$")
	child.Env = append(os.Environ(), "WEIR_TEST_LOCK="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatal(line, err)
	}
	if _, err := (Local{}).Lock(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("a directory that another process has locked: %v", err)
	}
	child.Process.Kill()
	child.Wait()
	lock, err := (Local{}).Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
}

// A process that is starting a program shares its descriptors with it for a moment.
func TestUnlockedDirectoryIsFreeWhileAProgramStarts(t *testing.T) {
	dir := t.TempDir()
	lock, err := (Local{}).Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := syscall.Dup(int(lock.(localLock).dir.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(shared)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := (Local{}).Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestLinksAreNotFollowedInLists(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	entries, err := (Local{}).List(dir)
	if err != nil || len(entries) != 2 || entries[1].Regular {
		t.Fatalf("%+v, %v", entries, err)
	}
	if e, err := (Local{}).Stat(filepath.Join(dir, "link")); err != nil || !e.Regular || e.Size != 5 {
		t.Fatalf("%+v, %v", e, err)
	}
}

// Network file systems that can't rename without replacing get this.
func TestLinkAndRemoveNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := linkAndRemove(a, b); !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	if err := linkAndRemove(a, b+"2"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(b + "2"); string(got) != a {
		t.Fatal(got, err)
	}
	if _, err := os.Stat(a); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}
