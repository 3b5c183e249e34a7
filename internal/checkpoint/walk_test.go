package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

// TestWalk lets a coordinator run a job whose subtasks and driver answer late,
// twice, with a refusal or not at all, whose attempts fail at any moment, and
// holds it to its invariants. In the end everybody is well, and the job must
// finish. A failure prints its seed.
func TestWalk(t *testing.T) {
	reached := map[string]int{}
	for seed := range uint64(2000) {
		if err := walk(seed, reached); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	// An invariant that is never put to the test holds for nothing.
	for _, what := range []string{"1 of 1 at once", "2 of 2 at once", "3 of 3 at once", "right behind a pause", "savepoint beside a checkpoint", "savepoint stored", "old one discarded"} {
		if reached[what] < 100 {
			t.Errorf("the walks come to %q %d times", what, reached[what])
		}
	}
}

// world is a job around a coordinator: what is on its way, and what is true.
type world struct {
	*Coordinator
	rng      *rand.Rand
	now      time.Time
	subtasks []graph.Subtask
	calm     bool // nothing is lost or goes wrong any more
	reached  map[string]int
	wire     []Event // on its way to the coordinator, in no order
	all      map[uint64]*fate
	last     uint64 // newest number

	attempt    graph.Attempt // the newest
	running    bool
	open       map[graph.Subtask]bool
	behind     map[graph.ID]bool // sources
	restored   uint64
	stored     uint64 // the newest in this attempt
	newest     uint64 // of those and of savepoints to go on from
	committing uint64
	committed  uint64
	notified   uint64
	failures   int
	drops      int
	ended      time.Time // of the last checkpoint
	began      time.Time // of the last checkpoint of this attempt
	finished   bool
	asked      uint64 // requests
	unanswered map[uint64]wish
	stopping   *stop // nil: the job isn't being stopped
	drained    bool  // its Stop came to nothing, and the attempt is to fail
}

// wish is what somebody wants.
type wish int

const (
	aCheckpoint wish = iota
	aSavepoint
	theEnd
)

// stop is a Stop as the coordinator has taken it up.
type stop struct {
	id        uint64
	drain     bool
	begun     uint64 // its savepoint
	savepoint uint64 // so too, once it is stored
}

// fate is what became of a checkpoint.
type fate struct {
	attempt                             graph.Attempt
	began                               time.Time
	final, savepoint                    bool
	point                               bool // it may be gone on from, and is committed
	pending, storing, complete, unknown bool
	discarded                           bool
	drops                               int // of other checkpoints, when it was dropped
	acked, late, released               map[graph.Subtask]bool
}

func walk(seed uint64, reached map[string]int) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{rng: rng, reached: reached, now: time.Unix(0, 0), all: map[uint64]*fate{}, unanswered: map[uint64]wish{}}
	for i := range 1 + rng.IntN(4) {
		w.subtasks = append(w.subtasks, graph.Subtask{Index: i})
	}
	policy := Policy{
		Interval: 10 * time.Second, Timeout: 30 * time.Second, Savepoint: 50 * time.Second, Concurrent: 1 + rng.IntN(3),
		MinPause: time.Duration(rng.IntN(2)*rng.IntN(5)) * time.Second,
		Retained: 1 + rng.IntN(3), Tolerable: rng.IntN(4), History: rng.IntN(12),
		FromSavepoints: rng.IntN(2) == 0,
	}
	if rng.IntN(10) == 0 {
		policy.Interval = 0
	} else if rng.IntN(3) > 0 {
		policy.Backlog = policy.Interval * time.Duration(1+rng.IntN(3))
	}
	policy.WhileAllRun = rng.IntN(8) == 0
	var kept []uint64
	for range rng.IntN(3) {
		w.last++
		kept = append(kept, w.last)
		w.all[w.last] = &fate{complete: true}
	}
	w.Coordinator = New(policy, w.last, kept)
	for i := range 5000 {
		w.calm = i >= 200
		if err := w.move(); err != nil {
			return err
		}
		if w.finished {
			return w.end()
		}
	}
	return fmt.Errorf("the job doesn't finish: %+v", w.Stats())
}

// end makes sure that nothing is left to do, and that nothing more is done.
func (w *world) end() error {
	if err := w.account(); err != nil {
		return err
	}
	if len(w.unanswered) > 0 {
		return fmt.Errorf("requests without an answer: %v", w.unanswered)
	}
	for range 50 {
		if err := w.move(); err != nil {
			return err
		}
	}
	return nil
}

