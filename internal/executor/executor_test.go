package executor

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// Two loops that pass work to and fro, and so are idle again and again, don't keep
// one that has yielded waiting.
func TestLoopsThatWakeEachOtherLetOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const enough = 10_000
	var pair, other atomic.Int64
	var wake [2]func()
	var ready, done sync.WaitGroup
	ready.Add(1)
	done.Add(3)
	work := func() {
		for began := time.Now(); time.Since(began) < 10*time.Microsecond; {
		}
	}
	for i := range wake {
		wake[i] = Real{}.Loop("pair", func() Progress {
			ready.Wait()
			work()
			wake[1-i]()
			if pair.Add(1) < enough {
				return Idle
			}
			done.Done()
			return Closed
		})
	}
	Real{}.Loop("other", func() Progress {
		ready.Wait()
		work()
		if other.Add(1); pair.Load() < enough {
			return Worked
		}
		done.Done()
		return Closed
	})
	ready.Done()
	done.Wait()
	if n := other.Load(); n < enough/20 {
		t.Errorf("the other took %d steps while the two took %d", n, pair.Load())
	}
}
