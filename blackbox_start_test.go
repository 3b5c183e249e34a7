package weir_test

import (
	"testing"
	"time"
)

// A program is soon at work: its first record is read within 100 ms, on a machine
// that has the time.
func TestFirstRecordComesSoon(t *testing.T) {
	probe(t) // built before
	best := time.Hour
	for range 10 {
		began := time.Now()
		p := start(t, probe(t), "-job", "endless", "-D", "execution.checkpointing.interval=1s", "-D", "execution.checkpointing.dir=file://"+t.TempDir())
		p.says("first record")
		best = min(best, time.Since(began))
		p.kill()
	}
	if best > 100*time.Millisecond {
		t.Errorf("%v from the start to the first record", best)
	}
}