// move lets one thing happen.
func (w *world) move() error {
	if !w.running {
		return w.start()
	}
	switch r := w.rng.IntN(100); {
	case r < 2 && !w.calm:
		return w.stop()
	case r < 8 && (w.calm || w.rng.IntN(8) == 0):
		s := w.subtasks[w.rng.IntN(len(w.subtasks))]
		return w.step(Ended{w.attempt - graph.Attempt(w.luck(4)), s})
	case r < 11 && !w.calm:
		w.asked++
		switch {
		case w.rng.IntN(4) == 0:
			w.unanswered[w.asked] = theEnd
			return w.step(Stop{w.asked, w.rng.IntN(2) == 0})
		case r == 10:
			w.unanswered[w.asked] = aSavepoint
			return w.step(Request{w.asked, true})
		}
		w.unanswered[w.asked] = aCheckpoint
		return w.step(Request{w.asked, false})
	case r < 13 && !w.calm:
		return w.step(Backlog{w.attempt - graph.Attempt(w.luck(4)), graph.ID{byte(w.rng.IntN(2))}, w.rng.IntN(2) == 0})
	case r < 20:
		return w.step(Tick{})
	case r < 40:
		if at, ok := w.Next(); ok && at.After(w.now) && (!w.calm || len(w.wire) == 0) {
			w.now = at
		}
		return w.step(Tick{})
	case r < 45:
		w.now = w.now.Add(time.Duration(w.rng.IntN(3000)*(1+20*w.luck(20))) * time.Millisecond)
	case len(w.wire) > 0:
		i := w.rng.IntN(len(w.wire))
		e := w.wire[i]
		w.wire = slices.Delete(w.wire, i, i+1)
		return w.step(e)
	}
	return nil
}

// luck is 1 once in so many times, unless all is calm, and else 0.
func (w *world) luck(times int) int {
	if !w.calm && w.rng.IntN(times) == 0 {
		return 1
	}
	return 0
}

// start restores the newest checkpoint, or an older one if that can't be read.
func (w *world) start() error {
	kept := w.kept()
	w.restored = 0
	if len(kept) > 0 {
		w.restored = kept[max(0, len(kept)-1-w.luck(10))]
	}
	for n, f := range w.all {
		if f.savepoint && f.point {
			w.restored = max(w.restored, n)
		}
	}
	w.attempt++
	w.running, w.open = true, map[graph.Subtask]bool{}
	for _, s := range w.subtasks {
		w.open[s] = true
	}
	w.began, w.behind = w.now.Add(-time.Hour), map[graph.ID]bool{}
	var behind []graph.ID
	if w.luck(5) == 1 {
		behind = append(behind, graph.ID{1})
		w.behind[graph.ID{1}] = true
	}
	return w.step(Started{w.attempt, w.subtasks, w.restored, behind, time.Duration(w.rng.IntN(10)) * time.Second})
}

// kept are the complete checkpoints that there are, oldest first.
func (w *world) kept() (kept []uint64) {
	for n, f := range w.all {
		if f.complete && !f.discarded && !f.savepoint {
			kept = append(kept, n)
		}
	}
	slices.Sort(kept)
	return kept
}

func (w *world) stop() error {
	e := Stopped{w.attempt}
	w.over()
	return w.step(e)
}

// over notes that the attempt is.
func (w *world) over() {
	for _, n := range w.pending() {
		w.drop(n)
	}
	w.running, w.failures, w.stored, w.newest, w.committing = false, 0, 0, 0, 0
	w.committed, w.notified = 0, 0
	if w.stopping != nil && w.stopping.savepoint == 0 {
		w.stopping = nil
	}
	w.drained = false
}

func (w *world) pending() (ns []uint64) {
	for n, f := range w.all {
		if f.pending {
			ns = append(ns, n)
		}
	}
	return ns
}

func (w *world) drop(n uint64) {
	f := w.all[n]
	if f.pending {
		w.drops++
		f.pending, f.drops = false, w.drops
		if !f.savepoint {
			w.ended = w.now
		}
	}
}

