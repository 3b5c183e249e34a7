package operator

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/keygroup"
	"github.com/weirstream/weir/record"
)

// A Routing is the situation of one router.
type Routing struct {
	Senders        []exchange.Sender // one for each subtask that this one sends to
	Subtask        int               // that sends
	MaxParallelism int               // of the receiver
	To             string            // what the user calls the receiver
	Chain          *Chain            // that the router is at the end of
	BatchSize      int               // records in a full batch; 0: BatchSize
}

// A Router spreads an operator's output over the channels of one edge.
type Router interface {
	// Receiver returns a Receiver of the edge's records, as any.
	Receiver() any
	// Flush sends the batches that have been begun.
	Flush()
	// Send flushes, and then sends e down every channel.
	Send(e exchange.Element)
	// Full reports whether any channel is.
	Full() bool
}

// ports is what all routers are made of: a batch begun for each channel.
type ports[T any] struct {
	open   []port[T]
	timed  bool     // what is begun has times
	choice []uint32 // for each record of a batch, the port it goes to
	spread func(b *record.Batch[T])
}

// A port fills a batch. The batch's slices are kept at their full length while it
// does, and cut when it is sent.
type port[T any] struct {
	to            exchange.Sender
	batch         *record.Batch[T]
	values        []T
	times         []int64 // as long as values, or empty
	hashes        []uint64
	n             int // records in it; fewer than there is room for
	timed, hashed bool
	full          int // n at which it is sent
}

func newPorts[T any](r Routing, hashed bool) *ports[T] {
	p := &ports[T]{open: make([]port[T], len(r.Senders))}
	for i, s := range r.Senders {
		p.open[i] = port[T]{to: s, hashed: hashed, full: cmp.Or(r.BatchSize, BatchSize)}
		p.open[i].begin(&record.Batch[T]{})
	}
	return p
}

func (p *ports[T]) Receiver() any { return Receiver[T](p.receive) }

func (p *ports[T]) receive(b *record.Batch[T]) {
	if timed := len(b.Times) > 0; timed != p.timed {
		p.Flush()
		p.timed = timed
		for i := range p.open {
			p.open[i].timed = timed
			p.open[i].stretch(len(p.open[i].values))
		}
	}
	p.spread(b)
}

func (p *ports[T]) Flush() {
	for i := range p.open {
		if p.open[i].n > 0 {
			p.open[i].send()
		}
	}
}

func (p *ports[T]) Send(e exchange.Element) {
	p.Flush()
	for i := range p.open {
		p.open[i].to.Send(e)
	}
}

func (p *ports[T]) Full() bool {
	for i := range p.open {
		if p.open[i].to.Full() {
			return true
		}
	}
	return false
}

// choices returns room to say where each record of b goes.
func (p *ports[T]) choices(b *record.Batch[T]) []uint32 {
	p.choice = slices.Grow(p.choice[:0], len(b.Values))[:len(b.Values)]
	return p.choice
}

// deal gives each record of b to the port that was chosen for it.
func (p *ports[T]) deal(b *record.Batch[T], choices []uint32) {
	open, values, hashes, times := p.open, b.Values[:len(choices)], b.Hashes, b.Times
	for i, choice := range choices {
		to := &open[choice]
		n := to.n
		to.values[n] = values[i]
		if i < len(hashes) {
			to.hashes[n] = hashes[i]
		}
		if i < len(times) {
			to.times[n] = times[i]
		}
		if to.n = n + 1; to.n == len(to.values) {
			to.extend()
		}
	}
}

// all takes a whole batch, in pieces that fill up what is begun.
func (p *port[T]) all(b *record.Batch[T]) {
	for from := 0; from < len(b.Values); {
		n := copy(p.values[p.n:], b.Values[from:])
		if p.hashed {
			copy(p.hashes[p.n:], b.Hashes[from:])
		}
		if p.timed {
			copy(p.times[p.n:], b.Times[from:])
		}
		from += n
		if p.n += n; p.n == len(p.values) {
			p.extend()
		}
	}
}

// extend makes room where there is none left. A batch begins small: most channels
// of a wide job carry little.
func (p *port[T]) extend() {
	if p.n >= p.full {
		p.send()
	} else {
		p.stretch(min(4*p.n, p.full))
	}
}

