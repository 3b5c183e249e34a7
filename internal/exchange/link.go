package exchange

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/record"
)

// A channel over a connection has an Outgoing end and an Incoming one:
//
//	Send ─► Outgoing ── length, frame ──► Incoming ─► lane of an Inbox
//	             ▲ ◄─── elements taken ───────┘
//
// Frames are those of AppendFrame behind their length in four bytes; back come
// uvarints: how many more elements the reader has taken. The writer counts those
// that are under way, so the channel's bound holds over both ends and the
// connection together.
//
// Each end has one goroutine that reads, and a loop that writes, so that neither
// Send nor Take waits for the connection. Both end with the connection: whoever
// made it closes it when the subtasks at its ends have stopped. Until then, that
// it breaks is an error, which each end reports once; an end that has found one
// closes the connection, so that the other finds one, too.

// Outgoing makes the writing end of a channel that is full at bound elements.
// Credit is called when a channel that its writer has found full is half empty,
// failed when the connection breaks; what is sent from then on goes nowhere. Send panics
// if an encoding of the user's own does.
func Outgoing(x executor.Executor, conn io.ReadWriteCloser, t record.Type, bound int, credit func(), failed func(err error, stack string)) Sender {
	s := &outgoing{end: end{conn: conn, failed: failed}, records: t, bound: uint64(bound), credit: credit}
	s.wake = x.Loop("send", s.write)
	x.Go("credits", s.listen)
	return s
}

// end is what both ends have.
type end struct {
	conn   io.ReadWriteCloser
	failed func(err error, stack string)
	wake   func() // the loop that writes
	once   sync.Once
	broken atomic.Bool
}

// breaks ends the end. The stack is that of a panic.
func (e *end) breaks(err error, stack string) {
	e.once.Do(func() {
		e.broken.Store(true)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // an end of input comes in a frame
		}
		e.failed(fmt.Errorf("connection: %w", err), stack)
		e.conn.Close() // last, so that the cause is told before what follows from it
	})
}

type outgoing struct {
	end
	records record.Type
	bound   uint64
	credit  func()

	mu       sync.Mutex // guards what is below
	frames   []byte     // to be written
	spare    []byte     // empty, to be filled next
	underWay uint64     // elements that were sent and not taken
	waiting  bool       // the writer has found the channel full
}

func (s *outgoing) Send(e Element) (spare any) {
	s.put(e)
	s.wake()
	if e.Kind != Records {
		return nil
	}
	s.records.Reset(e.Batch)
	return e.Batch
}

// put adds an element to what is to be written. An encoding of the user's own may
// panic: then nothing of the element is there.
func (s *outgoing) put(e Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.broken.Load() {
		at := len(s.frames)
		s.frames = AppendFrame(append(s.frames, 0, 0, 0, 0), s.records, e)
		binary.LittleEndian.PutUint32(s.frames[at:], uint32(len(s.frames)-at-4))
	}
	s.underWay++
}

func (s *outgoing) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = s.underWay >= s.bound
	return s.waiting
}

// write is a step of the loop that writes.
func (s *outgoing) write() executor.Progress {
	s.mu.Lock()
	frames := s.frames
	s.frames, s.spare = s.spare[:0], nil
	s.mu.Unlock()
	if s.broken.Load() {
		return executor.Closed
	}
	var err error
	if len(frames) > 0 {
		_, err = s.conn.Write(frames)
	}
	s.mu.Lock()
	s.spare = frames
	s.mu.Unlock()
	switch {
	case err != nil:
		s.breaks(err, "")
		return executor.Closed
	case len(frames) > 0:
		return executor.Worked
	}
	return executor.Idle
}

// listen hears what the reader has taken, until the connection ends.
func (s *outgoing) listen() {
	r := bufio.NewReader(s.conn)
	for {
		taken, err := binary.ReadUvarint(r)
		if err == nil && !s.taken(taken) {
			err = fmt.Errorf("%d elements were taken, more than there are", taken)
		}
		if err != nil {
			s.breaks(err, "")
			s.wake()
			return
		}
	}
}

// taken counts elements that the reader has taken.
func (s *outgoing) taken(n uint64) (plausible bool) {
	s.mu.Lock()
	if plausible = n <= s.underWay; plausible {
		s.underWay -= n
	}
	tell := s.waiting && s.underWay <= s.bound/2
	if tell {
		s.waiting = false
	}
	s.mu.Unlock()
	if tell {
		s.credit()
	}
	return plausible
}

// Incoming brings what comes over conn into a lane of in. Failed is called when
// the connection breaks, or brings what can't be read; with a stack if that panicked.
func Incoming(x executor.Executor, conn io.ReadWriteCloser, t record.Type, in *Inbox, lane int, failed func(err error, stack string)) {
	r := &incoming{end: end{conn: conn, failed: failed}, records: t}
	r.wake = x.Loop("give credit", r.write)
	r.to = in.counted(lane, func() {
		r.taken.Add(1)
		r.wake()
	})
	x.Go("receive", r.listen)
}

type incoming struct {
	end
	records record.Type
	to      Sender
	taken   atomic.Uint64 // elements that the writer hasn't been told of
	bytes   []byte
}

// write is a step of the loop that writes.
func (r *incoming) write() executor.Progress {
	if r.broken.Load() {
		return executor.Closed
	}
	n := r.taken.Swap(0)
	if n == 0 {
		return executor.Idle
	}
	if _, err := r.conn.Write(binary.AppendUvarint(nil, n)); err != nil {
		r.breaks(err, "")
		return executor.Closed
	}
	return executor.Worked
}

// listen passes elements on, until the connection ends, or an encoding of the user's
// own panics.
func (r *incoming) listen() {
	defer func() {
		if what := recover(); what != nil {
			r.breaks(fmt.Errorf("panic: %v", what), string(debug.Stack()))
			r.wake()
		}
	}()
	from, into := bufio.NewReader(r.conn), r.records.New()
	for {
		e, err := r.next(from, into)
		if err != nil {
			r.breaks(err, "")
			r.wake()
			return
		}
		spare := r.to.Send(e)
		if e.Kind != Records {
			continue
		}
		if into = spare; into == nil {
			into = r.records.New()
		}
		r.records.Reset(into)
	}
}

// next reads an element.
func (r *incoming) next(from io.Reader, into any) (e Element, err error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return e, err
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	r.bytes = r.bytes[:0]
	for int64(len(r.bytes)) < n { // what is said to come isn't believed until it is here
		at := len(r.bytes)
		r.bytes = append(r.bytes, make([]byte, min(n-int64(at), 1<<20))...)
		if _, err := io.ReadFull(from, r.bytes[at:]); err != nil {
			return e, err
		}
	}
	return DecodeFrame(r.bytes, r.records, into)
}