// step tells the coordinator what happened, and judges and does what it says.
func (w *world) step(e Event) error {
	tolerated := w.failures <= w.policy.Tolerable
	w.note(e)
	actions := w.Step(w.now, e)
	if w.finished && len(actions) > 0 {
		return fmt.Errorf("%T after the end", actions[0])
	}
	for _, a := range actions {
		if err := w.do(a, e); err != nil {
			return fmt.Errorf("at %v, %T led to %T %s: %w", w.now.Sub(zero), e, a, show(a), err)
		}
	}
	if tolerated && w.failures > w.policy.Tolerable {
		return fmt.Errorf("%d failures in a row, and %d are tolerable", w.failures, w.policy.Tolerable)
	}
	for _, n := range w.pending() {
		if n < w.newest && !w.all[n].savepoint {
			return fmt.Errorf("%d is pending, and %d is stored", n, w.newest)
		}
	}
	if at, ok := w.Next(); ok && e == (Tick{}) && !at.After(w.now) {
		return fmt.Errorf("wants a tick at %v and has had it", at)
	}
	return w.count()
}

// note keeps book of an event before the coordinator hears of it.
func (w *world) note(e Event) {
	switch e := e.(type) {
	case Backlog:
		if e.Attempt == w.attempt {
			delete(w.behind, e.Source)
			if e.Behind {
				w.behind[e.Source] = true
			}
		}
	case Ended:
		if e.Attempt == w.attempt {
			delete(w.open, e.Subtask)
		}
	case Ack:
		f := w.all[e.Checkpoint]
		switch {
		case e.Attempt != f.attempt:
		case f.pending:
			f.acked[e.Subtask] = true
		case !f.complete && !f.acked[e.Subtask]:
			f.late[e.Subtask] = true
		}
	case Stored:
		f := w.all[e.Checkpoint]
		if f.storing = false; f.pending {
			f.pending, f.complete = false, true
			if s := w.stopping; s != nil && e.Checkpoint == s.begun {
				s.savepoint = s.begun
			}
			if f.point = !f.savepoint || w.policy.FromSavepoints && e.Checkpoint > w.newest; f.point {
				w.newest = e.Checkpoint
			}
			if f.savepoint {
				w.reached["savepoint stored"]++
				return
			}
			w.stored, w.ended, w.failures = e.Checkpoint, w.now, 0
		}
	case Failed:
		f := w.all[e.Checkpoint]
		f.unknown, f.storing = e.Unknown, false
	case Committed:
		if e.Checkpoint == w.committing {
			w.committing, w.committed = 0, e.Checkpoint
		}
	}
}

func (w *world) do(a Action, e Event) error {
	switch a := a.(type) {
	case Pause, Drain:
		s, ok := e.(Stop)
		if _, drain := a.(Drain); !ok || w.stopping != nil || drain != s.Drain {
			return fmt.Errorf("stopping: %+v", w.stopping)
		}
		w.stopping = &stop{id: s.ID, drain: s.Drain}
	case Resume:
		if s := w.stopping; s == nil || s.drain || s.savepoint != 0 || !w.running {
			return fmt.Errorf("stopping: %+v", s)
		}
		w.stopping = nil
	case Enumerate:
		return w.enumerate(a)
	case Trigger:
		w.trigger(a)
	case Store:
		return w.store(a)
	case Commit:
		return w.commit(a.Checkpoint)
	case Notify:
		if a.Checkpoint != w.committed || a.Checkpoint <= w.notified {
			return fmt.Errorf("committed is %d, notified %d", w.committed, w.notified)
		}
		w.notified = a.Checkpoint
	case Answer:
		return w.answer(a)
	case Abort:
		return w.abort(a.Checkpoint, e)
	case Discard:
		return w.discard(a.Checkpoint)
	case Release:
		f, s := w.all[a.Checkpoint], subtask(a.State)
		if f.pending || f.complete || !f.late[s] || f.released[s] {
			return fmt.Errorf("of subtask %d: %+v", s.Index, f)
		}
		f.released[s] = true
	case FailAttempt:
		if w.failures != w.policy.Tolerable+1 && !w.drained {
			return fmt.Errorf("after %d failures in a row; %d are tolerable", w.failures, w.policy.Tolerable)
		}
		w.over()
		if w.rng.IntN(2) == 0 {
			w.wire = append(w.wire, Stopped{w.attempt})
		}
	case Finish:
		f := w.all[w.committed]
		switch {
		case w.committing != 0 || len(w.pending()) > 0:
			return fmt.Errorf("%d is being committed, and pending are %v", w.committing, w.pending())
		case w.partial() && len(w.open) == 0 && w.stopping == nil:
		case !w.running || f == nil || !f.final || f.attempt != w.attempt:
			return fmt.Errorf("the final checkpoint isn't committed")
		}
		w.finished = true
	}
	return nil
}

