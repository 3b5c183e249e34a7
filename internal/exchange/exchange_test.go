package exchange

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/record"
)

// model is an inbox as one would explain it: a list for each lane.
type model struct {
	lanes []modelLane
	next  int
}

type modelLane struct {
	queue   []uint64 // numbers of elements
	out     *batch   // that the reader has
	held    bool
	waiting bool // the writer has found it full and wasn't told otherwise
}

func (m *model) take() (lane int, number uint64, ok bool) {
	for range m.lanes {
		lane = m.next
		m.next = (m.next + 1) % len(m.lanes)
		l := &m.lanes[lane]
		if l.out = nil; !l.held && len(l.queue) > 0 {
			number, l.queue = l.queue[0], l.queue[1:]
			return lane, number, true
		}
	}
	return 0, 0, false
}

// batch knows who has it, so that one that is used after it was handed over is
// found.
type batch struct {
	number uint64
	owner  string
}

// TestInboxAgreesWithModel walks at random through sends, takes, holds and mail,
// and compares an inbox with the model: order in each lane, turns between them,
// fullness, credit, and that of a batch there is never more than one owner.
func TestInboxAgreesWithModel(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(300) {
		if err := walkInbox(rand.New(rand.NewPCG(seed, i))); err != nil {
			t.Fatalf("seed %d %d: %v", seed, i, err)
		}
	}
}

func walkInbox(random *rand.Rand) error {
	const bound = 3
	lanes := 1 + random.IntN(4)
	in, m := NewInbox(lanes), &model{lanes: make([]modelLane, lanes)}
	woken, credits := 0, make([]int, lanes)
	in.Attach(func() { woken++ })
	senders, spares := make([]Sender, lanes), make([][]*batch, lanes)
	for i := range lanes {
		senders[i] = in.Sender(i, bound, func() { credits[i]++ })
	}
	var mail, posted int
	number := uint64(0)
	for range 400 {
		lane := random.IntN(lanes)
		l := &m.lanes[lane]
		switch random.IntN(8) {
		case 0, 1, 2:
			b := &batch{}
			if n := len(spares[lane]); n > 0 {
				b, spares[lane] = spares[lane][n-1], spares[lane][:n-1]
			}
			number++
			b.number, b.owner = number, "lane"
			l.queue = append(l.queue, number)
			before := woken
			if spare := senders[lane].Send(Element{Kind: Records, Batch: b, Barrier: record.Barrier{Checkpoint: number}}); spare != nil {
				s := spare.(*batch)
				if s.owner != "reader" || s == l.out {
					return fmt.Errorf("batch %d came back while it was with the %s", s.number, s.owner)
				}
				s.owner, spares[lane] = "writer", append(spares[lane], s)
			}
			if woken == before {
				return fmt.Errorf("nobody was woken")
			}
		case 3, 4:
			at, want, ok := m.take()
			before := credits[at]
			got, e, really := in.Take()
			switch {
			case ok != really:
				return fmt.Errorf("took %v, want %v", really, ok)
			case !ok:
				continue
			case got != at || e.Barrier.Checkpoint != want || e.Batch.(*batch).number != want:
				return fmt.Errorf("took %d of lane %d, want %d of %d", e.Barrier.Checkpoint, got, want, at)
			}
			from := &m.lanes[at]
			from.out = e.Batch.(*batch)
			from.out.owner = "reader"
			told := from.waiting && len(from.queue) <= bound/2
			if told {
				from.waiting = false
			}
			if told != (credits[at] > before) {
				return fmt.Errorf("lane %d of length %d: credit %v, want %v", at, len(from.queue), credits[at] > before, told)
			}
		case 5:
			full := len(l.queue) >= bound
			if senders[lane].Full() != full {
				return fmt.Errorf("full %v with %d elements", !full, len(l.queue))
			}
			l.waiting = l.waiting || full
		case 6:
			if random.IntN(2) == 0 {
				in.Hold(lane)
				l.held = true
				continue
			}
			in.Release()
			for i := range m.lanes {
				m.lanes[i].held = false
			}
		case 7:
			if random.IntN(2) == 0 {
				n := posted
				posted++
				in.Post(func() {
					if n != mail {
						mail = -1 << 30
					}
					mail++
				})
			} else if f := in.Mail(); f != nil {
				f()
			} else if mail != posted {
				return fmt.Errorf("%d of %d letters are there, in order", mail, posted)
			}
		}
	}
	return nil
}

func TestNoMoreBatchesAreKeptThanTheLaneShouldHold(t *testing.T) {
	in := NewInbox(1)
	s := in.Sender(0, 4, func() {})
	for range 1000 { // an overdraft
		s.Send(Element{Kind: Records, Batch: &batch{}})
	}
	for _, _, ok := in.Take(); ok; _, _, ok = in.Take() {
	}
	kept := 0
	for s.Send(Element{Kind: Records, Batch: &batch{}}) != nil {
		kept++
	}
	if kept == 0 || kept > 5 {
		t.Errorf("%d batches are kept", kept)
	}
}

func TestElementsSentBeforeAnybodyTakesAreThere(t *testing.T) {
	in := NewInbox(1)
	in.Sender(0, 1, nil).Send(Element{Kind: End})
	in.Post(func() {})
	woken := false
	in.Attach(func() { woken = true })
	if _, e, ok := in.Take(); !woken || !ok || e.Kind != End || in.Mail() == nil {
		t.Error("something is lost")
	}
}

