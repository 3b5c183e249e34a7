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

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

func (b *bench) over() bool {
	select {
	case <-b.master.Done():
		return true
	default:
		return false
	}
}

func (b *bench) status() Status { return b.master.View().Status }

// checkAll checks that every split is in the output exactly once.
func (b *bench) checkAll() {
	b.t.Helper()
	var want []uint64
	for n := range uint64(b.splits) {
		want = append(want, n)
	}
	if got := b.output(); !slices.Equal(got, want) {
		b.t.Errorf("output is %v\n%s", got, b.log.String())
	}
}

// TestMasterWalk runs a job to its end in a world where subtasks, commits,
// storage and the enumerator fail, and messages are lost and repeated. Each
// record's output is there exactly once, and nothing else is left.
func TestMasterWalk(t *testing.T) {
	restarts, completed := 0, 0
	for seed := range uint64(300) {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			b := newBench(t, seed)
			b.settings.Policy.FromSavepoints = seed%2 == 0
			b.calm = false
			b.settings.Policy.Concurrent = 1 + int(seed%3)
			b.start()
			for range 3000 {
				if !b.over() {
					b.perhapsSavepoint()
					b.once()
				}
			}
			b.calm = true
			b.until(b.over)
			if o := b.master.Outcome(); o.Status != Finished || o.Err != nil {
				t.Errorf("%+v\n%s", o, b.log.String())
			}
			b.checkAll()
			if _, err := b.disk.List(benchDir); !errors.Is(err, fs.ErrNotExist) && !strings.Contains(b.log.String(), "checkpoints of an ended job are left") {
				t.Errorf("checkpoints are left: %v", err)
			}
			if len(b.prepared) > 0 || b.sinkOpen || len(b.ended) != 1 {
				t.Errorf("prepared %v, sink open %v, ends %v", b.prepared, b.sinkOpen, b.ended)
			}
			v := b.master.View()
			restarts, completed = restarts+int(v.Attempt)-1, completed+v.Checkpoints.Completed
		})
		if !ok {
			break
		}
	}
	t.Logf("%d restarts, %d checkpoints", restarts, completed)
	if restarts == 0 || completed < 300 {
		t.Errorf("%d restarts, %d checkpoints", restarts, completed)
	}
}

// TestKilledAndResumed ends the process again and again: what the next one finds
// is only what is in storage.
func TestKilledAndResumed(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			b := newBench(t, seed)
			b.splits = 60
			b.settings.Policy.FromSavepoints = seed%2 == 0
			b.settings.Policy.Concurrent = 1 + int(seed%3)
			for range 8 {
				b.start()
				for range b.rng.IntN(1500) {
					if !b.over() {
						b.perhapsSavepoint()
						b.once()
					}
				}
				if b.over() || len(b.ended) > 0 { // whose end is on record isn't resumed
					break
				}
				b.ready, b.clock, b.sinkOpen = nil, nil, false // kill -9
				b.disk.Crash(func(c filesystem.Change) int { return b.rng.IntN(c.Bytes + 1) })
			}
			if !b.over() && len(b.ended) == 0 {
				b.start()
				b.until(b.over)
			}
			b.checkAll()
		})
	}
}

func TestSuspendedJobKeepsItsCheckpointsAndSaysWhereItGoesOn(t *testing.T) {
	b := newBench(t, 1)
	b.splits = 200
	b.start()
	b.until(func() bool { return b.master.View().Checkpoints.Completed >= 3 })
	b.master.Suspend()
	b.until(b.over)
	o := b.master.Outcome()
	if o.Status != Suspended || o.Err != nil || o.Dir != fmt.Sprintf("file://%s/chk-%d", benchDir, o.Latest) || o.Latest < 3 {
		t.Errorf("%+v", o)
	}
	found, err := b.settings.Storage.Latest(context.Background(), true)
	if err != nil || found.Checkpoint.Number != o.Latest || len(found.Complete) > 2 {
		t.Errorf("%+v %v", found, err)
	}

	b.start()
	b.until(b.over)
	b.checkAll()
}

// S26: a job that was started from another's checkpoint and fails before its
// first own one starts from there again.
func TestRestartsFromWhatItWasStartedFrom(t *testing.T) {
	b := newBench(t, 1)
	b.settings.Policy.Interval = time.Hour
	loads := 0
	b.settings.From = func(context.Context) (*snapshot.Checkpoint, string, error) {
		loads++
		return &snapshot.Checkpoint{Number: 41, JobID: "f00", Operators: []snapshot.Operator{{
			ID: sourceID, UID: "numbers", Parallelism: 2, MaxParallelism: 128,
			Enumerator: &snapshot.Enumerator{Position: []byte{15}}, Subtasks: make([]snapshot.State, 2),
		}}}, "file:///elsewhere/chk-41", nil
	}
	b.start()
	b.until(func() bool { return b.run })
	if b.attempt.From != "file:///elsewhere/chk-41" || b.attempt.Checkpoint != 41 {
		t.Errorf("%+v", b.attempt)
	}
	b.master.post(func() { b.master.broke(1, part("test"), errors.New("boom"), "", false) })
	b.until(b.over)
	if v := b.master.View(); loads != 2 || v.Attempt != 2 || v.Status != Finished || v.Latest < 42 {
		t.Errorf("%d loads, %+v", loads, v)
	}
	if got := b.output(); !slices.Equal(got, []uint64{15, 16, 17, 18, 19}) {
		t.Error(got)
	}
}