// abort holds a failure to its cause, and counts it if it is to be counted.
func (w *world) abort(n uint64, cause Event) error {
	f := w.all[n]
	if !f.pending {
		return fmt.Errorf("it isn't pending")
	}
	w.drop(n)
	counts, limit := true, w.policy.Timeout
	if f.savepoint {
		limit = w.policy.Savepoint
	}
	switch e := cause.(type) {
	case Tick:
		if w.now.Sub(f.began) < limit {
			return fmt.Errorf("too early")
		}
	case Decline:
		if e.Checkpoint != n || e.Attempt != f.attempt || f.acked[e.Subtask] {
			return fmt.Errorf("because of %+v", e)
		}
		counts = !e.NotReady
	case Stored:
		if e.Checkpoint <= n || f.savepoint || !w.all[e.Checkpoint].point {
			return fmt.Errorf("because of %+v", e)
		}
		counts = false
	case Stop:
		if f.savepoint {
			return fmt.Errorf("because of %+v", e)
		}
		counts = false
	}
	if counts && !f.savepoint {
		w.failures++
	}
	return nil
}

// answer holds an answer to what was asked.
func (w *world) answer(a Answer) error {
	want, asked := w.unanswered[a.ID]
	if !asked {
		return fmt.Errorf("nobody asks, or it has been answered")
	}
	delete(w.unanswered, a.ID)
	f := w.all[a.Checkpoint]
	switch s := w.stopping; {
	case a.Checkpoint == 0 && a.Reason == "":
		return fmt.Errorf("with nothing")
	case a.Checkpoint != 0 && (!f.complete || f.savepoint != (want != aCheckpoint) || f.final):
		return fmt.Errorf("with %+v", f)
	case want != theEnd && a.Reason != "" && a.Checkpoint != 0:
		return fmt.Errorf("with a checkpoint and a failure")
	case s == nil || a.ID != s.id:
	case a.Checkpoint != s.savepoint:
		return fmt.Errorf("its savepoint is %d", s.savepoint)
	case a.Reason == "" && !w.all[w.committed].final:
		return fmt.Errorf("committed is %d", w.committed)
	case a.Reason != "" && s.savepoint != 0:
		w.stopping = nil
	case a.Reason != "" && s.drain:
		w.stopping, w.drained = nil, true
	}
	return nil
}

// checkpoints are the pending ones that aren't savepoints.
func (w *world) checkpoints() (n int) {
	for _, k := range w.pending() {
		if !w.all[k].savepoint {
			n++
		}
	}
	return n
}

func (w *world) enumerate(a Enumerate) error {
	n, savepoint, interval := a.Checkpoint, a.Savepoint != 0, w.policy.Interval
	if len(w.behind) > 0 {
		interval = w.policy.Backlog
	}
	stops := savepoint && w.stopping != nil && a.Savepoint == w.stopping.id
	stopped := w.stopping != nil && w.stopping.savepoint != 0
	final, limit := (len(w.open) == 0 || stopped) && !savepoint, w.policy.Concurrent
	if w.policy.MinPause > 0 {
		limit = 1
	}
	switch {
	case n <= w.last:
		return fmt.Errorf("number %d after %d", n, w.last)
	case !w.running:
		return fmt.Errorf("no attempt runs")
	case savepoint && w.unanswered[a.Savepoint] == aCheckpoint:
		return fmt.Errorf("nobody wants a savepoint")
	case stops && (w.stopping.begun != 0 || len(w.pending()) > 0):
		return fmt.Errorf("it is the second to stop with, or not the only one pending")
	case stops && w.stopping.drain && len(w.open) > 0:
		return fmt.Errorf("the input hasn't ended")
	case !savepoint && w.stopping != nil && !stopped:
		return fmt.Errorf("the job is being stopped")
	case !stops && !stopped && w.partial():
		return fmt.Errorf("a part of the job has ended")
	case !savepoint && w.checkpoints() >= limit, final && len(w.pending()) > 0:
		return fmt.Errorf("%d are pending", len(w.pending()))
	case w.stored != 0 && w.all[w.stored].final:
		return fmt.Errorf("the final one is stored")
	case savepoint || w.wanted():
	case !final && (w.policy.Interval == 0 || interval == 0):
		return fmt.Errorf("periodic ones are off")
	case !final && w.now.Sub(w.ended) < w.policy.MinPause:
		return fmt.Errorf("no pause")
	case !final && w.now.Sub(w.began) < interval:
		return fmt.Errorf("too early")
	}
	w.last = n
	if stops {
		w.stopping.begun = n
	}
	if !savepoint {
		w.began = w.now
	}
	w.all[n] = &fate{
		attempt: w.attempt, began: w.now, final: final, savepoint: savepoint, pending: true,
		acked: map[graph.Subtask]bool{}, late: map[graph.Subtask]bool{}, released: map[graph.Subtask]bool{},
	}
	switch {
	case savepoint && w.checkpoints() > 0:
		w.reached["savepoint beside a checkpoint"]++
	case !savepoint:
		w.reached[fmt.Sprintf("%d of %d at once", w.checkpoints(), limit)]++
		if w.policy.MinPause > 0 && w.now.Sub(w.ended) == w.policy.MinPause {
			w.reached["right behind a pause"]++
		}
	}
	switch {
	case w.luck(50) == 1:
	case w.luck(20) == 1:
		w.wire = append(w.wire, Failed{n, "enumerate", false})
	default:
		w.wire = append(w.wire, Enumerated{Checkpoint: n})
		w.repeat()
	}
	return nil
}

