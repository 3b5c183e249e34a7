// Package enumerate runs the enumerators of sources: it finds the splits of a
// source in one place, hands each to exactly one subtask, and says at every
// checkpoint which are still here.
//
//	Enumerate ──Assign──► staged ──Save, Done──► found ──Request──► handed out
//
// What is found is in the enumerator's part of a checkpoint; what is handed out
// is the subtask's. The cut between them is the moment of Snapshot: an answer
// carries the number of the last snapshot before it, so that the subtask keeps
// what it gets behind that barrier; and a trigger carries how many answers were
// given before the snapshot, so that none of these can be missing.
package enumerate

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/snapshot"
)

// A Source makes enumerators without its types being known.
type Source interface {
	// Start begins an attempt's enumeration.
	Start(s Setting) *Enumerator
	// Schema says what the splits are.
	Schema() codec.Schema
}

// Setting is what an enumerator works in. Its functions may be called from any
// goroutine, also before Start returns, and must not block.
type Setting struct {
	Executor    executor.Executor
	Parallelism int                  // of the source
	Restored    *snapshot.Enumerator // nil: from the beginning
	Log         *slog.Logger
	// Changed says that requests may be answered now that couldn't before, or that
	// Behind is another.
	Changed func()
	// Failed says that the enumeration has failed; stack is that of a panic.
	Failed func(err error, stack string)
	// Stopped answers Stop: nothing of the enumerator runs any more.
	Stopped func()
}

// An Answer is what a subtask's request for a split gets.
type Answer struct {
	Subtask int
	Request uint64
	Splits  [][]byte
	NoMore  bool
	After   uint64 // number of the checkpoint that the answer comes after, 0 if there was none
}

// New returns the untyped form of a source's enumerator.
func New[T, S any](source connector.Source[T, S], splits codec.Codec[S]) Source {
	return typed[T, S]{source, splits}
}

type typed[T, S any] struct {
	source connector.Source[T, S]
	codec  codec.Codec[S]
}

// Schema implements Source.
func (t typed[T, S]) Schema() codec.Schema { return t.codec.Schema() }

// Start implements Source.
func (t typed[T, S]) Start(setting Setting) *Enumerator {
	bounded, ok := t.source.(connector.Bounded)
	e := &Enumerator{setting: setting, endless: !ok || !bounded.Bounded(), readers: make([]reader, setting.Parallelism)}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	if r := setting.Restored; r != nil {
		e.found, e.position, e.done = slices.Clone(r.Splits), r.Position, r.Done
	}
	if !e.done {
		e.running = true
		setting.Executor.Go("enumerate", func() {
			e.goroutine.Here()
			e.finish(t.run(ctx, &enumeration[S]{of: e, codec: t.codec}))
		})
	}
	return e
}

// run calls the user's Enumerate.
func (t typed[T, S]) run(ctx context.Context, e *enumeration[S]) (stack string, err error) {
	defer func() {
		if r := recover(); r != nil {
			stack, err = string(debug.Stack()), fmt.Errorf("panic: %v", r)
		}
	}()
	if err := t.source.Enumerate(ctx, e); err != nil {
		return "", err
	}
	e.Done()
	return "", nil
}

// Enumerator holds a source's splits that no subtask has yet. Its methods may be
// called from any goroutine.
type Enumerator struct {
	setting   Setting
	cancel    context.CancelFunc
	goroutine executor.Goroutine
	endless   bool // a reader keeps each split for ever, and so gets no more than its share

	mu       sync.Mutex // guards all below
	running  bool
	stopped  bool
	position []byte   // last saved
	found    [][]byte // and not handed out, oldest first
	done     bool     // nothing more will be found
	behind   bool     // it is catching up
	readers  []reader
	parked   []int  // subtasks whose request waits, in the order they came
	last     uint64 // checkpoint
}

// reader is where a subtask's requests stand. All up to the answered one have
// been answered.
type reader struct {
	answered uint64
	answer   Answer // to that one
	splits   int    // handed out to it
}

// Request takes a subtask's request for a split. If it can be answered at once
// ok is true; else it waits for Due. A repeated request gets the same answer.
func (e *Enumerator) Request(subtask int, n uint64) (a Answer, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &e.readers[subtask]
	switch {
	case n == r.answered && n > 0:
		return r.answer, true
	case n != r.answered+1: // long answered: its subtask has gone on
		return Answer{}, false
	}
	if a, ok = e.next(subtask); !ok && !slices.Contains(e.parked, subtask) {
		e.parked = append(e.parked, subtask)
	}
	return a, ok
}

