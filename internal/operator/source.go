package operator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
)

// A Source is an operator at the head of a chain that takes no records from
// others. A fetcher beside the subtask calls its reader and sends what it reads
// down a lane of the subtask's own inbox; the subtask knows how far it has
// consumed each split.
type Source interface {
	Operator
	// Begin starts the fetcher.
	Begin(f Fetching)
	// Assign adds splits, or says that there will be no more.
	Assign(splits [][]byte, noMore bool) error
	// Consumed says that the records of a fetched batch up to a number have been
	// processed; whole, that this was all of it.
	Consumed(note any, upto int, whole bool)
	// Resume says that the fetcher may have something to do.
	Resume()
	// Closed reports whether the fetcher has ended. Close asks it to.
	Closed() bool
	// Stack is where the fetcher is now.
	Stack() string
}

// Fetching is what a source's fetcher needs of its subtask.
type Fetching struct {
	To exchange.Sender // the lane; its credit calls Resume
	// Want asks for a split; it is called again only after an Assign.
	Want func()
	// Failed says that the reader has failed.
	Failed func(err error, stack string)
	// Done says that the fetcher has ended.
	Done func()
}

// NewSource makes the source operator of one subtask.
func NewSource[T, S any](c *Context, source connector.Source[T, S], splits codec.Codec[S], out *Output[T]) (Operator, error) {
	s := &sourceOp[T, S]{c: c, codec: splits, out: out}
	bounded, ok := source.(connector.Bounded)
	s.fetch.source, s.fetch.inTurn = s, !ok || !bounded.Bounded()
	lossy, ok := source.(connector.Lossy)
	s.lossy = ok && lossy.Lossy()
	if c.Restored != nil {
		s.ended = c.Restored.Ended
		if err := s.add(c.Restored.Splits); err != nil {
			return nil, err
		}
	}
	reader, err := source.Open(c, c)
	if err != nil {
		return nil, err
	}
	s.fetch.reader = reader
	return s, nil
}

type sourceOp[T, S any] struct {
	c      *Context
	codec  codec.Codec[S]
	out    *Output[T]
	splits []*split // assigned and not consumed to the end, in order
	ended  bool
	lossy  bool // records to leave out have not come again
	view   record.Batch[T]
	fetch  fetcher[T, S]
}

// split is where the subtask stands in one split: skip records after position.
// A barrier may come in the middle of a batch, and readers only know positions
// between their batches.
type split struct {
	position []byte
	skip     uint64
}

// fetched is the note on a fetched batch: where its split stands after it.
type fetched struct {
	split    *split
	position []byte
	dropped  uint64 // records that were read again and left out, before the batch
	skip     uint64 // records to leave out after it
	last     bool   // the split is at its end
}

func (s *sourceOp[T, S]) Receiver() any { return nil }

func (s *sourceOp[T, S]) Slice(batch any, from, to int) {
	b := batch.(*record.Batch[T])
	s.c.Records.Add(to - from)
	if s.c.Chain.passes() {
		for _, receive := range s.out.next {
			receive(view(&s.view, b, from, to))
		}
	}
}

func (s *sourceOp[T, S]) Length(batch any) int { return len(batch.(*record.Batch[T]).Values) }

func (s *sourceOp[T, S]) Consumed(note any, upto int, whole bool) {
	f := note.(*fetched)
	switch {
	case !whole:
		f.split.skip = f.dropped + uint64(upto)
	case f.last:
		s.splits = slices.DeleteFunc(s.splits, func(other *split) bool { return other == f.split })
	default:
		f.split.position, f.split.skip = f.position, f.skip
	}
}

func (s *sourceOp[T, S]) End() { s.ended = true }

func (s *sourceOp[T, S]) Freeze(record.Barrier) (Part, error) {
	w := snapshot.State{Ended: s.ended}
	for _, sp := range s.splits {
		w.Splits = append(w.Splits, append(binary.AppendUvarint(nil, sp.skip), sp.position...))
	}
	return Whole(w), nil
}

func (s *sourceOp[T, S]) Completed(uint64) {}
func (s *sourceOp[T, S]) Err() error       { return nil }

func (s *sourceOp[T, S]) Begin(f Fetching) { s.fetch.begin(f) }
func (s *sourceOp[T, S]) Resume()          { s.fetch.wake() }
func (s *sourceOp[T, S]) Closed() bool     { return s.fetch.closed() }
func (s *sourceOp[T, S]) Stack() string    { return s.fetch.goroutine.Stack() }

// Close closes the reader, if the fetcher hasn't begun and so won't.
func (s *sourceOp[T, S]) Close() error { return s.fetch.close() }

func (s *sourceOp[T, S]) Assign(splits [][]byte, noMore bool) error {
	fresh := make([][]byte, len(splits))
	for i, position := range splits {
		fresh[i] = append([]byte{0}, position...) // skip nothing
	}
	if err := s.add(fresh); err != nil {
		return err
	}
	s.fetch.assigned(noMore)
	return nil
}

// add takes in splits as Freeze wrote them.
func (s *sourceOp[T, S]) add(stored [][]byte) error {
	for _, b := range stored {
		skip, n := binary.Uvarint(b)
		if n <= 0 {
			return errors.New("split: not a position")
		}
		if s.lossy {
			skip = 0
		}
		sp := &split{position: b[n:], skip: skip}
		q := &reading[S]{split: sp, skip: skip}
		if _, err := s.codec.Decode(sp.position, &q.at); err != nil {
			return fmt.Errorf("split: %w", err)
		}
		s.splits = append(s.splits, sp)
		s.fetch.queue(q)
	}
	return nil
}

