// Package exchange carries batches and barriers from one subtask to the next.
//
// A subtask waits on one Inbox. It has a lane for each input channel, and mail:
//
//	Sender ──► lane 0 ─┐
//	Sender ──► lane 1 ─┼─► Inbox ──► Take: mail first, then the lanes in turn
//	Post   ──► mail  ──┘
//
// Batches circulate: what the reader has finished with goes back down its lane,
// and the writer fills it again. A lane whose bound is reached is Full, and its
// writer stops taking input; that is all the back-pressure there is. Send never
// blocks, since a writer may be in the middle of a record: what it sends beyond
// the bound is an overdraft.
package exchange

import (
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/record"
)

// Kind is what an Element is.
type Kind uint8

const (
	Records Kind = iota // a batch of records
	Barrier             // the records after it belong to the next checkpoint
	Cancel              // the checkpoint of this number won't come down this channel
	End                 // there will be no more records; barriers may follow
)

// An Element is one thing in a lane.
type Element struct {
	Kind    Kind
	Batch   any // of Records: a *record.Batch of the channel's type
	Note    any // of Records: what a source's fetcher says of the batch
	Barrier record.Barrier
}

// A Sender is the writing end of a channel. It has one owner.
type Sender interface {
	// Send hands e over; the batch in it is the reader's from now on. What it
	// returns is an empty batch that came back, or nil.
	Send(e Element) (spare any)
	// Full reports whether the channel holds as much as it should.
	Full() bool
}

// Inbox is all that a subtask waits for. One goroutine takes from it; anybody
// may send.
type Inbox struct {
	mu    sync.Mutex // guards what is below
	wake  func()     // the loop that takes; nil until Attach
	lanes []lane
	next  int // lane that has its turn
	mail  []func()
}

// lane is one channel's queue. It is bounded by count, not by bytes: a batch is
// full at a fixed number of records.
type lane struct {
	ring    []Element // a power of two long
	head    uint
	tail    uint
	held    bool
	spare   []any // empty batches on their way back
	out     any   // the batch that the reader has
	credit  func()
	bound   uint
	counted bool         // credit is called for each element that is taken
	waiting bool         // the writer has found the lane full
	queued  atomic.Int32 // tail - head, for the writer
}

// NewInbox makes an inbox with a number of lanes. It can be sent to before
// there is anybody who takes.
func NewInbox(lanes int) *Inbox {
	in := &Inbox{lanes: make([]lane, lanes)}
	for i := range in.lanes {
		in.lanes[i].ring = make([]Element, 8)
	}
	return in
}

// Attach says whom to wake, from now on, when there is something new to take.
func (in *Inbox) Attach(wake func()) {
	in.mu.Lock()
	in.wake = wake
	in.mu.Unlock()
	wake()
}

// Wake wakes the loop that takes.
func (in *Inbox) Wake() {
	in.mu.Lock()
	wake := in.wake
	in.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Sender returns the writing end of a lane that is full at bound elements.
// Credit is called when a lane that its writer has found full is half empty.
func (in *Inbox) Sender(lane, bound int, credit func()) Sender {
	in.mu.Lock()
	defer in.mu.Unlock()
	l := &in.lanes[lane]
	l.bound, l.credit = uint(bound), credit
	return &sender{in, l}
}

// counted returns the writing end of a lane whose bound is kept elsewhere: taken
// is called for each element that is taken.
func (in *Inbox) counted(lane int, taken func()) Sender {
	in.mu.Lock()
	defer in.mu.Unlock()
	l := &in.lanes[lane]
	l.bound, l.counted, l.credit = sparesOfCounted, true, taken
	return &sender{in, l}
}

// sparesOfCounted is how many empty batches a counted lane keeps.
const sparesOfCounted = 4

// Post leaves mail: a function that the reader is to call.
func (in *Inbox) Post(mail func()) {
	in.mu.Lock()
	in.mail = append(in.mail, mail)
	wake := in.wake
	in.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Mail takes the oldest mail, nil if there is none.
func (in *Inbox) Mail() func() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.mail) == 0 {
		return nil
	}
	m := in.mail[0]
	in.mail[0] = nil
	if in.mail = in.mail[1:]; len(in.mail) == 0 {
		in.mail = nil
	}
	return m
}

// Take takes the next element of the lanes that aren't held, each in its turn.
// The batch that was taken from that lane before goes back to its writer.
func (in *Inbox) Take() (lane int, e Element, ok bool) {
	var credit func()
	in.mu.Lock()
	for range in.lanes {
		lane = in.next
		if in.next++; in.next == len(in.lanes) {
			in.next = 0
		}
		l := &in.lanes[lane]
		l.giveBack()
		if l.held || l.head == l.tail {
			continue
		}
		e, credit = l.pop()
		ok = true
		break
	}
	in.mu.Unlock()
	if credit != nil {
		credit()
	}
	return lane, e, ok
}

// Hold keeps a lane's elements back until Release.
func (in *Inbox) Hold(lane int) {
	in.mu.Lock()
	in.lanes[lane].held = true
	in.mu.Unlock()
}

// Release ends every Hold.
func (in *Inbox) Release() {
	in.mu.Lock()
	for i := range in.lanes {
		in.lanes[i].held = false
	}
	in.mu.Unlock()
}

// giveBack lets the writer have the batch that the reader has finished with. Of
// what an overdraft has brought, no more is kept than the lane should hold.
func (l *lane) giveBack() {
	if l.out != nil && uint(len(l.spare)) <= l.bound {
		l.spare = append(l.spare, l.out)
	}
	l.out = nil
}

// pop takes the oldest element. It says whom to tell that there is room: a writer
// that waits is told when the lane is half empty, not at the first gap, so that
// it has something to do when it comes.
func (l *lane) pop() (e Element, credit func()) {
	at := l.head & uint(len(l.ring)-1)
	e, l.ring[at] = l.ring[at], Element{}
	l.head++
	l.out = e.Batch
	if l.queued.Store(int32(l.tail - l.head)); l.counted || l.waiting && l.tail-l.head <= l.bound/2 {
		l.waiting, credit = false, l.credit
	}
	return e, credit
}

func (l *lane) push(e Element) {
	if l.tail-l.head == uint(len(l.ring)) {
		longer := make([]Element, 2*len(l.ring))
		for i := l.head; i != l.tail; i++ {
			longer[i&uint(len(longer)-1)] = l.ring[i&uint(len(l.ring)-1)]
		}
		l.ring = longer
	}
	l.ring[l.tail&uint(len(l.ring)-1)] = e
	l.tail++
	l.queued.Store(int32(l.tail - l.head))
}

type sender struct {
	in   *Inbox
	lane *lane
}

func (s *sender) Send(e Element) (spare any) {
	s.in.mu.Lock()
	s.lane.push(e)
	if n := len(s.lane.spare); n > 0 && e.Kind == Records {
		spare = s.lane.spare[n-1]
		s.lane.spare = s.lane.spare[:n-1]
	}
	wake := s.in.wake
	s.in.mu.Unlock()
	if wake != nil {
		wake()
	}
	return spare
}

func (s *sender) Full() bool {
	if s.lane.queued.Load() < int32(s.lane.bound) {
		return false
	}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.lane.waiting = s.lane.tail-s.lane.head >= s.lane.bound
	return s.lane.waiting
}
