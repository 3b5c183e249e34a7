package executor

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Whoever rings after having left something is heard: the loop takes it without
// another ring.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds, ringers = 20000, 3
	var left, taken atomic.Int64
	var wake func()
	ready := make(chan struct{})
	seen := make(chan struct{}, 1)
	wake = Real{}.Loop("test", func() Progress {
		<-ready
		n := left.Swap(0)
		if n == 0 {
			return Idle
		}
		if taken.Add(n) == rounds*ringers {
			seen <- struct{}{}
			return Closed
		}
		return Idle // not Worked: only a ring goes on from here
	})
	close(ready)
	var all sync.WaitGroup
	for range ringers {
		all.Go(func() {
			for range rounds {
				left.Add(1)
				wake()
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	<-seen
}

func TestStepsAreOneAtATime(t *testing.T) {
	var inside, n atomic.Int64
	over := make(chan struct{})
	wake := Real{}.Loop("test", func() Progress {
		if inside.Add(1) != 1 {
			t.Error("two steps at once")
		}
		defer inside.Add(-1)
		switch v := n.Add(1); {
		case v == 3000:
			close(over)
			return Closed
		case v%7 == 0:
			runtime.Goexit() // even then the loop goes on
		}
		return Worked
	})
	for range 1000 {
		wake()
	}
	<-over
}
