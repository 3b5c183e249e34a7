// Package checkpoint decides when checkpoints start, when they are complete,
// and which to keep.
//
// The Coordinator is a state machine without clock, goroutine, or storage:
// something happened, so do this. Its driver has the clock and carries out what
// it says.
//
//	          due                Enumerated           last Ack          Stored              Committed
//	(nothing) ───► enumerating ────────────► waiting ─────────► storing ──────► committing ──────────► complete
//	                    │                       │                  │                                      │ Retained newer ones
//	                    └───────────────────────┴──────────────────┴─────────► discarded ◄────────────────┘
//	                           timeout, Decline, Failed, Stopped
//
// A savepoint goes the same way as far as storing, and then it is the user's:
// nothing deletes it, and unless the policy has restarts go on from savepoints,
// nothing is committed for it.
//
// When the input of all subtasks has ended, one more checkpoint is taken, the
// final one; once it is committed the job has finished. A job that is to stop takes
// a savepoint first, while its sources pause or after they have ended.
package checkpoint

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
)

// Policy is when to take checkpoints and how long to keep them.
type Policy struct {
	Interval   time.Duration // from the start of one to the start of the next; 0: only the final one
	Backlog    time.Duration // the interval while a source is catching up; 0: none then but the final one
	MinPause   time.Duration // from the end of one, however it ended, to the start of the next
	Timeout    time.Duration // from the start of one until it is stored
	Savepoint  time.Duration // the timeout of a savepoint
	Concurrent int           // how many may be pending at once; with a pause between them, it is one
	Retained   int           // how many complete ones to keep
	Tolerable  int           // how many may fail in a row before the attempt does
	// WhileAllRun says that none begins once the input of a subtask has ended, not
	// even a final one.
	WhileAllRun bool
	History     int // how many are remembered to be shown
	// FromSavepoints says that restarts go on from a savepoint, too, if it is the
	// newest. So it is committed.
	FromSavepoints bool
}

// Coordinator decides for one job, through all attempts to run it in one process.
//
// Invariants:
//   - checkpoint numbers only rise, over attempts as well;
//   - a checkpoint is stored only once every subtask of its attempt, which still
//     runs, has acknowledged it;
//   - barriers enter the stream in the order of their numbers: one checkpoint begins
//     only when those before it have been triggered;
//   - when n is stored, no older checkpoint is pending, unless n or that is a
//     savepoint;
//   - a savepoint counts for nothing and keeps no checkpoint waiting but the final
//     one; once stored it is never discarded; it ends nothing, unless restarts go on
//     from it: then it ends what an equally new checkpoint would;
//   - a request is answered once;
//   - commits come one at a time and in the order of numbers; subtasks hear that
//     a checkpoint is complete, and forget what was pending in it, only after
//     its commit: no later checkpoint lacks what isn't committed yet;
//   - a complete checkpoint is discarded only after a newer one was stored;
//   - whatever was written for a checkpoint that isn't kept is discarded or
//     released, once, however late the subtask says so; but nothing is deleted
//     while the outcome of storing it is open, or when it remains unknown;
//   - the final checkpoint began after the last subtask's input had ended, or while
//     the sources pause and a savepoint of what came before is stored;
//   - sources that pause go on, or their attempt ends;
//   - nothing comes after Finish. What is still in flight then is deleted with
//     the job's directory, or stays with it.
type Coordinator struct {
	policy Policy
	number uint64   // of the newest checkpoint
	kept   []uint64 // complete, the next to go first

	// The running attempt; zero, and its slices and maps empty, when none runs.
	attempt    graph.Attempt
	subtasks   []graph.Subtask
	open       map[graph.Subtask]bool // whose input hasn't ended
	pending    []*pending             // oldest first
	savepoints []uint64               // requests that wait, oldest first
	asked      []uint64               // so too, for checkpoints: the next one answers all
	stopping   *stopping              // the job is to end; nil: it isn't
	behind     map[graph.ID]bool      // sources that are catching up
	due        time.Time              // when the next periodic one may begin at the earliest, if none is behind
	failures   int                    // in a row
	stored     uint64                 // the newest one stored, until the sinks are given it
	committing uint64                 // what the sinks are at, 0 if nothing
	newest     uint64                 // of all that were stored for the sinks
	final      uint64                 // the final checkpoint, once it is stored

	ended     time.Time  // when one last ended, well or badly
	dropped   []*pending // while subtasks may still answer, oldest first
	undecided []uint64   // dropped while they were being stored
	finished  bool
	told      told
}

