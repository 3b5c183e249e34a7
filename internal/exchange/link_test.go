package exchange

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/record"
)

// ends are a channel over a connection, both its ends, in a test.
type ends struct {
	Sender
	in             *Inbox
	writer, reader net.Conn
	mu             sync.Mutex // guards what is below
	credits        int
	broken         []error
	stacks         string // of panics
}

func link(t *testing.T, bound int, writer, reader net.Conn) *ends {
	return linkOf(numbers(t), bound, writer, reader)
}

func linkOf(typ record.Type, bound int, writer, reader net.Conn) *ends {
	e := &ends{in: NewInbox(1), writer: writer, reader: reader}
	failed := func(err error, stack string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.broken = append(e.broken, err)
		e.stacks += stack
	}
	Incoming(executor.Real{}, reader, typ, e.in, 0, failed)
	e.Sender = Outgoing(executor.Real{}, writer, typ, bound, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.credits++
	}, failed)
	return e
}

func (e *ends) close() {
	e.writer.Close()
	e.reader.Close()
}

// Everything that was sent arrives, in order, whatever its size.
func TestLinkBringsWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer, reader := net.Pipe()
		l := link(t, 4, writer, reader)
		defer l.close()
		big := &record.Batch[int]{}
		for i := range 1 << 16 {
			big.Add(i)
		}
		for range 3 {
			for _, e := range append(elements, Element{Kind: Records, Batch: big}) {
				want := ""
				if e.Kind == Records {
					b := *e.Batch.(*record.Batch[int])
					e.Batch, want = &b, shown(&b)
				}
				if spare := l.Send(e); (spare != nil) != (e.Kind == Records) {
					t.Fatalf("%v: %v came back", e.Kind, spare)
				}
				synctest.Wait()
				_, got, ok := l.in.Take()
				if !ok || got.Kind != e.Kind || got.Barrier != e.Barrier || want != "" && shown(got.Batch) != want {
					t.Fatalf("another %v arrives", e.Kind)
				}
			}
		}
	})
}

// What is in the writer's hands, under way and in the lane counts together; the
// writer hears when half of it has been taken.
func TestBoundOfALinkHolds(t *testing.T) {
	const bound = 4
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		writer, reader := net.Pipe()
		l := link(t, bound, writer, reader)
		defer l.close()
		length, waiting, credits := 0, false, 0
		for range 2000 {
			if random.IntN(2) == 0 {
				l.Send(Element{Kind: End})
				length++
			} else if _, _, ok := l.in.Take(); ok != (length > 0) {
				t.Fatalf("seed %d: took %v of %d", seed, ok, length)
			} else if ok {
				length--
			}
			synctest.Wait()
			if waiting && length <= bound/2 {
				waiting = false
				credits++
			}
			if random.IntN(2) == 0 {
				if waiting = length >= bound; l.Full() != waiting {
					t.Fatalf("seed %d: full %v with %d elements", seed, !waiting, length)
				}
			}
			if l.credits != credits {
				t.Fatalf("seed %d: %d credits, want %d", seed, l.credits, credits)
			}
		}
	})
}

// A link that breaks says so at both ends, once; nothing of it goes on.
func TestBrokenLinkIsAnErrorAtBothEnds(t *testing.T) {
	breaks := map[string]func(l *ends){
		"writer's end closes": func(l *ends) { l.writer.Close() },
		"reader's end closes": func(l *ends) { l.reader.Close() },
		"after a torn frame":  func(l *ends) { l.writer.Write([]byte{9, 0, 0, 0, 1}); l.writer.Close() },
		"with a wrong frame":  func(l *ends) { l.writer.Write([]byte{1, 0, 0, 0, 77}) },
		"with wrong credit":   func(l *ends) { l.reader.Write([]byte{100}) },
	}
	for name, act := range breaks {
		synctest.Test(t, func(t *testing.T) {
			writer, reader := net.Pipe()
			l := link(t, 4, writer, reader)
			l.Send(Element{Kind: End})
			synctest.Wait()
			act(l)
			synctest.Wait()
			if len(l.broken) != 2 || errors.Is(l.broken[0], io.EOF) {
				t.Errorf("%s: %v", name, l.broken)
			}
			for range 100 { // it can still be sent to; it is full, as before
				l.Send(Element{Kind: End})
			}
			if !l.Full() {
				t.Errorf("%s: there is room", name)
			}
			l.close()
		})
	}
}

// touchy is a record with an encoding of its own, which panics.
type touchy string

func (v touchy) MarshalBinary() ([]byte, error) {
	if v == "unwritable" {
		panic("it can't be written")
	}
	return []byte(v), nil
}

func (v *touchy) UnmarshalBinary(b []byte) error {
	if *v = touchy(b); *v == "unreadable" {
		panic("it can't be read")
	}
	return nil
}

// An encoding of the user's own that panics where records are sent is the writer's
// panic, and leaves the channel as it was; where they are read it breaks the
// connection, and where it came from is known.
func TestPanicInAnEncodingEndsNothingElse(t *testing.T) {
	c, err := codec.For[touchy]()
	if err != nil {
		t.Fatal(err)
	}
	batch := func(v touchy) Element {
		return Element{Kind: Records, Batch: &record.Batch[touchy]{Values: []touchy{v}}}
	}
	synctest.Test(t, func(t *testing.T) {
		writer, reader := net.Pipe()
		l := linkOf(record.TypeOf(c), 1, writer, reader)
		defer l.close()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Send doesn't panic")
				}
			}()
			l.Send(batch("unwritable"))
		}()
		if l.Full() {
			t.Error("what wasn't sent is under way")
		}
		l.Send(batch("good"))
		synctest.Wait()
		if _, e, ok := l.in.Take(); !ok || e.Batch.(*record.Batch[touchy]).Values[0] != "good" {
			t.Errorf("%v, %v arrives", e, ok)
		}
		l.Send(batch("unreadable"))
		synctest.Wait()
		if len(l.broken) != 2 || !strings.Contains(fmt.Sprint(l.broken), "panic: it can't be read") || !strings.Contains(l.stacks, "UnmarshalBinary") {
			t.Errorf("%v\n%s", l.broken, l.stacks)
		}
	})
}