// S13: a checkpoint that is being stored when its attempt fails doesn't become the
// newest behind the back of the next attempt; that waits, and starts from the one
// before.
func TestLateStoreDoesNotUndermineTheNextAttempt(t *testing.T) {
	b := newBench(t, 1)
	b.splits = 1000
	b.start()
	b.until(func() bool { return b.master.View().Latest >= 2 })
	b.hold = "store"
	stores := b.works["store"]
	b.until(func() bool { return b.works["store"] > stores })
	before := b.master.View().Latest
	b.master.post(func() { b.master.broke(1, part("test"), errors.New("boom"), "", false) })
	b.until(func() bool { return b.status() == Failing && len(b.master.life.alive) == 0 })
	for range 1000 {
		b.once()
	}
	if b.status() != Failing {
		t.Fatalf("%v beside a store of the last attempt", b.status())
	}
	b.hold = ""
	b.until(func() bool { return b.attempt.Attempt == 2 })
	found, err := b.settings.Storage.Latest(context.Background(), true)
	if err != nil || b.attempt.Checkpoint != before || found.Highest != before {
		t.Errorf("started from %d, not %d; there is %+v %v", b.attempt.Checkpoint, before, found, err)
	}
	b.until(b.over)
	b.checkAll()
}

// S49: what can't be restored is said before anything is opened, and not tried again.
func TestStateThatDoesNotFitFailsTheJob(t *testing.T) {
	b := newBench(t, 1)
	b.settings.From = func(context.Context) (*snapshot.Checkpoint, string, error) {
		return &snapshot.Checkpoint{Number: 1, Operators: []snapshot.Operator{{
			ID: graph.ID{9}, UID: "gone", Parallelism: 1, MaxParallelism: 128, Subtasks: []snapshot.State{{Splits: [][]byte{{1}}}},
		}}}, "", nil
	}
	b.start()
	b.until(b.over)
	o := b.master.Outcome()
	if o.Status != Failed || !strings.Contains(o.Err.Error(), `uid "gone"`) || b.attempt.Attempt != 0 || b.master.View().Attempt != 1 {
		t.Errorf("%+v", o)
	}
	b.settings.Allowed.Drop = true
	b.start()
	b.until(b.over)
	if !strings.Contains(b.log.String(), "operator=gone") {
		t.Error(b.log.String())
	}
	b.checkAll()
}

// S62 a: an I/O error while looking for the checkpoint is never "nothing there".
func TestUnreadableStorageIsTriedAgain(t *testing.T) {
	b := newBench(t, 1)
	b.splits = 1000
	b.start()
	b.until(func() bool { return b.master.View().Latest >= 2 })
	b.master.Suspend()
	b.until(b.over)
	was := b.master.Outcome().Latest

	d := b.settings.Storage.(*snapshot.Directory)
	healed := b.now.Add(10 * time.Second)
	d.Files = &filesystem.Faulty{FileSystem: b.disk, Before: func(op, _ string) error {
		if op == "read" && b.now.Before(healed) {
			return fs.ErrPermission
		}
		return nil
	}}
	b.attempt.Attempt = 0
	b.start()
	b.until(func() bool { return b.attempt.Attempt == 1 })
	if b.attempt.Checkpoint != was || b.now.Before(healed) || b.now.After(healed.Add(20*time.Second)) {
		t.Errorf("started from %d, not %d, at %v", b.attempt.Checkpoint, was, b.now)
	}
}

func TestSecondOwnerOfATargetIsRefused(t *testing.T) {
	b := newBench(t, 1)
	b.sinkFails = fmt.Errorf("lock output: %w", filesystem.ErrLocked)
	b.start()
	b.until(b.over)
	if o := b.master.Outcome(); o.Status != Failed || !errors.Is(o.Err, filesystem.ErrLocked) {
		t.Errorf("%+v", o)
	}
	if b.sinkOpen {
		t.Error("the committer wasn't closed")
	}
}

// S110: a commit that can't be done fails the attempt, and what is pending is
// committed by the next.
func TestFailedCommitIsDoneByTheNextAttempt(t *testing.T) {
	b := newBench(t, 1)
	b.start()
	b.until(func() bool { return b.run })
	b.sinkFails = errors.New("disk full")
	b.until(b.over)
	v := b.master.View()
	if v.Attempt != 2 || len(v.Failures) != 1 || !strings.Contains(v.Failures[0].Err.Error(), `sink "out": commit: disk full`) {
		t.Errorf("%+v", v)
	}
	b.checkAll()
}

