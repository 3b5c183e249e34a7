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
	dated         int // how many of them dealTimes has given their times
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

// choices returns room to say where each of n records goes.
func (p *ports[T]) choices(n int) []uint32 {
	p.choice = slices.Grow(p.choice[:0], n)[:n]
	return p.choice
}

// deal gives each record of b to the port that was chosen for it.
func (p *ports[T]) deal(b *record.Batch[T], choices []uint32) {
	for from := 0; from < len(choices); {
		n := dealByChoice(p.open, choices[from:], b.Values[from:])
		if p.timed {
			dealTimes(p.open, choices[from:from+n], b.Times[from:])
		}
		from += n
		p.open[choices[from-1]].makeRoom()
	}
}

// dealByChoice puts values into the ports that were chosen for them, until one is
// full. It returns how many it has put. It is a function of its own that calls
// nothing, so that all it uses stays in registers.
//
//go:noinline
func dealByChoice[T any](open []port[T], choices []uint32, values []T) int {
	values = values[:len(choices)]
	for i, choice := range choices {
		to := &open[choice]
		n := to.n
		to.values[n] = values[i]
		if to.n = n + 1; to.n == len(to.values) {
			return i + 1
		}
	}
	return len(choices)
}

// dealTimes puts the times of records beside their values, which are there already.
func dealTimes[T any](open []port[T], choices []uint32, times []int64) {
	times = times[:len(choices)]
	for i, choice := range choices {
		to := &open[choice]
		to.times[to.dated] = times[i]
		to.dated++
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
		p.n += n
		p.makeRoom()
	}
}

// makeRoom makes room if there is none left. A batch begins small: most channels of
// a wide job carry little.
func (p *port[T]) makeRoom() {
	switch {
	case p.n < len(p.values):
	case p.n >= p.full:
		p.send()
	default:
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
	p.batch, p.n, p.dated = b, 0, 0
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
			to := p.choices(len(b.Values))
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
			to := p.choices(len(b.Values))
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
		h := &hashing[K, T]{ports: newPorts[T](r, true), key: key, codec: c}
		h.owner = make([]uint32, r.MaxParallelism)
		for g := range h.owner {
			h.owner[g] = uint32(keygroup.Subtask(g, len(h.open), r.MaxParallelism))
		}
		h.spread = h.byKey
		return h
	}}
}

// hashing is the router that Hash makes.
type hashing[K, T any] struct {
	*ports[T]
	key    func(T) K
	codec  codec.Key[K]
	owner  []uint32 // port by key group
	part   record.Batch[T]
	keys   [hashTogether]K
	hashes [hashTogether]uint64
}

func (h *hashing[K, T]) byKey(b *record.Batch[T]) {
	for from := 0; from < len(b.Values); from += hashTogether {
		part := view(&h.part, b, from, min(from+hashTogether, len(b.Values)))
		keys := h.keys[:len(part.Values)]
		Keys(h.key, part.Values, keys)
		part.Hashes = h.hashes[:len(keys)]
		if codec.HashAll(h.codec, keys, part.Hashes); len(h.open) == 1 {
			h.open[0].all(part)
		} else {
			h.deal(part)
		}
	}
}

// deal gives each record of b to the port that owns its key's group.
func (h *hashing[K, T]) deal(b *record.Batch[T]) {
	for from := 0; from < len(b.Values); {
		n, last := dealByHash(h.open, h.owner, b.Hashes[from:], b.Values[from:])
		if h.timed {
			to := h.choices(n)
			for i, hash := range b.Hashes[from : from+n] {
				to[i] = h.owner[keygroup.Of(hash, len(h.owner))]
			}
			dealTimes(h.open, to, b.Times[from:])
		}
		from += n
		h.open[last].makeRoom()
	}
}

// dealByHash is dealByChoice with owners of key groups. It deals hashes, too, and
// also returns the last port that it has put something into.
//
//go:noinline
func dealByHash[T any](open []port[T], owner []uint32, hashes []uint64, values []T) (dealt int, last uint32) {
	values = values[:len(hashes)]
	for i, hash := range hashes {
		last = owner[keygroup.Of(hash, len(owner))]
		to := &open[last]
		n := to.n
		to.values[n], to.hashes[n] = values[i], hash
		if to.n = n + 1; to.n == len(to.values) {
			return i + 1, last
		}
	}
	return len(hashes), last
}

// Keys calls key with each record. It does so with four in a row: how far a loop has
// come is in memory across a call, and waited for behind it.
func Keys[K, T any](key func(T) K, records []T, keys []K) {
	keys = keys[:len(records)]
	for len(records) >= 4 {
		r, k := (*[4]T)(records), (*[4]K)(keys)
		k[0], k[1], k[2], k[3] = key(r[0]), key(r[1]), key(r[2]), key(r[3])
		records, keys = records[4:], keys[4:]
	}
	for i := range records {
		keys[i] = key(records[i])
	}
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
			to := p.choices(len(b.Values))
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
