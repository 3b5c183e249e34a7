package operator

import (
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
	spread func(b *record.Batch[T])
}

type port[T any] struct {
	to    exchange.Sender
	batch *record.Batch[T]
}

func newPorts[T any](senders []exchange.Sender) *ports[T] {
	p := &ports[T]{open: make([]port[T], len(senders))}
	for i, s := range senders {
		p.open[i] = port[T]{to: s, batch: &record.Batch[T]{Values: make([]T, 0, 16)}}
	}
	return p
}

func (p *ports[T]) Receiver() any { return Receiver[T](p.spread) }

func (p *ports[T]) Flush() {
	for i := range p.open {
		if len(p.open[i].batch.Values) > 0 {
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

func (p *port[T]) send() {
	if spare := p.to.Send(exchange.Element{Kind: exchange.Records, Batch: p.batch}); spare != nil {
		p.batch = spare.(*record.Batch[T])
		p.batch.Reset()
	} else {
		p.batch = &record.Batch[T]{Values: make([]T, 0, 16)}
	}
}

// all appends a whole batch, in pieces that fill up the batches begun.
func (p *port[T]) all(b *record.Batch[T]) {
	for from := 0; from < len(b.Values); {
		to := min(len(b.Values), from+BatchSize-len(p.batch.Values))
		p.batch.Values = append(p.batch.Values, b.Values[from:to]...)
		if len(b.Times) > 0 {
			p.batch.Times = append(p.batch.Times, b.Times[from:to]...)
		}
		if len(b.Hashes) > 0 {
			p.batch.Hashes = append(p.batch.Hashes, b.Hashes[from:to]...)
		}
		if from = to; len(p.batch.Values) >= BatchSize {
			p.send()
		}
	}
}

// one appends record i of b.
func (p *port[T]) one(b *record.Batch[T], i int) {
	to := p.batch
	to.Values = append(to.Values, b.Values[i])
	if len(b.Times) > 0 {
		to.Times = append(to.Times, b.Times[i])
	}
	if len(to.Values) >= BatchSize {
		p.send()
	}
}

// Forward sends everything down the one channel there is, or else the first.
func Forward[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r.Senders)
		p.spread = func(b *record.Batch[T]) { p.open[0].all(b) }
		return p
	}}
}

// Rebalance sends each record to the next subtask in turn.
func Rebalance[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r.Senders)
		next := r.Subtask % len(r.Senders)
		p.spread = func(b *record.Batch[T]) {
			if len(p.open) == 1 {
				p.open[0].all(b)
				return
			}
			for i := range b.Values {
				p.open[next].one(b, i)
				if next++; next == len(p.open) {
					next = 0
				}
			}
		}
		return p
	}}
}

// Shuffle sends each record to a subtask drawn at random.
func Shuffle[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r.Senders)
		draw := rand.New(rand.NewPCG(uint64(r.Subtask), 0))
		p.spread = func(b *record.Batch[T]) {
			for i := range b.Values {
				p.open[draw.IntN(len(p.open))].one(b, i)
			}
		}
		return p
	}}
}

// Hash sends each record to the subtask that owns its key's group, and the
// key's hash with it.
func Hash[K, T any](key func(T) K, codec codec.Key[K]) Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r.Senders)
		owner := make([]*port[T], r.MaxParallelism) // by key group
		for g := range owner {
			owner[g] = &p.open[keygroup.Subtask(g, len(p.open), r.MaxParallelism)]
		}
		var k K // one place for all keys: the codec wants an address
		var hashes []uint64
		var hashed record.Batch[T]
		p.spread = func(b *record.Batch[T]) {
			hashes = slices.Grow(hashes[:0], len(b.Values))[:len(b.Values)]
			for i := range b.Values {
				k = key(b.Values[i])
				hashes[i] = codec.Hash(&k)
			}
			if len(p.open) == 1 {
				hashed = record.Batch[T]{Values: b.Values, Times: b.Times, Hashes: hashes}
				p.open[0].all(&hashed)
				return
			}
			for i, h := range hashes {
				to := owner[keygroup.Of(h, len(owner))]
				to.batch.Hashes = append(to.batch.Hashes, h)
				to.one(b, i)
			}
		}
		return p
	}}
}

// Broadcast sends each record to every subtask. All get the same record: what it
// refers to is shared.
func Broadcast[T any]() Edge {
	return Edge{func(r Routing) Router {
		p := newPorts[T](r.Senders)
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
		p := newPorts[T](r.Senders)
		p.spread = func(b *record.Batch[T]) {
			for i := range b.Values {
				to := choose(b.Values[i], len(p.open))
				if to < 0 || to >= len(p.open) {
					r.Chain.Fail(r.Chain.At(), fmt.Errorf("partition to %q: the function chose subtask %d, and there are 0 to %d", r.To, to, len(p.open)-1))
					return
				}
				p.open[to].one(b, i)
			}
		}
		return p
	}}
}
