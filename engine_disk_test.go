package weir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/filesystem"
)

// on puts a job on other file systems.
func on(files filesystem.FileSystem) func(*environment) {
	return func(env *environment) { env.files = filesystem.Set{"file": files} }
}

// TestFullDisk fills the disk under a job's checkpoints, and then frees it. The
// checkpoints fail, and with them, if that isn't tolerated, attempts; nothing is
// lost and nothing comes twice.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "write", "sync", "rename"} {
		for _, tolerable := range []int{0, 1 << 20} {
			t.Run(fmt.Sprintf("%s/tolerable=%d", op, tolerable), func(t *testing.T) {
				t.Parallel()
				b, full := newBoard(), atomic.Bool{}
				disk := &filesystem.Faulty{FileSystem: filesystem.Local{}, Before: func(o, path string) error {
					if !full.Load() || o != op || strings.Contains(path, ".runs") {
						return nil
					}
					b.say("no space")
					return filesystem.Torn{Bytes: 3, Err: syscall.ENOSPC}
				}}
				in, out := count(b, "in", 40).let(10), newLedger[string](b, "out")
				r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) {
					job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: t.TempDir(), TolerableFailures: tolerable}
					job.Restart.Attempts = 1 << 20
					job.Config = map[string]string{"execution.checkpointing.data-inline-threshold": "0"}
				}), on(disk))
				b.await(t, 1, "out: 9 is number 10")
				full.Store(true)
				in.let(20)
				b.await(t, 4, "no space")
				full.Store(false)
				in.let(40)
				if err := wait(t, r); err != nil {
					t.Fatal(err)
				}
				same(t, "output", b.all("out: "), countedUpTo(40))
				if failed := len(r.Failures()) > 0; failed != (tolerable == 0) {
					t.Errorf("failures are %v", r.Failures())
				}
				for _, f := range r.Failures() {
					wants(t, f.Err, "no space left on device")
				}
			})
		}
	}
}

// shape returns the names and sizes of all files below a directory.
func shape(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, ".runs") {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				all = append(all, fmt.Sprint(path, " ", info.Size()))
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a running job has just deleted it
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// alter changes a file.
func alter(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	if err := os.WriteFile(path, change(must(os.ReadFile(path))(t)), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedCheckpoint damages what a job has left. Without a fall-back it says
// which file is wrong, reads nothing and deletes nothing; with it, it goes on
// from the checkpoint before, loudly.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel()
	flip := func(b []byte) []byte { b[len(b)/2] ^= 4; return b }
	half := func(b []byte) []byte { return b[:len(b)/2] }
	for name, damage := range map[string]struct {
		file   string // pattern in the checkpoint's directory
		change func([]byte) []byte
		want   string
	}{
		"bit of state flipped":        {"*-*-*-*-*", flip, "corrupt"},
		"state truncated":             {"*-*-*-*-*", half, "corrupt"},
		"state missing":               {"*-*-*-*-*", nil, "no such file"},
		"bit of metadata flipped":     {"_metadata", flip, "incomplete or corrupt"},
		"metadata truncated":          {"_metadata", half, "incomplete or corrupt"},
		"metadata empty":              {"_metadata", func([]byte) []byte { return nil }, "incomplete or corrupt"},
		"version of metadata flipped": {"_metadata", func(b []byte) []byte { b[8]++; return b }, "incomplete or corrupt"},
		"another version": {"_metadata", func(b []byte) []byte {
			b[8]++
			binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], crc32.MakeTable(crc32.Castagnoli)))
			return b
		}, "version 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, b := t.TempDir(), newBoard()
			in, out := count(b, "in", far), newLedger[string](b, "out")
			build := func(from, fallback string) func(*Job) error {
				return passing(in, out, func(job *Job) {
					job.From = from
					job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: dir, Retained: 2}
					job.Config = map[string]string{"execution.checkpointing.data-inline-threshold": "0", "execution.checkpointing.recovery.fallback": fallback}
				})
			}
			ctx, end := context.WithCancel(t.Context())
			r, _ := launch(t, ctx, build(Latest, "true"))
			for n := 10; n <= 30; n += 10 {
				in.let(n)
				b.await(t, 1, "out: "+countedUpTo(n)[n-1])
			}
			end()
			wait(t, r)
			path, _ := newest(t, dir, r.ID())
			hurt := must(filepath.Glob(filepath.Join(path, damage.file)))(t)
			if len(hurt) == 0 {
				t.Fatalf("no file %s in %q", damage.file, shape(t, dir))
			}
			if damage.change == nil {
				os.Remove(hurt[0])
			} else {
				alter(t, hurt[0], damage.change)
			}
			before, read := fmt.Sprint(shape(t, dir)), len(b.all("in reads"))
			in.let(40)
			for _, from := range []string{Latest, path} {
				r, _ := launch(t, t.Context(), build(from, "false"))
				wants(t, wait(t, r), damage.want, strings.TrimSuffix(hurt[0], "/_metadata"))
				if len(r.Failures()) > 1 {
					t.Errorf("it has tried again: %v", r.Failures())
				}
			}
			if after := fmt.Sprint(shape(t, dir)); after != before || len(b.all("in reads")) != read {
				t.Errorf("something was read, or deleted:\nbefore %s\nafter  %s", before, after)
			}
			older := chk(t, dir, r.ID())[0]
			if older == filepath.Base(path) {
				older = chk(t, dir, r.ID())[1]
			}
			ctx, end = context.WithCancel(t.Context())
			defer end()
			r, _ = launch(t, ctx, build(filepath.Join(dir, r.ID(), older), "true"))
			b.await(t, 1, "out: 39 is number 40")
			end()
			wait(t, r)
			for _, line := range countedUpTo(40) {
				if b.times("out: "+line) == 0 {
					t.Errorf("%q is lost", line)
				}
			}
			for _, line := range b.all("out: ") {
				var v, n int
				if fmt.Sscanf(line, "%d is number %d", &v, &n); n != v+1 {
					t.Errorf("wrong: %q", line)
				}
			}
		})
	}
}