// pending is a checkpoint that has begun and isn't stored.
type pending struct {
	barrier     record.Barrier
	attempt     graph.Attempt
	final       bool
	stops       bool     // it is the savepoint of a Stop
	requests    []uint64 // to be answered
	began       time.Time
	phase       phase
	missing     map[graph.Subtask]bool
	enumerators map[graph.ID]snapshot.Enumerator
	parts       map[graph.Subtask]snapshot.Task
	record      *Record
}

type phase int

const (
	enumerating phase = iota
	waiting           // for acks
	storing
)

// remembered is how many dropped checkpoints are kept in mind for late acks.
// What is acknowledged later than that stays in storage as a leftover.
const remembered = 16

// New returns a coordinator that goes on after checkpoint last. Kept are the
// complete checkpoints of earlier runs of the job, oldest first: they are the
// job's to delete.
func New(policy Policy, last uint64, kept []uint64) *Coordinator {
	return &Coordinator{policy: policy, number: last, kept: slices.Clone(kept)}
}

// Step takes in one event and says what to do about it, in this order.
func (c *Coordinator) Step(now time.Time, e Event) []Action {
	if c.finished {
		return nil
	}
	do := c.take(now, e)
	do = append(do, c.begin(now)...)
	return append(do, c.over()...)
}

func (c *Coordinator) take(now time.Time, e Event) []Action {
	switch e := e.(type) {
	case Tick:
		return c.expire(now)
	case Request:
		return c.request(e)
	case Stop:
		return c.halt(now, e)
	case Started:
		return c.start(now, e)
	case Stopped:
		if e.Attempt == c.attempt {
			return c.stop(now)
		}
	case Backlog:
		if e.Attempt == c.attempt {
			c.backlog(e)
		}
	case Ended:
		if e.Attempt == c.attempt {
			return c.close(e.Subtask)
		}
	case Enumerated:
		return c.trigger(e)
	case Ack:
		return c.ack(now, e)
	case Decline:
		return c.decline(now, e)
	case Stored:
		return c.complete(now, e.Checkpoint, e.Dir)
	case Failed:
		return c.failed(now, e)
	case Committed:
		return c.committed(e.Checkpoint)
	default:
		panic(fmt.Sprintf("checkpoint: unknown event %T", e))
	}
	return nil
}

