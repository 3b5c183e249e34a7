// Package executor is where the engine's work runs and what time it is there:
// goroutines and the clock in production, a seeded scheduler in the simulation.
package executor

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Progress is what one step of a loop came to.
type Progress int

const (
	Worked Progress = iota // there may be more to do at once
	Idle                   // nothing to do until somebody wakes the loop
	Closed                 // the loop is over
)

// An Executor runs whatever the engine doesn't do on the caller's goroutine.
// Nothing else in the engine starts goroutines, sleeps, or asks for the time.
type Executor interface {
	Now() time.Time
	// After runs f once, d from now, unless it is cancelled first.
	After(d time.Duration, f func()) (cancel func())
	// Go runs work beside the caller. The name says what it is ("persist",
	// "store", "commit"), so that the simulation can make it fail there.
	Go(name string, work func())
	// Loop calls step again and again, one call at a time, until it says Closed;
	// after Idle it waits for wake, which may be called from anywhere, also while
	// a step runs, and is never lost.
	Loop(name string, step func() Progress) (wake func())
	// Reach is called at the points where an error or a crash is hardest to get
	// right, with a name for each. The simulation counts them and may answer with an
	// error, which the caller treats as one of its own there. In production it is nil.
	Reach(point string) error
}

// Real runs work in goroutines, in real time.
type Real struct{}

// Now implements Executor.
func (Real) Now() time.Time { return time.Now() }

// After implements Executor.
func (Real) After(d time.Duration, f func()) (cancel func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// Go implements Executor.
func (Real) Go(_ string, work func()) { go work() }

// Reach implements Executor.
func (Real) Reach(string) error { return nil }

// turn is how long a loop runs before it lets others have the processor. Go would
// let it run for 10 ms; but to yield at each step is slower by a fifth, since each
// time another processor may go on with it, whose cache is cold. Time that it is
// idle doesn't count, nor does it begin a new turn: two loops that wake each other
// are never idle for long, and Go lets them go on at once, before all that waits.
const turn = 500 * time.Microsecond

// Loop implements Executor. A step that ends its goroutine (runtime.Goexit, as a
// test's FailNow does) doesn't end the loop.
func (Real) Loop(_ string, step func() Progress) (wake func()) {
	bell := make(chan struct{}, 1)
	var rung atomic.Bool
	var run func()
	run = func() {
		over, began := false, time.Now()
		defer func() {
			if !over {
				go run()
			}
		}()
		for !over {
			if time.Since(began) >= turn {
				runtime.Gosched()
				began = time.Now()
			}
			rung.Store(false)
			switch step() {
			case Idle:
				rested := time.Now()
				<-bell
				began = began.Add(time.Since(rested))
			case Closed:
				over = true
			}
		}
	}
	go run()
	return func() {
		if !rung.Swap(true) {
			select {
			case bell <- struct{}{}:
			default:
			}
		}
	}
}
