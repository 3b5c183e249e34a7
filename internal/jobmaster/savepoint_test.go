package jobmaster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/snapshot"
)

// savepoint asks for a savepoint in a directory of its own.
func (b *bench) savepoint(then func(Answer)) {
	b.asked++
	dir := fmt.Sprintf("/savepoints/%d", b.asked)
	b.master.Request(&snapshot.Savepoint{Files: b.disk, Path: dir, URI: "file://" + dir, Random: b.rng.Uint64}, then)
}

// perhapsSavepoint asks for a savepoint now and then. Where restarts go on from them,
// the next process is told so by what was noted.
func (b *bench) perhapsSavepoint() {
	if b.rng.IntN(300) == 0 {
		b.savepoint(func(Answer) {})
	}
}

// note and load are what the job master is given to go on from savepoints.
func (b *bench) note(p Savepoint) error {
	if err := b.fault(20); err != nil {
		return err
	}
	b.settings.Savepoint = p
	return b.fault(20) // on record all the same
}

func (b *bench) load(_ context.Context, dir string) (*snapshot.Checkpoint, error) {
	if err := b.fault(20); err != nil {
		return nil, err
	}
	cp, _, err := snapshot.Load(b.disk, strings.TrimPrefix(dir, "file://"))
	return &cp, err
}

// begun lets the job run until it has a checkpoint, and then takes a savepoint, from
// which restarts are to go on.
func (b *bench) begun() (savepoint uint64) {
	b.splits = 1000
	b.settings.Policy.FromSavepoints = true
	b.start()
	b.until(func() bool { return b.master.View().Latest >= 2 })
	var again func(Answer)
	again = func(a Answer) {
		if savepoint = a.Checkpoint; a.Err != nil { // the bench's clock leaps now and then
			b.savepoint(again)
		}
	}
	b.savepoint(again)
	b.until(func() bool { return savepoint > 0 })
	return savepoint
}

// A restart goes on from a savepoint that is newer than any checkpoint, in the same
// process and in the next, and there is one for the outcome, too.
func TestGoesOnFromItsNewestSavepoint(t *testing.T) {
	b := newBench(t, 1)
	n := b.begun()
	b.until(func() bool { return b.settings.Savepoint.Checkpoint == n })
	b.master.post(func() { b.master.broke(1, part("test"), errors.New("boom"), "", false) })
	b.until(func() bool { return b.attempt.Attempt == 2 })
	if b.attempt.Checkpoint != n || b.attempt.From != b.settings.Savepoint.Dir || !b.settings.Savepoint.Committed {
		t.Errorf("attempt 2 begins from %d in %s, not %d: %+v", b.attempt.Checkpoint, b.attempt.From, n, b.settings.Savepoint)
	}
	if c := b.master.Checkpoints(); c.Latest.Savepoint.Checkpoint != n {
		t.Errorf("%+v", c)
	}
	b.master.Suspend()
	b.until(b.over)
	o := b.master.Outcome()
	if o.Latest < n || o.Latest == n && o.Dir != b.settings.Savepoint.Dir {
		t.Errorf("%+v", o)
	}
	b.attempt.Attempt = 0
	b.start()
	b.until(func() bool { return b.attempt.Attempt == 1 })
	if b.attempt.Checkpoint != o.Latest {
		t.Errorf("the next process begins from %d, not %d", b.attempt.Checkpoint, o.Latest)
	}
	b.until(b.over)
	b.checkAll()
}

// What can't be put on record isn't committed, and the next attempt begins from the
// checkpoint before.
func TestSavepointThatIsNotOnRecord(t *testing.T) {
	b := newBench(t, 1)
	b.settings.Note = func(Savepoint) error { return errors.New("disk full") }
	n := b.begun()
	b.until(func() bool { return b.attempt.Attempt == 2 })
	f := b.master.View().Failures
	if b.attempt.Checkpoint >= n || len(f) != 1 || !strings.Contains(f[0].Err.Error(), fmt.Sprintf("checkpoint %d: put the savepoint on record: disk full", n)) {
		t.Errorf("savepoint %d; attempt 2 begins from %d; %+v", n, b.attempt.Checkpoint, f)
	}
	b.until(b.over)
	b.checkAll()
}

// S34: a savepoint that is gone can be passed over only where nothing was committed
// for it, and where passing over is allowed at all. An I/O error isn't that.
func TestLostSavepoint(t *testing.T) {
	for _, test := range []struct {
		name      string
		committed bool
		strict    bool
		err       error
		fails     string // what the job says
		from      uint64 // where its output begins
	}{
		{name: "committed", committed: true, err: fs.ErrNotExist, fails: "savepoint 9, whose outputs are committed, can't be restored: file does not exist; put it back as it was in file:///away, or start the job anew from the beginning"},
		{name: "not committed", err: snapshot.ErrCorrupt},
		{name: "not committed, strict", strict: true, err: fs.ErrNotExist, fails: "savepoint 9: file does not exist"},
		{name: "unreadable", committed: true, err: fs.ErrPermission, from: 15},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, 1)
			b.settings.Fallback = !test.strict
			b.settings.Savepoint = Savepoint{9, "file:///away", test.committed}
			healed := b.now.Add(10 * time.Second)
			b.settings.Load = func(context.Context, string) (*snapshot.Checkpoint, error) {
				if test.from == 0 || b.now.Before(healed) {
					return nil, test.err
				}
				return &snapshot.Checkpoint{Number: 9, Savepoint: true, JobID: b.settings.JobID, Operators: []snapshot.Operator{{
					ID: sourceID, UID: "numbers", Parallelism: 2, MaxParallelism: 128,
					Enumerator: &snapshot.Enumerator{Position: []byte{byte(test.from)}}, Subtasks: make([]snapshot.State, 2),
				}}}, nil
			}
			b.start()
			b.until(b.over)
			o := b.master.Outcome()
			if test.fails != "" {
				if o.Status != Failed || b.master.View().Attempt != 1 || !strings.Contains(o.Err.Error(), test.fails) {
					t.Errorf("%+v", o)
				}
				return
			}
			var want []uint64
			for n := test.from; n < uint64(b.splits); n++ {
				want = append(want, n)
			}
			if got := b.output(); o.Status != Finished || !slices.Equal(got, want) {
				t.Errorf("%+v, output %v", o, got)
			}
			if v := b.master.View(); v.Latest <= 9 {
				t.Errorf("the newest checkpoint is %d", v.Latest)
			}
			if said := strings.Contains(b.log.String(), "savepoint 9"); said != (test.from == 0) {
				t.Error(b.log.String())
			}
		})
	}
}