// A panic of a connector fails the attempt, and is kept with its stack.
func TestPanicOfACommitterIsAFailure(t *testing.T) {
	b := newBench(t, 1)
	b.sinkFails = errPanic
	b.start()
	b.until(b.over)
	f := b.master.View().Failures
	if len(f) != 1 || f[0].Err.Error() != `sink "out": panic: oh` || !strings.Contains(f[0].Stack, "model_test.go") {
		t.Errorf("%+v", f)
	}
	b.checkAll()
}

// Nothing is deleted before the end is on record.
func TestCheckpointsStayIfTheEndIsNotOnRecord(t *testing.T) {
	b := newBench(t, 1)
	b.endFails = errors.New("disk full")
	b.start()
	b.until(b.over)
	if o := b.master.Outcome(); !errors.Is(o.Err, b.endFails) || o.Status != Finished {
		t.Errorf("%+v", o)
	}
	if found, err := b.settings.Storage.Latest(context.Background(), true); err != nil || found.Checkpoint == nil {
		t.Errorf("%+v %v", found, err)
	}
}

// What is kept at the end is up to the policy only if the job was cancelled.
func TestCancelledJobLeavesWhatThePolicySays(t *testing.T) {
	for _, keep := range []bool{false, true} {
		b := newBench(t, 1)
		b.splits = 1000
		b.settings.KeepCancelled = keep
		b.start()
		b.until(func() bool { return b.master.View().Latest > 0 })
		b.master.Cancel()
		b.until(b.over)
		found, err := b.settings.Storage.Latest(context.Background(), true)
		if err != nil || (found.Checkpoint != nil) != keep || b.status() != Canceled {
			t.Errorf("keep %v: %+v %v", keep, found, err)
		}
	}
}

// A job whose user functions never return can still be given up.
func TestSubtasksThatDoNotStopAreGivenUp(t *testing.T) {
	b := newBench(t, 1)
	b.settings.StopTimeout = time.Minute
	b.start()
	b.until(func() bool { return b.run })
	b.worker = map[int]*subtask{} // deaf
	b.master.Cancel()
	b.until(func() bool { return b.status() == Cancelling })
	for i := range 2 {
		b.report(control.Overdue{Attempt: 1, Subtask: graph.Subtask{Task: sourceID, Index: i}, Operator: "numbers", Stack: "here"})
	}
	b.until(b.over)
	f := b.master.View().Failures
	if len(f) != 2 || f[0].Where != "numbers -> out (1/2)" || f[0].Stack != "here" {
		t.Errorf("%+v", f)
	}
	if o := b.master.Outcome(); o.Status != Canceled || !errors.Is(o.Err, ErrStuck) || strings.Count(o.Err.Error(), `operator "numbers" didn't return within 1m0s`) != 2 {
		t.Errorf("%+v", o)
	}
}

// An enumerator that ignores its context doesn't hold up the end.
func TestEnumeratorThatDoesNotReturnIsGivenUp(t *testing.T) {
	b := newBench(t, 1)
	b.settings.StopTimeout = time.Minute
	b.hold = "enumerate"
	b.start()
	b.until(func() bool { return b.run })
	b.master.Suspend()
	b.until(b.over)
	if o := b.master.Outcome(); o.Status != Suspended || !errors.Is(o.Err, ErrStuck) || !strings.Contains(o.Err.Error(), `"numbers"`) || b.sinkOpen {
		t.Errorf("sink open %v, %+v", b.sinkOpen, o)
	}
}

// What may be complete isn't deleted, and serves as well as any other.
func TestCheckpointOfUnknownOutcomeIsLeft(t *testing.T) {
	b := newBench(t, 1)
	b.splits = 1000
	lost := false
	b.settings.Storage.(*snapshot.Directory).Files = &filesystem.Faulty{FileSystem: b.disk, After: func(op, _ string) error {
		if op == "rename" && !lost {
			lost = true
			return errors.New("connection lost")
		}
		return nil
	}}
	b.start()
	b.until(func() bool { return b.master.View().Checkpoints.Failed > 0 && len(b.master.turns) == 0 })
	b.master.Suspend()
	b.until(b.over)
	found, err := b.settings.Storage.Latest(context.Background(), true)
	if err != nil || !slices.Contains(found.Complete, 1) {
		t.Errorf("%+v %v", found, err)
	}
	b.start()
	b.until(b.over)
	b.checkAll()
}

// What dead processes left goes once, after the first checkpoint of this one.
func TestCleansOnce(t *testing.T) {
	b := newBench(t, 1)
	b.splits = 200
	b.start()
	b.until(b.over)
	if b.works["clean"] != 1 || b.works["commit"] < 2 {
		t.Error(b.works)
	}
}

// S23: after the end no clock is set any more.
func TestNothingIsLeftRunning(t *testing.T) {
	b := newBench(t, 1)
	b.start()
	b.until(func() bool { return b.run })
	b.sinkFails = errors.New("disk full")
	b.until(func() bool { return b.status() == Restarting })
	b.master.Suspend()
	b.until(b.over)
	for _, c := range b.clock {
		if !*c.off {
			t.Errorf("a timer at %v", c.at)
		}
	}
}
