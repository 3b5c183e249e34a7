package align

import (
	"testing"

	"github.com/weirstream/weir/record"
)

// TestHeldChannelIsNotRead: a record read too early would be in the snapshot, so
// the aligner doesn't let such a mistake of its caller pass.
func TestHeldChannelIsNotRead(t *testing.T) {
	a := New(2, false)
	a.Step(Barrier{Channel: 0, Barrier: record.Barrier{Checkpoint: 1}})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	a.Step(Barrier{Channel: 0, Barrier: record.Barrier{Checkpoint: 2}})
}

// TestAbortsDoNotPileUp: a subtask whose input stands still hears of aborted
// checkpoints for as long as it does.
func TestAbortsDoNotPileUp(t *testing.T) {
	a := New(1, false)
	for n := range uint64(1000) {
		a.Step(Aborted{Checkpoint: n})
	}
	if len(a.aborted) > remembered {
		t.Errorf("%d aborts remembered, want at most %d", len(a.aborted), remembered)
	}
	if got := a.Step(Barrier{Barrier: record.Barrier{Checkpoint: 999}}); len(got) != 1 || got[0] != (Cancel{999}) {
		t.Errorf("the newest abort is forgotten: %v", got)
	}
	if len(a.aborted) != 0 {
		t.Errorf("%d aborts are left behind a newer barrier", len(a.aborted))
	}
}