func (p *port[T]) send() {
	p.batch.Values = p.values[:p.n]
	if p.timed {
		p.batch.Times = p.times[:p.n]
	}
	if p.hashed {
		p.batch.Hashes = p.hashes[:p.n]
	}
	if spare := p.to.Send(exchange.Element{Kind: exchange.Records, Batch: p.batch}); spare != nil {
		b := spare.(*record.Batch[T])
		b.Reset()
		p.begin(b)
	} else {
		p.begin(&record.Batch[T]{})
	}
}

// begin fills b, which is empty, from now on.
func (p *port[T]) begin(b *record.Batch[T]) {
	p.batch, p.n = b, 0
	p.values, p.times, p.hashes = b.Values, b.Times, b.Hashes
	p.stretch(min(max(16, cap(b.Values)), p.full))
}

// stretch makes room for n records in all.
func (p *port[T]) stretch(n int) {
	p.values = slices.Grow(p.values[:p.n], n-p.n)[:n]
	if p.timed {
		p.times = slices.Grow(p.times[:p.n], n-p.n)[:n]
	}
	if p.hashed {
		p.hashes = slices.Grow(p.hashes[:p.n], n-p.n)[:n]
	}
}

// Forward sends everything down the one channel there is, or else the first.
func Forward[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r, false)
		p.spread = func(b *record.Batch[T]) { p.open[0].all(b) }
		return p
	}}
}

// Rebalance sends each record to the next subtask in turn.
func Rebalance[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r, false)
		next := r.Subtask % len(r.Senders)
		p.spread = func(b *record.Batch[T]) {
			if len(p.open) == 1 {
				p.open[0].all(b)
				return
			}
			to := p.choices(b)
			for i := range to {
				to[i] = uint32(next)
				if next++; next == len(p.open) {
					next = 0
				}
			}
			p.deal(b, to)
		}
		return p
	}}
}

// Shuffle sends each record to a subtask drawn at random.
func Shuffle[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r, false)
		draw := rand.New(rand.NewPCG(uint64(r.Subtask), 0))
		p.spread = func(b *record.Batch[T]) {
			to := p.choices(b)
			for i := range to {
				to[i] = draw.Uint32N(uint32(len(p.open)))
			}
			p.deal(b, to)
		}
		return p
	}}
}

// hashTogether is how many records Hash looks at before it looks at them again:
// few enough to be still in the processor's first cache.
const hashTogether = 128

// Hash sends each record to the subtask that owns its key's group, and the
// key's hash with it.
func Hash[K, T any](key func(T) K, c codec.Key[K]) Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r, true)
		owner := make([]uint32, r.MaxParallelism) // port by key group
		for g := range owner {
			owner[g] = uint32(keygroup.Subtask(g, len(p.open), r.MaxParallelism))
		}
		var keys [hashTogether]K
		var hashes [hashTogether]uint64
		var hashed record.Batch[T]
		p.spread = func(b *record.Batch[T]) {
			for from := 0; from < len(b.Values); from += hashTogether {
				part := view(&hashed, b, from, min(from+hashTogether, len(b.Values)))
				n := len(part.Values)
				for i := range part.Values {
					keys[i] = key(part.Values[i])
				}
				codec.HashAll(c, keys[:n], hashes[:n])
				if part.Hashes = hashes[:n]; len(p.open) == 1 {
					p.open[0].all(part)
					continue
				}
				to := p.choices(part)
				for i, h := range part.Hashes {
					to[i] = owner[keygroup.Of(h, len(owner))]
				}
				p.deal(part, to)
			}
		}
		return p
	}}
}

// Broadcast sends each record to every subtask. All get the same record: what it
// refers to is shared.
func Broadcast[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r, false)
		p.spread = func(b *record.Batch[T]) {
			for i := range p.open {
				p.open[i].all(b)
			}
		}
		return p
	}}
}

// Custom sends each record to the subtask that choose says.
func Custom[T any](choose func(record T, subtasks int) int) Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r, false)
		p.spread = func(b *record.Batch[T]) {
			to := p.choices(b)
			for i := range to {
				n := choose(b.Values[i], len(p.open))
				if n < 0 || n >= len(p.open) {
					r.Chain.Fail(r.Chain.At(), fmt.Errorf("partition to %q: the function chose subtask %d, and there are 0 to %d", r.To, n, len(p.open)-1))
					return
				}
				to[i] = uint32(n)
			}
			p.deal(b, to)
		}
		return p
	}}
}