// reading is a split as the fetcher has it.
type reading[S any] struct {
	split *split
	at    S
	skip  uint64 // records still to leave out
}

// fetcher runs beside its subtask.
type fetcher[T, S any] struct {
	source *sourceOp[T, S]
	reader connector.Reader[T, S]
	inTurn bool // splits that never end take turns; others are read one after the other
	Fetching
	wake      func()
	goroutine executor.Goroutine
	spare     *record.Batch[T]
	sent      bool // End
	failed    bool

	mu      sync.Mutex // guards what is below
	queued  []*reading[S]
	wanting bool
	noMore  bool
	begun   bool
	quit    bool
	over    bool
}

func (f *fetcher[T, S]) begin(to Fetching) {
	f.mu.Lock()
	f.begun = true
	f.mu.Unlock()
	f.Fetching = to
	f.wake = f.source.c.Executor.Loop("fetch", f.step)
}

func (f *fetcher[T, S]) queue(r *reading[S]) {
	f.mu.Lock()
	f.queued = append(f.queued, r)
	f.mu.Unlock()
}

func (f *fetcher[T, S]) assigned(noMore bool) {
	f.mu.Lock()
	f.wanting, f.noMore = false, f.noMore || noMore
	f.mu.Unlock()
	f.wake()
}

func (f *fetcher[T, S]) closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over || !f.begun
}

func (f *fetcher[T, S]) close() error {
	f.mu.Lock()
	f.quit = true
	begun := f.begun
	f.mu.Unlock()
	if !begun {
		return f.reader.Close()
	}
	f.wake()
	return nil
}

// turn says what to do next: end, or read r, or if there is none, wait or say
// that it was all; and whether to ask for a split.
func (f *fetcher[T, S]) turn() (r *reading[S], want, all, quit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if (f.inTurn || len(f.queued) < 2) && !f.wanting && !f.noMore { // one ahead, so that small splits don't wait
		f.wanting, want = true, true
	}
	if len(f.queued) > 0 {
		r = f.queued[0]
	}
	return r, want, r == nil && f.noMore, f.quit
}

func (f *fetcher[T, S]) step() (p executor.Progress) {
	f.goroutine.Here()
	returned := false
	defer Caught(&returned, func(what any, stack string) {
		f.goroutine.Forget()
		f.failed, p = true, executor.Idle
		f.Failed(fmt.Errorf("operator %q: read: panic: %v", f.source.c.Name, what), stack)
	})
	p = f.work()
	returned = true
	return p
}

func (f *fetcher[T, S]) work() executor.Progress {
	r, want, all, quit := f.turn()
	switch {
	case quit:
		f.end()
		return executor.Closed
	case f.failed || f.source.c.Context.Err() != nil:
		return executor.Idle
	case want:
		f.Want()
	}
	switch {
	case all && !f.sent:
		f.sent = true
		f.To.Send(exchange.Element{Kind: exchange.End})
		return executor.Idle
	case r == nil || f.To.Full():
		return executor.Idle
	}
	if err := f.read(r); err != nil {
		f.failed = true
		f.Failed(fmt.Errorf("operator %q: read: %w", f.source.c.Name, err), "")
		return executor.Idle
	}
	return executor.Worked
}

// end closes the reader; nothing of the fetcher runs after it.
func (f *fetcher[T, S]) end() {
	defer func() {
		if r := recover(); r != nil {
			f.source.c.Logger.Warn("a reader panicked while it closed", "error", r, "stack", string(debug.Stack()))
		}
		f.mu.Lock()
		f.over = true
		f.mu.Unlock()
		f.Done()
	}()
	if err := f.reader.Close(); err != nil {
		f.source.c.Logger.Warn("a reader didn't close well", "error", err)
	}
}

// read fetches one batch of a split.
func (f *fetcher[T, S]) read(r *reading[S]) error {
	b := f.spare
	if f.spare = nil; b == nil {
		b = &record.Batch[T]{Values: make([]T, 0, f.source.c.batchSize())}
	}
	err := f.reader.Read(f.source.c, &r.at, b)
	if err != nil && err != io.EOF {
		return err
	}
	note := &fetched{split: r.split, last: err == io.EOF}
	if !note.last {
		note.position = f.source.codec.Append(nil, &r.at)
	}
	if r.skip > 0 {
		n := min(r.skip, uint64(b.Len()))
		b.Values = slices.Delete(b.Values, 0, int(n)) // not b.Values[n:]: the batch will come back, and be as large
		if len(b.Times) > 0 {
			b.Times = slices.Delete(b.Times, 0, int(n))
		}
		r.skip, note.dropped, note.skip = r.skip-n, n, r.skip-n
	}
	if len(b.Values) == 0 && !note.last && note.dropped == 0 {
		f.spare = b
		return nil
	}
	f.turnOver(note.last)
	if spare := f.To.Send(exchange.Element{Kind: exchange.Records, Batch: b, Note: note}); spare != nil {
		f.spare = spare.(*record.Batch[T])
		f.spare.Reset()
	}
	return nil
}

// turnOver ends the turn of the first split, for good if that was the last of it.
func (f *fetcher[T, S]) turnOver(last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.queued[0]
	switch {
	case last:
		f.queued = slices.Delete(f.queued, 0, 1)
	case f.inTurn:
		f.queued = append(slices.Delete(f.queued, 0, 1), first)
	}
}
