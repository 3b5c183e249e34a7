package metric

import (
	"sync"
	"testing"
	"unsafe"
)

func TestCounterLosesNothing(t *testing.T) {
	var c Counter
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				c.Add(3)
			}
		})
	}
	all.Wait()
	if c.Value() != 12000 {
		t.Error(c.Value())
	}
	if size := unsafe.Sizeof(c); size != 64 {
		t.Errorf("a counter has %d bytes, and shares its cache line", size)
	}
}

func TestRecordsAddUp(t *testing.T) {
	if sum := (Records{1, 2}).Plus(Records{10, 20}); sum != (Records{11, 22}) {
		t.Error(sum)
	}
}
