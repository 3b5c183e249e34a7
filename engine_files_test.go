package weir

import (
	"context"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/snapshot"
)

// needed fails the test unless a job's directory holds so many complete checkpoints, and
// what these refer to, and nothing else.
func needed(t *testing.T, disk filesystem.FileSystem, dir string, checkpoints int) {
	t.Helper()
	var there, want []string
	for _, e := range must(disk.List(dir))(t) {
		for _, f := range must(disk.List(path.Join(dir, e.Name)))(t) {
			there = append(there, path.Join(dir, e.Name, f.Name))
		}
		if !strings.HasPrefix(e.Name, "chk-") {
			continue
		}
		checkpoints--
		cp, at, err := snapshot.Load(disk, path.Join(dir, e.Name))
		if err != nil {
			t.Error(err)
		}
		want = append(want, path.Join(at, "_metadata"))
		for _, op := range cp.Operators {
			for _, s := range op.Subtasks {
				for _, h := range s.Keyed {
					for _, f := range h.Files {
						want = append(want, path.Join(at, f.Name))
					}
				}
			}
		}
	}
	if checkpoints != 0 {
		t.Errorf("there are %d checkpoints less than wanted", checkpoints)
	}
	same(t, "files", there, want)
}

// filed is a job whose checkpoints are on a disk, each with its state in files.
func filed(b *board, in *numbers, settings func(*Checkpoints)) func(*Job) error {
	return passing(in, newLedger[string](b, "out"), func(job *Job) {
		job.Parallelism, job.From = 2, Latest
		job.Checkpoints = Checkpoints{Interval: 100 * time.Millisecond, Dir: "file:///checkpoints"}
		settings(&job.Checkpoints)
		job.Config = map[string]string{"execution.checkpointing.data-inline-threshold": "0"}
	})
}

// S44: every third notice that a checkpoint is complete, or won't be, is lost. After two
// hundred checkpoints, of which some fail, there are the files of the three that are
// kept.
func TestLostNoticesLeaveNoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk := newBoard(), filesystem.NewMemory()
		in := count(b, "in", far).let(10)
		var notices, writes atomic.Int64
		failing := &filesystem.Faulty{FileSystem: disk, Before: func(op, path string) error {
			if op == "sync" && strings.Contains(path, "chk-") && writes.Add(1)%23 == 0 {
				return errStruck
			}
			return nil
		}}
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, filed(b, in, func(c *Checkpoints) { c.Retained, c.TolerableFailures = 3, 1000 }), on(failing), func(env *environment) {
			env.line = func(_ int, m any, deliver func()) {
				switch m.(type) {
				case control.Complete, control.Abort:
					if notices.Add(1)%3 == 0 {
						return
					}
				}
				deliver()
			}
		})
		b.await(t, 1, "out: 9 is number 10")
		for r.Status().Checkpoint.Number < 200 {
			time.Sleep(time.Second)
		}
		end()
		wait(t, r)
		if stats := r.master.View().Checkpoints; stats.Failed == 0 || notices.Load() < 200 {
			t.Errorf("%d notices, and the checkpoints are %+v", notices.Load(), stats)
		}
		needed(t, disk, "/checkpoints/"+r.ID(), 3)
	})
}

// S38: to create a file takes two seconds, and after one second the checkpoint is given
// up, a hundred times. What is created after all goes; then the file system is as quick
// as ever, and there are the files of the checkpoint that is kept.
func TestFilesCreatedTooLateGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, disk, slow := newBoard(), filesystem.NewMemory(), atomic.Bool{}
		in := count(b, "in", far).let(10)
		late := &filesystem.Faulty{FileSystem: disk, Before: func(op, file string) error {
			if slow.Load() && op == "create" && strings.Contains(file, "chk-") {
				time.Sleep(2 * time.Second)
			}
			return nil
		}}
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, filed(b, in, func(c *Checkpoints) { c.Timeout, c.TolerableFailures = time.Second, 1000 }), on(late))
		b.await(t, 1, "out: 9 is number 10")
		slow.Store(true)
		for r.master.View().Checkpoints.Failed < 100 {
			time.Sleep(time.Second)
		}
		slow.Store(false)
		in.let(20)
		b.await(t, 1, "out: 19 is number 20")
		end()
		wait(t, r)
		needed(t, disk, "/checkpoints/"+r.ID(), 1)
	})
}