// TestDamagedCheckpointIsPassedOver falls back by itself, and says so.
func TestDamagedCheckpointGivesWayToTheOneBefore(t *testing.T) {
	parallel(t)
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far), newLedger[string](b, "out")
	build := passing(in, out, func(job *Job) {
		job.From, job.Checkpoints = Latest, Checkpoints{Interval: 10 * time.Millisecond, Dir: dir, Retained: 2}
	})
	in.let(10)
	id := stopped(t, b, "out: 9 is number 10", build)
	in.let(20)
	stopped(t, b, "out: 19 is number 20", build)
	path, number := newest(t, dir, id)
	alter(t, filepath.Join(path, "_metadata"), func(b []byte) []byte { return b[:len(b)-1] })
	ctx, end := context.WithCancel(t.Context())
	r, log := launch(t, ctx, build)
	in.let(30)
	b.await(t, 1, "out: 29 is number 30")
	end()
	wait(t, r)
	for _, text := range []string{"level=ERROR", "an older one takes its place", fmt.Sprintf("chk-%d", number)} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log doesn't say %q", text)
		}
	}
	if _, n := newest(t, dir, id); n <= number {
		t.Errorf("the next checkpoint has number %d, which is not above %d", n, number)
	}
}

// S46: a checkpoint whose metadata isn't whole is none. The metadata fails at
// each of its steps, and whatever was left is never chosen.
func TestIncompleteMetadataIsNeverChosen(t *testing.T) {
	parallel(t)
	for _, op := range []string{"create", "write", "sync", "close", "rename"} {
		t.Run(op, inItsWay(func(t *testing.T) {
			parallel(t)
			dir, b, full := t.TempDir(), newBoard(), atomic.Bool{}
			disk := &filesystem.Faulty{FileSystem: filesystem.Local{}, Before: func(o, path string) error {
				switch {
				case !full.Load():
					return nil
				case o == "remove": // so that what is left stays
					return errors.New("stays")
				case o == op && strings.Contains(path, "_metadata"):
					b.say("torn")
					return filesystem.Torn{Bytes: 20, Err: errors.New("torn")}
				}
				return nil
			}}
			in, out := count(b, "in", far), newLedger[string](b, "out")
			build := passing(in, out, func(job *Job) {
				job.From = Latest
				job.Checkpoints = Checkpoints{Interval: 10 * time.Millisecond, Dir: dir, TolerableFailures: 1 << 20}
			})
			ctx, end := context.WithCancel(t.Context())
			r, _ := launch(t, ctx, build, on(disk))
			in.let(10)
			b.await(t, 1, "out: 9 is number 10")
			full.Store(true)
			in.let(20)
			b.await(t, 3, "torn")
			end()
			wait(t, r)
			full.Store(false)
			if n := b.times("out: 19 is number 20"); n > 0 {
				t.Error("what is in no checkpoint was committed")
			}
			in.let(30)
			stopped(t, b, "out: 29 is number 30", build)
			same(t, "output", b.all("out: "), countedUpTo(30))
		}))
	}
}