// wanted reports whether somebody may be waiting for a checkpoint.
func (w *world) wanted() bool {
	for _, want := range w.unanswered {
		if want == aCheckpoint {
			return true
		}
	}
	return false
}

// partial reports whether a part of the job has ended after which there are to be
// no checkpoints.
func (w *world) partial() bool { return w.policy.WhileAllRun && len(w.open) < len(w.subtasks) }

// repeat says what was said last again, sometimes.
func (w *world) repeat() {
	if w.luck(6) == 1 {
		w.wire = append(w.wire, w.wire[len(w.wire)-1])
	}
}

func (w *world) trigger(a Trigger) {
	for _, s := range w.subtasks {
		n := a.Barrier.Checkpoint
		switch {
		case w.luck(12) == 1:
			continue
		case w.luck(20) == 1:
			w.wire = append(w.wire, Decline{w.attempt, s, n, "declined", w.rng.IntN(2) == 0})
		default:
			w.wire = append(w.wire, Ack{w.attempt, s, n, part(s), snapshot.Measures{State: int64(n), Written: 1}})
		}
		if w.luck(30) == 1 {
			w.wire = append(w.wire, Ack{Attempt: w.attempt + 1, Subtask: s, Checkpoint: n, State: part(s)}, Decline{w.attempt + 1, s, n, "", false})
		}
		if w.luck(30) == 1 {
			w.wire = append(w.wire, Decline{w.attempt, s, n, "after all", false})
		}
		w.repeat()
	}
}

// part is a subtask's part of a checkpoint, and says whose it is.
func part(s graph.Subtask) snapshot.Task {
	return snapshot.Task{graph.ID{byte(s.Index)}: snapshot.State{}}
}

func subtask(part snapshot.Task) graph.Subtask {
	for id := range part {
		return graph.Subtask{Index: int(id[0])}
	}
	return graph.Subtask{Index: -1}
}

func (w *world) store(a Store) error {
	n := a.Barrier.Checkpoint
	f := w.all[n]
	if !f.pending || f.storing || f.final != a.Final || f.attempt != w.attempt || !w.running {
		return fmt.Errorf("attempt %d: %+v", w.attempt, f)
	}
	for _, s := range w.subtasks {
		if !f.acked[s] || subtask(a.Subtasks[s]) != s {
			return fmt.Errorf("without the part of %d", s.Index)
		}
	}
	f.storing = true
	switch {
	case w.luck(10) == 1:
		w.wire = append(w.wire, Failed{n, "store", w.rng.IntN(2) == 0})
	default:
		w.wire = append(w.wire, Stored{n, fmt.Sprint(n)})
	}
	return nil
}

func (w *world) commit(n uint64) error {
	if f := w.all[n]; !f.complete || !f.point || f.attempt != w.attempt || w.committing != 0 || n <= w.committed {
		return fmt.Errorf("committing %d, committed %d: %+v", w.committing, w.committed, f)
	}
	w.committing = n
	w.wire = append(w.wire, Committed{n})
	w.repeat()
	return nil
}

