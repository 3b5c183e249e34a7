package heap_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/statetest"
)

// nowhere is a target that forgets what is written.
type nowhere struct{ size int64 }

func (n *nowhere) Create(context.Context) (state.TargetFile, error) { return n, nil }
func (n *nowhere) Compressed() bool                                 { return false }
func (n *nowhere) Write(p []byte) (int, error)                      { n.size += int64(len(p)); return len(p), nil }
func (n *nowhere) Finish() (state.File, error)                      { return state.File{Size: n.size}, nil }
func (n *nowhere) Abort()                                           {}

func BenchmarkSnapshotOf1M(b *testing.B) {
	const n = 1_000_000
	o := open(b)
	table := state.NewTable[int64](o, "count")
	for k := range uint64(n) {
		v, _ := table.Ref(k*7919, o.keys.Hash(new(k*7919)))
		*v = int64(k)
	}
	var freeze, capture, write time.Duration
	var target nowhere
	for b.Loop() {
		began := time.Now()
		f := o.ks.Freeze()
		frozen := time.Now()
		for !f.Capture(4096) {
		}
		captured := time.Now()
		target = nowhere{}
		if _, err := f.Write(b.Context(), &target); err != nil {
			b.Fatal(err)
		}
		freeze, capture, write = least(freeze, frozen.Sub(began)), least(capture, captured.Sub(frozen)), least(write, time.Since(captured))
	}
	b.ReportMetric(float64(freeze.Microseconds())/1e3, "freeze-ms")
	b.ReportMetric(float64(capture.Microseconds())/1e3, "capture-ms")
	b.ReportMetric(float64(write.Microseconds())/1e3, "write-ms")
	b.ReportMetric(float64(target.size)/n, "B/entry")
}

func least(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func BenchmarkRestoreOf1M(b *testing.B) {
	o := open(b)
	table := state.NewTable[int64](o, "count")
	for k := range uint64(1_000_000) {
		table.Ref(k*7919, o.keys.Hash(new(k*7919)))
	}
	f := o.ks.Freeze()
	for !f.Capture(4096) {
	}
	var files statetest.Files
	h, err := f.Write(b.Context(), &files)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		restored := open(b)
		state.NewTable[int64](restored, "count")
		if _, err := restored.ks.Restore(b.Context(), []state.Handle{h}, &files, false); err != nil {
			b.Fatal(err)
		}
	}
}