// Under the race detector: every record of several writers arrives once and in
// its writer's order, while batches circulate and writers wait for credit.
func TestWritersAndReaderInGoroutines(t *testing.T) {
	const lanes, batches, size = 3, 2000, 8
	in := NewInbox(lanes)
	var writers sync.WaitGroup
	writers.Add(lanes)
	for i := range lanes {
		var step func() executor.Progress
		wake := make(chan func(), 1)
		var s Sender
		b, sent, next := &record.Batch[int]{}, 0, 0
		step = func() executor.Progress {
			if s == nil {
				w := <-wake
				s = in.Sender(i, 2, w)
			}
			switch {
			case sent == batches:
				s.Send(Element{Kind: End})
				writers.Done()
				return executor.Closed
			case s.Full():
				return executor.Idle
			}
			for range size {
				b.Add(next)
				next++
			}
			sent++
			if spare := s.Send(Element{Kind: Records, Batch: b}); spare != nil {
				b = spare.(*record.Batch[int])
				b.Reset()
			} else {
				b = &record.Batch[int]{}
			}
			return executor.Worked
		}
		wake <- executor.Real{}.Loop("writer", step)
	}
	var want [lanes]int
	ends, posts, letters := 0, 0, 0
	done := make(chan struct{})
	in.Attach(executor.Real{}.Loop("reader", func() executor.Progress {
		for m := in.Mail(); m != nil; m = in.Mail() {
			m()
		}
		lane, e, ok := in.Take()
		switch {
		case !ok && ends == lanes && letters == posts:
			close(done)
			return executor.Closed
		case !ok:
			return executor.Idle
		case e.Kind == End:
			ends++
			return executor.Worked
		}
		for _, v := range e.Batch.(*record.Batch[int]).Values {
			if v != want[lane] {
				t.Errorf("lane %d: %d, want %d", lane, v, want[lane])
			}
			want[lane]++
		}
		if posts++; posts%100 == 0 {
			go in.Post(func() { letters++ })
		} else {
			letters++
		}
		return executor.Worked
	}))
	writers.Wait()
	<-done
	for lane, n := range want {
		if n != batches*size {
			t.Errorf("lane %d: %d records", lane, n)
		}
	}
}

func numbers(t testing.TB) record.Type {
	c, err := codec.For[int]()
	if err != nil {
		t.Fatal(err)
	}
	return record.TypeOf(c)
}

var elements = []Element{
	{Kind: Records, Batch: &record.Batch[int]{Values: []int{1, 2}, Times: []int64{-1, 5}, Hashes: []uint64{7, 8}}},
	{Kind: Records, Batch: &record.Batch[int]{}},
	{Kind: Barrier, Barrier: record.Barrier{Checkpoint: 300, Savepoint: true, At: -5, Target: "file:///x"}},
	{Kind: Barrier, Barrier: record.Barrier{Checkpoint: 1, Drained: true}},
	{Kind: Cancel, Barrier: record.Barrier{Checkpoint: 9}},
	{Kind: End},
}

func TestEncodedChannelBringsWhatWasSent(t *testing.T) {
	in, typ := NewInbox(1), numbers(t)
	s := Encoded(in.Sender(0, 2, nil), typ)
	for range 3 { // the second time batches have come back
		for _, e := range elements {
			var want string
			if e.Kind == Records {
				b := *e.Batch.(*record.Batch[int])
				want = shown(&b)
				e.Batch = &b
			}
			spare := s.Send(e)
			if (spare != nil) != (e.Kind == Records) || spare != nil && spare != e.Batch {
				t.Fatalf("%v: %v came back", e, spare)
			}
			_, got, ok := in.Take()
			if !ok || got.Kind != e.Kind || got.Barrier != e.Barrier {
				t.Fatalf("got %v, want %v", got, e)
			}
			if e.Kind == Records && (got.Batch == e.Batch || shown(got.Batch) != want) {
				t.Fatalf("got %v, want %v", got.Batch, want)
			}
		}
	}
}

func FuzzFrame(f *testing.F) {
	typ := numbers(f)
	for _, e := range elements {
		f.Add(AppendFrame(nil, typ, e))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		e, err := DecodeFrame(src, typ, typ.New())
		if err != nil {
			return
		}
		again, err := DecodeFrame(AppendFrame(nil, typ, e), typ, typ.New())
		if err != nil || again.Kind != e.Kind || again.Barrier != e.Barrier {
			t.Errorf("%v became %v, %v", e, again, err)
		}
	})
}

func TestTornFrameIsAnError(t *testing.T) {
	typ := numbers(t)
	for _, e := range elements {
		whole := AppendFrame(nil, typ, e)
		end := len(whole) - len(e.Barrier.Target) // which may have any length
		for n := range end {
			if _, err := DecodeFrame(whole[:n], typ, typ.New()); err == nil {
				t.Errorf("the first %d bytes of %v pass", n, e)
			}
		}
	}
	if _, err := DecodeFrame([]byte{byte(End) + 1}, typ, typ.New()); err == nil {
		t.Error("an unknown kind passes")
	}
}

// shown is what a batch of ints holds.
func shown(batch any) string {
	b := batch.(*record.Batch[int])
	return fmt.Sprint(b.Values, b.Times, b.Hashes)
}
