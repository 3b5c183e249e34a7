// Package align decides when the barriers of a checkpoint have come together at
// one subtask, and which of its channels wait meanwhile.
//
// The Aligner is a state machine without inbox or state: this was read, so do
// that. With two channels, where | is a barrier, what is taken before and after
// the snapshot:
//
//	A   a1 a2 |7            (held) ........ a3     a1 a2 b1 b2 b3 | a3 b4
//	B   b1       b2 b3 |7   (complete)  b4
//
// The records behind the first barrier stay in their channel until the last
// barrier is there. That is exactly-once. At-least-once counts barriers the same
// way and holds nothing: a3 is in the snapshot, and comes again after a restart.
package align

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/record"
)

// Event is something that was read from a channel, or said by the coordinator:
// a Barrier, Cancelled, Closed, or Aborted. End of input isn't one: barriers go
// on behind it until the whole job has ended.
type Event interface{ event() }

// Action is something to do: Hold, Release, Complete, or Cancel.
type Action interface{ action() }

type (
	// Barrier says that a barrier was read.
	Barrier struct {
		Channel int
		Barrier record.Barrier
	}
	// Cancelled says that a cancellation marker was read: the barrier of that
	// checkpoint won't come.
	Cancelled struct {
		Channel    int
		Checkpoint uint64
	}
	// Closed says that nothing more will be read from a channel, no barrier
	// either. From now on it holds up no checkpoint.
	Closed struct{ Channel int }
	// Aborted says that the coordinator has given up a checkpoint.
	Aborted struct{ Checkpoint uint64 }
)

type (
	// Hold stops reading a channel.
	Hold struct{ Channel int }
	// Release goes on reading every channel that is held.
	Release struct{}
	// Complete takes the snapshot and forwards the barrier. Where the snapshot
	// fails, a cancellation marker is forwarded in the barrier's place.
	Complete struct{ Barrier record.Barrier }
	// Cancel forwards a cancellation marker.
	Cancel struct{ Checkpoint uint64 }
)

func (Barrier) event()   {}
func (Cancelled) event() {}
func (Closed) event()    {}
func (Aborted) event()   {}

func (Hold) action()     {}
func (Release) action()  {}
func (Complete) action() {}
func (Cancel) action()   {}

// Aligner decides for one subtask. A source, which has no channels, sees its
// triggers as the barriers of a single one.
//
// Invariants:
//   - every checkpoint that the subtask hears of in its stream is completed or
//     cancelled at most once, never both, and the numbers only rise;
//   - a channel is held only while the checkpoint whose barrier it delivered is
//     open, and no two checkpoints are open at once; at least once, none is ever;
//   - so when newer barriers have come on all channels, none is held.
type Aligner struct {
	channels []channel
	counts   bool            // barriers only, and holds nothing: at least once
	newest   uint64          // number of the newest checkpoint that was begun or cancelled
	open     *record.Barrier // that of newest, until it is completed or cancelled
	missing  int             // channels that open still waits for
	aborted  []uint64        // not heard of in the stream yet, so above newest
}

// channel is what an Aligner knows of one channel.
type channel int

const (
	reading channel = iota
	arrived         // the open checkpoint's barrier; held, unless barriers are only counted
	closed
)

// remembered is how many aborts are kept in mind. To forget one is harmless: a
// snapshot is taken that nobody needs.
const remembered = 16

// New returns an aligner for a subtask with the given number of channels. It holds
// them, for exactly-once, or only counts barriers, for at-least-once.
func New(channels int, counts bool) *Aligner {
	return &Aligner{channels: make([]channel, channels), counts: counts}
}

// Step takes in one event and says what to do about it, in this order.
func (a *Aligner) Step(e Event) []Action {
	switch e := e.(type) {
	case Barrier:
		a.read(e.Channel)
		return a.barrier(e.Channel, e.Barrier)
	case Cancelled:
		a.read(e.Channel)
		return a.cancel(e.Checkpoint)
	case Closed:
		a.read(e.Channel)
		return a.close(e.Channel)
	case Aborted:
		return a.abort(e.Checkpoint)
	}
	panic(fmt.Sprintf("align: unknown event %T", e))
}

// read makes sure that there was something to be read from a channel.
func (a *Aligner) read(ch int) {
	if c := a.channels[ch]; c == closed || c == arrived && !a.counts {
		panic(fmt.Sprintf("align: channel %d was read though it is held or closed", ch))
	}
}

func (a *Aligner) barrier(ch int, b record.Barrier) (do []Action) {
	switch {
	case slices.Contains(a.aborted, b.Checkpoint):
		return a.cancel(b.Checkpoint)
	case b.Checkpoint > a.newest:
		do = a.supersede(b.Checkpoint)
		a.begin(b)
	case b.Checkpoint < a.newest || a.open == nil || a.channels[ch] == arrived:
		return nil
	}
	if a.missing--; a.missing == 0 {
		return append(do, a.complete()...)
	}
	if a.channels[ch] = arrived; a.counts {
		return do
	}
	return append(do, Hold{ch})
}

// begin opens an alignment that waits for every channel not closed.
func (a *Aligner) begin(b record.Barrier) {
	a.open, a.missing = &b, 0
	for _, c := range a.channels {
		if c != closed {
			a.missing++
		}
	}
}

// cancel ends checkpoint n, unless it has ended.
func (a *Aligner) cancel(n uint64) (do []Action) {
	switch {
	case n < a.newest, n == a.newest && a.open == nil:
		return nil
	case n > a.newest:
		do = a.supersede(n)
	}
	return append(append(do, Cancel{n}), a.end()...)
}

// supersede makes n the newest checkpoint, and cancels an older one that is
// open: the channel that brought the news of n won't deliver that barrier.
func (a *Aligner) supersede(n uint64) (do []Action) {
	if a.open != nil {
		do = a.cancel(a.newest)
	}
	a.newest = n
	a.aborted = slices.DeleteFunc(a.aborted, func(old uint64) bool { return old <= n })
	return do
}

func (a *Aligner) close(ch int) []Action {
	waited := a.channels[ch] != arrived
	a.channels[ch] = closed
	if a.open == nil || !waited {
		return nil
	}
	if a.missing--; a.missing > 0 {
		return nil
	}
	return a.complete()
}

// abort cancels the open checkpoint, or remembers to cancel a coming one: only
// the stream knows what comes before it.
func (a *Aligner) abort(n uint64) []Action {
	if n <= a.newest {
		return a.cancel(n)
	}
	if a.aborted = append(a.aborted, n); len(a.aborted) > remembered {
		a.aborted = a.aborted[1:]
	}
	return nil
}

func (a *Aligner) complete() []Action {
	return append([]Action{Complete{*a.open}}, a.end()...)
}

// end closes the alignment, and reads on everywhere.
func (a *Aligner) end() (do []Action) {
	a.open = nil
	for i, c := range a.channels {
		if c != arrived {
			continue
		}
		if a.channels[i] = reading; !a.counts {
			do = []Action{Release{}}
		}
	}
	return do
}
