package weir

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
)

// flat is a setting: no directory for each job.
var flat = map[string]string{"execution.checkpointing.create-subdir": "false"}

// entries are the names in a directory.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, e := range must(os.ReadDir(dir))(t) {
		names = append(names, e.Name())
	}
	return names
}

// Without sub-directories checkpoints lie in the checkpoint directory itself. -s latest
// finds them there, whatever the setting says by then.
func TestCheckpointsWithoutSubdirectories(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", 30), newLedger[string](b, "out")
	build := func(setting map[string]string) func(*Job) error {
		return passing(in, out, func(job *Job) { job.From, job.Checkpoints.Dir, job.Config = Latest, dir, setting })
	}
	in.let(10)
	id := stopped(t, b, "out: 9 is number 10", build(flat))
	names := entries(t, dir)
	if want := []string{".runs", "shared", "taskowned"}; !slices.Equal(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasPrefix(n, "chk-") }), want) || len(names) == len(want) {
		t.Errorf("the directory holds %q", names)
	}
	in.let(20)
	if again := stopped(t, b, "out: 19 is number 20", build(nil)); again != id {
		t.Errorf("run %s goes on as %s", id, again)
	}
	in.let(30)
	r, _ := launch(t, t.Context(), build(flat))
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	same(t, "out", b.all("out: "), countedUpTo(30))
	if names := entries(t, dir); !slices.Equal(names, []string{".runs"}) {
		t.Errorf("the finished job has left %q", names)
	}
}

// Such a directory is one job's: another is refused before it reads anything, while the
// first one is alive, and after it as long as its checkpoints are there. So is the
// first one, when another has put its checkpoints there.
func TestDirectoryWithoutSubdirectoriesIsOneJobs(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in := count(b, "in", far).let(10)
	build := func(name, from string) func(*Job) error {
		return passing(in, newLedger[string](b, name), func(job *Job) {
			job.Name, job.From, job.Config = name, from, flat
			job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: dir, Retention: RetainOnCancel}
		})
	}
	refused := func(name, from string, want ...string) {
		t.Helper()
		before, read := shape(t, dir), len(b.all("in reads "))
		_, err := must(prepare(build(name, from), config.Layer{}, config.Layer{}))(t).start(t.Context(), quiet())
		wants(t, err, append(want, dir)...)
		if after := shape(t, dir); !slices.Equal(after, before) || len(b.all("in reads ")) != read {
			t.Errorf("the directory holds %q, and held %q", after, before)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	r, _ := launch(t, ctx, build("one", ""))
	b.await(t, 1, "one: 9 is number 10")
	end()
	wait(t, r)
	refused("two", "", "another job's", `"one"`, r.ID())
	refused("two", filepath.Join(dir, chk(t, dir, "")[0]), "another job's", r.ID())

	aside := filepath.Join(t.TempDir(), "aside")
	mustDo(t, os.Mkdir(aside, 0o777))
	for _, name := range entries(t, dir) {
		if name != ".runs" {
			mustDo(t, os.Rename(filepath.Join(dir, name), filepath.Join(aside, name)))
		}
	}
	two, _ := launch(t, t.Context(), build("two", ""))
	b.await(t, 1, "two: 9 is number 10")
	lock, err := filesystem.Local{}.Lock(dir)
	if err == nil {
		lock.Unlock()
		t.Error("it isn't locked")
	}
	_, err = must(prepare(build("three", ""), config.Layer{}, config.Layer{}))(t).start(t.Context(), quiet())
	wants(t, err, "another run is alive in "+dir)
	two.Cancel(context.Background())
	refused("one", Latest, "another job's", `"two"`, two.ID())
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
