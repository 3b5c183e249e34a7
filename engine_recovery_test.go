package weir

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/filesystem"
)

// S28: a job fails while as many checkpoints are pending as may be, and to read the one
// that it restarts from takes 20 s. All that time it answers at once, nothing is
// pending, and in the end it goes on.
func TestRecoveringJobAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, slow := newBoard(), atomic.Bool{}
		in := count(b, "in", 2*soFar).let(soFar)
		in.fault = &fault{point: "read"}
		disk := &filesystem.Faulty{FileSystem: filesystem.NewMemory(), Before: func(op, path string) error {
			if slow.Load() && strings.Contains(path, "chk-") && (op == "create" || op == "open") {
				b.say("%s takes 20 s", op)
				time.Sleep(20 * time.Second)
			}
			return nil
		}}
		r, _ := launch(t, t.Context(), filed(b, in, func(*Checkpoints) {}), on(disk))
		b.await(t, 1, "out: "+countedUpTo(soFar)[soFar-1])
		slow.Store(true)
		b.await(t, 1, "create takes 20 s")
		in.let(2 * soFar)
		for r.Status().State != "RESTORING" {
			time.Sleep(time.Second)
		}
		began := time.Now()
		status := r.Status()
		_, _, noCheckpoint := r.Checkpoint(context.Background(), false)
		_, noSavepoint := r.Savepoint(context.Background(), "file:///points")
		if took := time.Since(began); took > 0 {
			t.Errorf("the answers took %v", took)
		}
		if pending := r.master.View().Checkpoints.InProgress; status.State != "RESTORING" || pending != 0 {
			t.Errorf("it is %s, with %d checkpoints pending", status.State, pending)
		}
		wants(t, noCheckpoint, "RESTORING")
		wants(t, noSavepoint, "RESTORING")
		slow.Store(false)
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		same(t, "output", b.all("out: "), countedUpTo(2*soFar))
	})
}