// Next says when the coordinator wants a Tick at the latest, if nothing else
// happens until then.
func (c *Coordinator) Next() (at time.Time, ok bool) {
	at, ok = c.next()
	for _, p := range c.pending {
		if t := p.began.Add(c.limit(p)); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// next says when a checkpoint may begin.
func (c *Coordinator) next() (at time.Time, ok bool) {
	switch {
	case c.attempt == 0, c.final != 0, c.enumerating():
		return at, false
	case len(c.savepoints) > 0:
		return at, true
	case c.stopping != nil && c.stopping.savepoint == 0:
		return at, len(c.pending) == 0 && (!c.stopping.drain || len(c.open) == 0)
	case c.stopping != nil, len(c.open) == 0 && !c.partial():
		return at, len(c.pending) == 0 // the final one, at once
	case c.full():
		return at, false
	case len(c.asked) > 0:
		return at, true
	case c.policy.Interval == 0, c.partial(), len(c.behind) > 0 && c.policy.Backlog == 0:
		return at, false
	}
	due := c.due
	if len(c.behind) > 0 {
		due = due.Add(c.policy.Backlog - c.policy.Interval)
	}
	if at = c.ended.Add(c.policy.MinPause); at.Before(due) {
		at = due
	}
	return at, true
}

// partial reports whether it is too late for checkpoints, because a part of the job
// has ended.
func (c *Coordinator) partial() bool { return c.policy.WhileAllRun && len(c.open) < len(c.subtasks) }

// backlog takes in whether a source is catching up. Either interval counts from the
// beginning of the last checkpoint, whatever it was then.
func (c *Coordinator) backlog(e Backlog) {
	if delete(c.behind, e.Source); e.Behind {
		c.behind[e.Source] = true
	}
}

// enumerating reports whether a checkpoint has begun that isn't triggered yet.
func (c *Coordinator) enumerating() bool {
	return slices.ContainsFunc(c.pending, func(p *pending) bool { return p.phase == enumerating })
}

// full reports whether as many checkpoints are pending as may be at once: a pause
// between checkpoints leaves room for one.
func (c *Coordinator) full() bool {
	n := 0
	for _, p := range c.pending {
		if !p.barrier.Savepoint {
			n++
		}
	}
	return n >= c.policy.Concurrent || n > 0 && c.policy.MinPause > 0
}

// limit is how long a checkpoint may take.
func (c *Coordinator) limit(p *pending) time.Duration {
	if p.barrier.Savepoint {
		return c.policy.Savepoint
	}
	return c.policy.Timeout
}

// request has a checkpoint or a savepoint begin as soon as there may be one.
func (c *Coordinator) request(e Request) []Action {
	if reason := c.unfit(); reason != "" {
		return refuse([]uint64{e.ID}, reason)
	}
	if e.Savepoint {
		c.savepoints = append(c.savepoints, e.ID)
	} else {
		c.asked = append(c.asked, e.ID)
	}
	return nil
}

// unfit is why nobody can ask for anything now; empty: they can.
func (c *Coordinator) unfit() string {
	switch {
	case c.attempt == 0:
		return "no attempt to run the job is under way"
	case c.stopping != nil:
		return "the job is being stopped"
	case len(c.open) == 0:
		return "the input of the job has ended, and only its final checkpoint comes"
	case c.partial():
		return "a part of the job has ended, and there are to be no checkpoints after that"
	}
	return ""
}

func refuse(requests []uint64, reason string) (do []Action) {
	for _, id := range requests {
		do = append(do, Answer{ID: id, Reason: reason})
	}
	return do
}

// answer says what has become of a checkpoint to those who asked for it.
func (p *pending) answer(reason string) (do []Action) {
	n := p.barrier.Checkpoint
	if reason != "" {
		n = 0
	}
	for _, id := range p.requests {
		do = append(do, Answer{id, n, reason})
	}
	return do
}

// begin begins a checkpoint if one may.
func (c *Coordinator) begin(now time.Time) []Action {
	if at, ok := c.next(); !ok || now.Before(at) {
		return nil
	}
	c.number++
	p := &pending{
		barrier: record.Barrier{Checkpoint: c.number, At: now.UnixNano()},
		attempt: c.attempt,
		began:   now,
		missing: map[graph.Subtask]bool{},
		parts:   map[graph.Subtask]snapshot.Task{},
	}
	for _, s := range c.subtasks {
		p.missing[s] = true
	}
	c.pending = append(c.pending, p)
	do := Enumerate{Checkpoint: c.number}
	switch s := c.stopping; {
	case len(c.savepoints) > 0:
		p.requests, c.savepoints = c.savepoints[:1:1], c.savepoints[1:]
		do.Savepoint = p.requests[0]
	case s != nil && s.savepoint == 0:
		p.stops, do.Savepoint = true, s.id
	default:
		c.due = now.Add(c.policy.Interval)
		p.final = s != nil || len(c.open) == 0
		p.requests, c.asked = c.asked, nil
	}
	p.barrier.Savepoint = do.Savepoint != 0
	p.barrier.Drained = c.stopping != nil && c.stopping.drain
	p.record = c.told.begin(Record{
		Checkpoint: c.number, Savepoint: p.barrier.Savepoint, Stops: p.stops, Final: p.final, Began: now, Subtasks: len(c.subtasks),
	}, c.policy.History)
	return []Action{do}
}

// start takes up an attempt. Failures are counted anew: a restart is the answer
// to those before it, and how many restarts there may be is for the restart
// strategy to say.
func (c *Coordinator) start(now time.Time, e Started) []Action {
	do := c.stop(now)
	c.attempt = e.Attempt
	c.subtasks = slices.Clone(e.Subtasks)
	c.open = map[graph.Subtask]bool{}
	for _, s := range c.subtasks {
		c.open[s] = true
	}
	c.behind = map[graph.ID]bool{}
	for _, source := range e.Behind {
		c.behind[source] = true
	}
	c.due = now.Add(e.Delay)
	// What is newer than the checkpoint restored couldn't be read: it is the first to go.
	older := slices.DeleteFunc(slices.Clone(c.kept), func(n uint64) bool { return n > e.Restored })
	newer := slices.DeleteFunc(c.kept, func(n uint64) bool { return n <= e.Restored })
	c.kept = append(newer, older...)
	return do
}

// stop drops what is pending: no failure, since the attempt itself is over.
func (c *Coordinator) stop(now time.Time) (do []Action) {
	c.attempt = 0
	for _, p := range slices.Clone(c.pending) {
		do = append(do, c.drop(now, p, stopped)...)
	}
	do = append(do, refuse(c.savepoints, stopped)...)
	do = append(do, refuse(c.asked, stopped)...)
	if s := c.stopping; s != nil {
		do = append(do, Answer{s.id, s.savepoint, stopped})
		c.stopping = nil
	}
	c.subtasks, c.open, c.behind, c.savepoints, c.asked = nil, nil, nil, nil, nil
	c.failures, c.stored, c.committing, c.newest, c.final = 0, 0, 0, 0, 0
	return do
}

const stopped = "its attempt has stopped"

// close takes in that a subtask's input has ended. Who asked for a checkpoint
// wouldn't have the final one for long.
func (c *Coordinator) close(s graph.Subtask) (do []Action) {
	delete(c.open, s)
	if reason := c.unfit(); reason != "" && c.stopping == nil {
		do, c.asked = refuse(c.asked, reason), nil
		if c.partial() {
			do, c.savepoints = append(do, refuse(c.savepoints, reason)...), nil
		}
	}
	return do
}

// over ends a job that takes no final checkpoint, once its input has and what was
// begun before is done.
func (c *Coordinator) over() []Action {
	if !c.partial() || len(c.open) > 0 || c.stopping != nil || len(c.pending) > 0 || c.committing != 0 || c.stored != 0 {
		return nil
	}
	c.finished, c.attempt = true, 0
	return []Action{Finish{}}
}

func (c *Coordinator) trigger(e Enumerated) []Action {
	p := find(c.pending, e.Checkpoint)
	if p == nil || p.phase != enumerating {
		return nil
	}
	p.phase, p.enumerators = waiting, e.Parts
	for _, part := range e.Parts {
		p.record.add(part.Bytes())
	}
	return []Action{Trigger{p.barrier}}
}

// ack notes a subtask's part. What comes twice changes nothing; what comes too
// late is released.
func (c *Coordinator) ack(now time.Time, e Ack) []Action {
	p := find(c.pending, e.Checkpoint)
	if p == nil {
		return c.late(e)
	}
	if p.attempt != e.Attempt || !p.missing[e.Subtask] {
		return nil
	}
	delete(p.missing, e.Subtask)
	p.parts[e.Subtask] = e.State
	p.record.ack(now, e.Subtask, e.Measures)
	if len(p.missing) > 0 {
		return nil
	}
	p.phase = storing
	return []Action{Store{Barrier: p.barrier, Final: p.final, Enumerators: p.enumerators, Subtasks: p.parts}}
}

// late takes a subtask's part in a checkpoint that was dropped.
func (c *Coordinator) late(e Ack) []Action {
	p := find(c.dropped, e.Checkpoint)
	if p == nil || p.attempt != e.Attempt || !p.missing[e.Subtask] {
		return nil
	}
	delete(p.missing, e.Subtask)
	if len(p.missing) == 0 {
		c.dropped = without(c.dropped, p)
	}
	return []Action{Release{e.Checkpoint, e.State}}
}

func (c *Coordinator) decline(now time.Time, e Decline) []Action {
	p := find(c.pending, e.Checkpoint)
	switch {
	case p == nil || p.attempt != e.Attempt || !p.missing[e.Subtask]:
		return nil
	case e.NotReady && !p.stops:
		return c.drop(now, p, e.Reason)
	}
	return c.fail(now, p, e.Reason)
}

// expire fails what has been pending for too long.
func (c *Coordinator) expire(now time.Time) (do []Action) {
	for _, p := range slices.Clone(c.pending) {
		if now.Sub(p.began) >= c.limit(p) && slices.Contains(c.pending, p) {
			do = append(do, c.fail(now, p, fmt.Sprintf("not complete after %v", c.limit(p)))...)
		}
	}
	return do
}

// complete ends a checkpoint well, and with it every older one still pending:
// the newer says all that the older would have said.
func (c *Coordinator) complete(now time.Time, n uint64, dir string) (do []Action) {
	p := find(c.pending, n)
	if p == nil {
		return c.decide(n)
	}
	c.pending = without(c.pending, p)
	p.record.Dir = dir
	c.told.end(p.record, now, "")
	do = p.answer("")
	if p.stops {
		c.stopping.savepoint = n
	}
	if p.barrier.Savepoint && (!c.policy.FromSavepoints || n < c.newest) {
		return do
	}
	for _, old := range slices.Clone(c.pending) {
		if old.barrier.Checkpoint < n && !old.barrier.Savepoint {
			do = append(do, c.drop(now, old, fmt.Sprintf("checkpoint %d is complete, which is newer", n))...)
		}
	}
	c.stored, c.newest = n, n
	if p.barrier.Savepoint {
		return append(do, c.commit()...)
	}
	c.failures, c.ended = 0, now
	if p.final {
		c.final = n
	}
	return append(append(do, c.commit()...), c.keep(p)...)
}

// keep adds a checkpoint to those kept, and lets the oldest go. Without an interval
// the final one may be in memory only, and no reason to delete anything.
func (c *Coordinator) keep(p *pending) (do []Action) {
	if c.policy.Interval == 0 && p.final {
		return nil
	}
	for c.kept = append(c.kept, p.barrier.Checkpoint); len(c.kept) > c.policy.Retained; c.kept = c.kept[1:] {
		c.told.discard(c.kept[0])
		do = append(do, Discard{c.kept[0]})
	}
	return do
}

// commit has the newest stored checkpoint committed when the sinks are free.
func (c *Coordinator) commit() []Action {
	if c.committing != 0 || c.stored == 0 {
		return nil
	}
	c.committing, c.stored = c.stored, 0
	return []Action{Commit{c.committing}}
}

func (c *Coordinator) committed(n uint64) (do []Action) {
	if c.committing != n {
		return nil // of an attempt that has stopped
	}
	c.committing = 0
	do = []Action{Notify{n}}
	if c.final != n {
		return append(do, c.commit()...)
	}
	if s := c.stopping; s != nil {
		do = append(do, Answer{ID: s.id, Checkpoint: s.savepoint})
	}
	c.finished, c.attempt = true, 0
	return append(do, Finish{})
}

// failed takes in that the driver failed. If that was while storing, the fate
// of the files is known, or known to be unknown.
func (c *Coordinator) failed(now time.Time, e Failed) (do []Action) {
	if p := find(c.pending, e.Checkpoint); p != nil {
		do = c.fail(now, p, e.Reason)
	}
	decided := c.decide(e.Checkpoint)
	if e.Unknown {
		return do
	}
	return append(do, decided...)
}

// decide discards a checkpoint that was dropped while it was being stored.
func (c *Coordinator) decide(n uint64) []Action {
	i := slices.Index(c.undecided, n)
	if i < 0 {
		return nil
	}
	c.undecided = slices.Delete(c.undecided, i, i+1)
	return []Action{Discard{n}}
}

// fail ends a checkpoint badly, and the attempt if that happens too often, which
// is nothing to a savepoint.
func (c *Coordinator) fail(now time.Time, p *pending, reason string) []Action {
	do := c.drop(now, p, reason)
	switch {
	case p.stops:
		return append(do, c.goOn(now, reason)...)
	case p.barrier.Savepoint:
		return do
	}
	if c.failures++; c.failures <= c.policy.Tolerable {
		return do
	}
	reason = fmt.Sprintf("checkpoint %d failed, and more than %d in a row aren't tolerated: %s",
		p.barrier.Checkpoint, c.policy.Tolerable, reason)
	return append(append(do, c.stop(now)...), FailAttempt{reason})
}

// drop takes a checkpoint out of the pending ones. Its files go, but not while
// they are being stored.
func (c *Coordinator) drop(now time.Time, p *pending, reason string) (do []Action) {
	n := p.barrier.Checkpoint
	c.pending = without(c.pending, p)
	if !p.barrier.Savepoint {
		c.ended = now
	}
	c.told.end(p.record, now, reason)
	do = p.answer(reason)
	if c.attempt != 0 {
		do = append(do, Abort{n, reason})
	}
	if p.phase == storing {
		c.undecided = append(c.undecided, n)
		return do
	}
	p.parts, p.enumerators = nil, nil
	if c.dropped = append(c.dropped, p); len(c.dropped) > remembered {
		c.dropped = c.dropped[1:]
	}
	return append(do, Discard{n})
}

func find(in []*pending, n uint64) *pending {
	for _, p := range in {
		if p.barrier.Checkpoint == n {
			return p
		}
	}
	return nil
}

func without(in []*pending, p *pending) []*pending {
	return slices.DeleteFunc(in, func(q *pending) bool { return p == q })
}
