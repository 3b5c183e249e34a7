package run

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/snapshot"
)

// stored puts a checkpoint into a run's directory, or a savepoint elsewhere.
func stored(t *testing.T, m filesystem.FileSystem, l *Live) (chk, savepoint string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2)).Uint64
	cp := snapshot.Checkpoint{Number: 3, JobID: l.Run().ID, JobName: l.Run().Job}
	d := &snapshot.Directory{Files: m, Path: l.Dir(), Random: random}
	s := &snapshot.Savepoint{Files: m, Path: "/points/savepoint-1", Random: random}
	for _, p := range []snapshot.Place{d, s} {
		if err := errors.Join(p.Begin(3), p.Store(cp)); err != nil {
			t.Fatal(err)
		}
		cp.Savepoint = true
	}
	return l.Dir() + "/chk-3", s.Path
}

func TestCheckpointOfARunThatIsAliveIsKept(t *testing.T) {
	m := filesystem.NewMemory()
	b := Open(m, "/wc")
	l := begin(t, b, "count", 1)
	chk, savepoint := stored(t, m, l)
	for _, at := range []string{chk, chk + "/_metadata"} {
		if _, err := Dispose(context.Background(), m, at); !errors.Is(err, ErrAlive) || !strings.Contains(err.Error(), id(1)) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, _, err := snapshot.Load(m, chk); err != nil {
		t.Fatal(err)
	}
	if _, err := Dispose(context.Background(), m, savepoint); err != nil {
		t.Errorf("a savepoint is its user's: %v", err)
	}
	end(t, l, Suspended, "")
	if left, err := Dispose(context.Background(), m, chk+"/_metadata"); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	for _, gone := range []string{chk, savepoint} {
		if _, err := m.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", gone, err)
		}
	}
	resume(t, b, "count") // the lock was given back
}

// What isn't there any more has been disposed of; what never was a snapshot isn't.
func TestDisposalOfWhatIsNoSnapshot(t *testing.T) {
	m := filesystem.NewMemory()
	l := begin(t, Open(m, "/wc"), "count", 1)
	_, savepoint := stored(t, m, l)
	for _, at := range []string{"/nowhere/chk-1", "/nowhere/chk-1/_metadata"} {
		if left, err := Dispose(context.Background(), m, at); err != nil || len(left) > 0 {
			t.Error(at, left, err)
		}
	}
	for _, at := range []string{"/wc", "/points", l.Dir()} {
		if _, err := Dispose(context.Background(), m, at); !errors.Is(err, snapshot.ErrCorrupt) || !strings.Contains(err.Error(), `"`+at+`"`) {
			t.Error(at, err)
		}
	}
	gone, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Dispose(gone, m, savepoint); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := Dispose(context.Background(), m, savepoint); err != nil || len(left) > 0 {
		t.Error("interrupted, then repeated:", left, err)
	}
}