// Due returns the answers to waiting requests that can be given now.
func (e *Enumerator) Due() (due []Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, subtask := range slices.Clone(e.parked) {
		if a, ok := e.next(subtask); ok {
			due = append(due, a)
		}
	}
	return due
}

// next answers a subtask's next request if it can.
func (e *Enumerator) next(subtask int) (Answer, bool) {
	r := &e.readers[subtask]
	a := Answer{Subtask: subtask, Request: r.answered + 1, After: e.last}
	switch {
	case len(e.found) > 0 && (!e.endless || r.splits < e.share()):
		a.Splits, e.found = e.found[:1:1], e.found[1:]
		r.splits++
	case e.done:
		a.NoMore = true
	default:
		return Answer{}, false
	}
	r.answered, r.answer = a.Request, a
	e.parked = slices.DeleteFunc(e.parked, func(s int) bool { return s == subtask })
	return a, true
}

// share is how many of the splits that were found in this attempt one reader may
// have, so that each gets as many as any other, or one less.
func (e *Enumerator) share() int {
	all := len(e.found)
	for _, r := range e.readers {
		all += r.splits
	}
	return (all + len(e.readers) - 1) / len(e.readers)
}

// Snapshot takes the enumerator's part of a checkpoint. Answered says how many
// requests of each subtask were answered before.
func (e *Enumerator) Snapshot(checkpoint uint64) (part snapshot.Enumerator, answered []uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = checkpoint
	for _, r := range e.readers {
		answered = append(answered, r.answered)
	}
	return snapshot.Enumerator{Done: e.done, Position: e.position, Splits: slices.Clone(e.found)}, answered
}

// Behind reports whether the source says that it is catching up.
func (e *Enumerator) Behind() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.behind
}

// Stop ends the enumeration.
func (e *Enumerator) Stop() {
	e.cancel()
	e.mu.Lock()
	e.stopped = true
	running := e.running
	e.mu.Unlock()
	if !running {
		e.setting.Stopped()
	}
}

// Stack is where Enumerate is now.
func (e *Enumerator) Stack() string { return e.goroutine.Stack() }

// finish takes in that Enumerate has returned.
func (e *Enumerator) finish(stack string, err error) {
	e.mu.Lock()
	e.running = false
	stopped := e.stopped
	e.mu.Unlock()
	switch {
	case stopped:
		e.setting.Stopped()
	case err != nil:
		e.setting.Failed(err, stack)
	}
}

// publish makes what was staged available.
func (e *Enumerator) publish(staged [][]byte, change func()) {
	e.mu.Lock()
	e.found = append(e.found, staged...)
	change()
	e.mu.Unlock()
	e.setting.Changed()
}

// enumeration implements connector.Enumeration for the goroutine of Enumerate.
type enumeration[S any] struct {
	of     *Enumerator
	codec  codec.Codec[S]
	staged [][]byte
	over   bool // Done was called
}

func (e *enumeration[S]) Position() []byte {
	if r := e.of.setting.Restored; r != nil {
		return r.Position
	}
	return nil
}

func (e *enumeration[S]) Assign(splits ...S) {
	e.open("Assign")
	for i := range splits {
		e.staged = append(e.staged, e.codec.Append(nil, &splits[i]))
	}
}

func (e *enumeration[S]) Save(position []byte) {
	e.open("Save")
	e.of.publish(e.staged, func() { e.of.position = slices.Clone(position) })
	e.staged = nil
}

func (e *enumeration[S]) SetBacklog(behind bool) {
	e.open("SetBacklog")
	e.of.publish(nil, func() { e.of.behind = behind })
}

func (e *enumeration[S]) Done() {
	if e.over {
		return
	}
	e.over = true
	e.of.publish(e.staged, func() { e.of.done, e.of.behind = true, false })
	e.staged = nil
}

// open panics, with a message for the connector's author, when there should be
// nothing more.
func (e *enumeration[S]) open(what string) {
	if e.over {
		panic(what + " after Done")
	}
}

func (e *enumeration[S]) Parallelism() int  { return e.of.setting.Parallelism }
func (e *enumeration[S]) Log() *slog.Logger { return e.of.setting.Log }