func (w *world) discard(n uint64) error {
	f := w.all[n]
	w.drop(n)
	switch {
	case f.savepoint && f.complete:
		return fmt.Errorf("a savepoint")
	case f.discarded:
		return fmt.Errorf("again")
	case f.storing:
		return fmt.Errorf("while it is being stored")
	case f.unknown:
		return fmt.Errorf("though nobody knows whether it is stored")
	case f.savepoint:
	case f.complete && n >= w.stored && w.stored <= w.restored:
		return fmt.Errorf("without a newer one")
	case n == w.restored && w.stored == 0, n == w.stored:
		return fmt.Errorf("it is needed")
	case f.complete && len(w.kept()) <= w.policy.Retained:
		return fmt.Errorf("of %v, and %d are to be kept", w.kept(), w.policy.Retained)
	}
	if f.discarded = true; f.complete {
		w.reached["old one discarded"]++
	}
	return nil
}

// count compares the statistics with what happened (S137).
func (w *world) count() error {
	var want Stats
	newest := func(r *Record, n uint64) { r.Checkpoint = max(r.Checkpoint, n) }
	for n, f := range w.all {
		switch {
		case f.attempt == 0: // from before
			continue
		case f.pending:
			want.InProgress++
		case f.complete:
			want.Completed++
			if f.savepoint {
				newest(&want.Latest.Savepoint, n)
			} else {
				newest(&want.Latest.Completed, n)
			}
		default:
			want.Failed++
			newest(&want.Latest.Failed, n)
		}
		want.Triggered++
	}
	got := w.Stats()
	if got.Triggered != want.Triggered || got.InProgress != want.InProgress || got.Completed != want.Completed || got.Failed != want.Failed ||
		got.Latest.Completed.Checkpoint != want.Latest.Completed.Checkpoint || got.Latest.Savepoint.Checkpoint != want.Latest.Savepoint.Checkpoint ||
		got.Latest.Failed.Checkpoint != want.Latest.Failed.Checkpoint {
		return fmt.Errorf("statistics are %+v, want %+v", got, want)
	}
	if savepoints := want.InProgress - w.checkpoints(); want.InProgress > w.policy.Concurrent+savepoints {
		return fmt.Errorf("%d are in progress", want.InProgress)
	}
	if len(got.History) != min(w.policy.History, want.Triggered) {
		return fmt.Errorf("a history of %d of %d", len(got.History), want.Triggered)
	}
	for i, r := range append(got.History, got.Latest.Completed, got.Latest.Savepoint, got.Latest.Failed) {
		if i > 0 && i < len(got.History) && r.Checkpoint <= got.History[i-1].Checkpoint {
			return fmt.Errorf("in the history %d follows %d", r.Checkpoint, got.History[i-1].Checkpoint)
		}
		if err := w.compare(r); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the record of a checkpoint with what happened to it.
func (w *world) compare(r Record) error {
	f := w.all[r.Checkpoint]
	if f == nil {
		return nil // there is none
	}
	parts, dir := int64(len(r.Parts)), ""
	if f.complete {
		dir = fmt.Sprint(r.Checkpoint)
	}
	if r.Savepoint != f.savepoint || r.Final != f.final || !r.Began.Equal(f.began) || r.Ended.IsZero() != f.pending ||
		(r.Failure != "") != (!f.pending && !f.complete) || r.Discarded != (f.complete && f.discarded) || r.Dir != dir ||
		r.Subtasks != len(w.subtasks) || int(parts) != len(f.acked) || r.State != parts*int64(r.Checkpoint) || r.Written != parts {
		return fmt.Errorf("the record of %d is %+v, and it is %+v", r.Checkpoint, r, f)
	}
	return nil
}

// account makes sure that nothing is left of what isn't kept.
func (w *world) account() error {
	kept := w.kept()
	if w.policy.Interval > 0 && w.Stats().Latest.Completed.Checkpoint > 0 && len(kept) > w.policy.Retained {
		return fmt.Errorf("%v are kept, want %d", kept, w.policy.Retained)
	}
	for n, f := range w.all {
		if !f.complete && !f.unknown && !f.storing && !f.discarded {
			return fmt.Errorf("%d is neither complete nor discarded: %+v", n, f)
		}
		for s := range f.late {
			if !f.released[s] && !f.unknown && w.drops-f.drops < remembered {
				return fmt.Errorf("the late part of subtask %d in %d is not released", s.Index, n)
			}
		}
	}
	return nil
}
