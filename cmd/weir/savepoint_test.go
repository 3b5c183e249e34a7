package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/filesystem"
)

func TestDisposesOfWhatAJobHasLeft(t *testing.T) {
	dir, chk := checkpointed(t)
	other := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(other, os.DirFS(chk)))
	must(t, os.WriteFile(filepath.Join(chk, "notes.txt"), nil, 0o666))
	job := filepath.Dir(chk)
	lock, err := filesystem.Local{}.Lock(job)
	must(t, err)
	if code, out, errs := call("savepoint", "-d", chk); code != 1 || out != "" || !strings.Contains(errs, "it is alive") {
		t.Errorf("of a run that is alive: exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := call("checkpoint", "verify", chk); code != 0 {
		t.Errorf("it isn't whole any more: %s", errs)
	}
	must(t, lock.Unlock())
	want(t, "left alone: "+chk+"/notes.txt\ndisposed of "+chk+"\n", "savepoint", "-d", chk)
	if left, _ := filepath.Glob(chk + "/*"); len(left) != 1 || filepath.Base(left[0]) != "notes.txt" {
		t.Errorf("there is still %q", left)
	}
	for _, none := range []string{chk, job, dir} {
		if code, out, errs := call("savepoint", "--dispose", none); code != 1 || out != "" || !strings.Contains(errs, "there is no _metadata") {
			t.Errorf("%s is no snapshot: exit code %d\n%s%s", none, code, out, errs)
		}
	}
	want(t, "disposed of "+other+"\n", "savepoint", "-d", "file://"+other)
	want(t, "there is nothing at "+other+"\n", "savepoint", "-d", other)
}

// Checkpoints without a directory for each job are listed as their run's, too.
func TestListsCheckpointsWithoutSubdirectories(t *testing.T) {
	dir, chk := checkpointed(t, "execution.checkpointing.create-subdir=false")
	if filepath.Dir(chk) != dir {
		t.Fatalf("%s isn't in %s", chk, dir)
	}
	code, out, errs := call("checkpoint", "list", dir)
	lines := strings.Split(strings.TrimSpace(out), "\n")[1:]
	if code != 0 || errs != "" || len(lines) != len(complete(dir)) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, line := range lines {
		if f := strings.Fields(line); f[0] != "small" || len(f[1]) != 32 || f[2] != "suspended" || f[len(f)-1] != "complete" {
			t.Errorf("%s", line)
		}
	}
}
