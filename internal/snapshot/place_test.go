package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

// TestPlaces holds every kind of place to what Place promises.
func TestPlaces(t *testing.T) {
	files := filesystem.NewMemory()
	d, m := directory(files), &Memory{}
	point := "/points/" + SavepointName("0123456789abcdef0123456789abcdef", d.Random)
	s := &Savepoint{Files: files, Path: point, URI: "file://" + point, Random: d.Random}
	c := claimed(t, files)
	own := *d
	own.Path, own.URI = "/own/0123456789abcdef0123456789abcdef", "file:///own/0123456789abcdef0123456789abcdef"
	c.Number, c.Storage = 3, &own
	newest := func(of Storage) func() *Checkpoint {
		return func() *Checkpoint {
			found, err := of.Latest(context.Background(), false)
			if err != nil {
				t.Error(err)
			}
			return found.Checkpoint
		}
	}
	for name, test := range map[string]struct {
		Place
		found func() *Checkpoint // the newest; nil if there is none
		uri   string             // of checkpoint 7
	}{
		"directory":                       {d, newest(d), "file://" + jobDir + "/chk-7"},
		"memory":                          {m, newest(m), ""},
		"own, beside one that is claimed": {c, newest(&own), own.URI + "/chk-7"},
		"savepoint": {s, func() *Checkpoint {
			cp, _, err := Load(files, s.Path)
			if err != nil {
				return nil
			}
			return &cp
		}, s.URI},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.Begin(7); err != nil {
				t.Fatal(err)
			}
			if got := test.Dir(7); got != test.uri {
				t.Errorf("files go to %q, want %q", got, test.uri)
			}
			if got := test.found(); got != nil {
				t.Errorf("before it is stored there is %+v", got)
			}
			target := Target{Files: files, Dir: strings.TrimPrefix(test.uri, "file://"), Random: d.Random}
			if test.uri == "" {
				target = Target{}
			}
			part := func() State {
				return State{Keyed: []state.Handle{{Last: 127, Files: []state.File{put(t, target, "some state")}}}}
			}
			cp := Checkpoint{Number: 7, JobName: "first", Operators: []Operator{{ID: graph.ID{1}, Parallelism: 1, MaxParallelism: 128, Subtasks: []State{part()}}}}
			if err := test.Store(cp); err != nil {
				t.Fatal(err)
			}
			if err := test.Store(Checkpoint{Number: 7, JobName: "second"}); !errors.Is(err, fs.ErrExist) || errors.Is(err, ErrUnknown) {
				t.Errorf("stored twice: %v", err)
			}
			if err := test.Release(7, Task{graph.ID{1}: part()}); err != nil { // of a subtask that nobody has waited for
				t.Error(err)
			}
			got := test.found()
			if got == nil || got.JobName != "first" {
				t.Fatalf("stored was the first, found is %+v", got)
			}
			if err := Verify(context.Background(), Origin{target.Files, target.Dir}, *got); err != nil {
				t.Error(err)
			}
			for range 2 { // what is gone already is fine
				if err := test.Discard(7); err != nil {
					t.Error(err)
				}
			}
			if got := test.found(); got != nil {
				t.Errorf("discarded, there is %+v", got)
			}
			if left := tree(files, target.Dir); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
	if got := c.Dir(3); got != c.URI {
		t.Errorf("what is claimed is in %q, want %q", got, c.URI)
	}
	if err := errors.Join(d.Clear(), m.Clear(), m.Clean(7), own.Clear()); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{"/cp", "/own"} {
		if left := tree(files, dir); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	}
}

// Where jobs have no directories of their own, checkpoints in one belong to the job
// that they name. Whose one is that can't be read isn't known: that is nothing to a job
// that is resumed, and keeps a new one out; and so does a file system that fails.
func TestBelongs(t *testing.T) {
	files := filesystem.NewMemory()
	d := directory(files)
	job := write(t, d, 7).JobID
	for _, resumed := range []bool{false, true} {
		if err := d.Belongs(job, resumed); err != nil {
			t.Error(err)
		}
		if err := d.Belongs("another", resumed); err == nil || !strings.Contains(err.Error(), job) {
			t.Errorf("another job's: %v", err)
		}
	}
	spoiled := directory(&filesystem.Faulty{FileSystem: files, Spoil: func(_ string, _ int64, p []byte) { clear(p) }})
	if err := spoiled.Belongs(job, false); !errors.Is(err, ErrCorrupt) {
		t.Errorf("unreadable, to a new job: %v", err)
	}
	if err := spoiled.Belongs(job, true); err != nil {
		t.Errorf("unreadable, to a job that is resumed: %v", err)
	}
	for _, fails := range []string{"list", "stat", "open"} {
		broken := directory(&filesystem.Faulty{FileSystem: files, Before: func(op, _ string) error {
			if op == fails {
				return fs.ErrPermission
			}
			return nil
		}})
		if err := broken.Belongs(job, true); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s fails: %v", fails, err)
		}
	}
}
