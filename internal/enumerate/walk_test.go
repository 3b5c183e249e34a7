package enumerate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/snapshot"
)

// TestSplitsAreNeitherLostNorDoubled walks at random through requests and
// answers that are lost, late and repeated, checkpoints and crashes (S115). In
// each checkpoint every split that was found is in exactly one place; in the end
// each has been read exactly once, as far as state tells.
func TestSplitsAreNeitherLostNorDoubled(t *testing.T) {
	complete, declined := 0, 0
	for seed := range uint64(1000) {
		w := walk{rng: rand.New(rand.NewPCG(seed, 0)), total: 30}
		w.restore(saved{})
		for range 400 {
			w.step()
		}
		w.drain()
		complete, declined = complete+w.complete, declined+w.declined
		if w.err != nil {
			t.Fatalf("seed %d: %v", seed, w.err)
		}
	}
	if complete == 0 || declined == 0 {
		t.Errorf("%d checkpoints complete, %d declined", complete, declined)
	}
}

// saved is a checkpoint: the enumerator's part and what each reader has been given.
type saved struct {
	enumerator *snapshot.Enumerator
	readers    [][]uint64
}

type walk struct {
	rng                *rand.Rand
	total              int // splits that there are
	e                  *Enumerator
	readers            []model
	answers            []Answer // on their way, any of which may be lost or repeated
	checkpoint         uint64
	begun              *saved // pending
	answered           []uint64
	triggered          []bool
	latest             saved
	complete, declined int
	patient            bool // every enumeration gets to its end
	err                error
}

// model is a source subtask as control.Assign describes it.
type model struct {
	seen   uint64 // answers
	splits []uint64
	held   []Answer // until the barrier of their After
	passed uint64   // newest barrier sent, or checkpoint known to be aborted
	over   bool
}

func (w *walk) restore(from saved) {
	w.readers = make([]model, 1+w.rng.IntN(3))
	w.answers, w.begun = nil, nil
	for i, splits := range from.readers {
		r := &w.readers[i%len(w.readers)]
		r.splits = append(r.splits, splits...)
	}
	w.e, _ = start(w.enumerate, len(w.readers), from.enumerator)
	for i := range w.readers {
		w.readers[i].passed = w.checkpoint
	}
}

// enumerate finds some splits at a time; it often doesn't get to the end.
func (w *walk) enumerate(_ context.Context, e connector.Enumeration[uint64]) error {
	at := 0
	if p := e.Position(); p != nil {
		at = int(p[0])
	}
	for at < w.total {
		n := min(1+w.rng.IntN(9), w.total-at)
		for i := range n {
			e.Assign(uint64(at + i))
		}
		if !w.patient && w.rng.IntN(4) == 0 {
			return context.Canceled // no more splits until the next crash
		}
		at += n
		e.Save([]byte{byte(at)})
	}
	return nil
}

func (w *walk) step() {
	i := w.rng.IntN(len(w.readers))
	r := &w.readers[i]
	switch w.rng.IntN(12) {
	default:
		w.request(i)
	case 4, 5, 6, 7:
		if len(w.answers) > 0 {
			k := w.rng.IntN(len(w.answers))
			a := w.answers[k]
			if w.rng.IntN(5) > 0 {
				w.answers = slices.Delete(w.answers, k, k+1)
			}
			if w.rng.IntN(10) > 0 {
				w.readers[a.Subtask].take(a)
			}
		}
	case 8:
		if w.begun == nil {
			w.begin()
		}
	case 9, 10:
		if w.begun != nil && !w.triggered[i] {
			w.trigger(i, r)
		}
	case 11:
		if w.rng.IntN(8) == 0 {
			w.restore(w.latest)
		}
	}
}

func (w *walk) request(i int) {
	if a, ok := w.e.Request(i, w.readers[i].seen+1); ok {
		w.answers = append(w.answers, a)
	}
	w.answers = append(w.answers, w.e.Due()...)
}

func (r *model) take(a Answer) {
	if a.Request != r.seen+1 {
		return
	}
	r.seen++
	r.held = append(r.held, a)
	r.pass(r.passed)
}

// pass takes in what was held back for barriers up to n.
func (r *model) pass(n uint64) {
	r.passed = max(r.passed, n)
	for len(r.held) > 0 && r.held[0].After <= r.passed {
		a := r.held[0]
		r.held = r.held[1:]
		r.over = r.over || a.NoMore
		for _, s := range a.Splits {
			r.splits = append(r.splits, uint64(s[0]))
		}
	}
}

func (w *walk) begin() {
	w.checkpoint++
	part, answered := w.e.Snapshot(w.checkpoint)
	w.begun = &saved{enumerator: &part, readers: make([][]uint64, len(w.readers))}
	w.answered, w.triggered = answered, make([]bool, len(w.readers))
}

// trigger brings reader i the barrier. If it lacks answers it declines.
func (w *walk) trigger(i int, r *model) {
	if r.seen < w.answered[i] {
		w.declined++
		w.begun = nil
		for i := range w.readers {
			w.readers[i].pass(w.checkpoint)
		}
		return
	}
	w.triggered[i] = true
	w.begun.readers[i] = slices.Clone(r.splits)
	r.pass(w.checkpoint)
	if !slices.Contains(w.triggered, false) {
		w.latest, w.begun = *w.begun, nil
		w.complete++
		w.check(w.latest)
	}
}

// check looks for each split that was found up to the saved position.
func (w *walk) check(s saved) {
	found := 0
	if s.enumerator.Position != nil {
		found = int(s.enumerator.Position[0])
	}
	if s.enumerator.Done {
		found = w.total
	}
	var all []uint64
	for _, b := range s.enumerator.Splits {
		all = append(all, uint64(b[0]))
	}
	for _, r := range s.readers {
		all = append(all, r...)
	}
	slices.Sort(all)
	if len(all) != found || len(slices.Compact(slices.Clone(all))) != found {
		w.err = fmt.Errorf("%d found, but there are %v", found, all)
	}
}

// drain lets everything come to its end, without faults.
func (w *walk) drain() {
	w.patient = true
	if !w.e.done {
		w.restore(w.latest)
	}
	w.begun = nil
	for i := range w.readers {
		r := &w.readers[i]
		for r.pass(w.checkpoint); !r.over; r.pass(w.checkpoint) {
			w.request(i)
			for _, a := range w.answers {
				w.readers[a.Subtask].take(a)
			}
		}
	}
	if w.err == nil {
		w.check(saved{&snapshot.Enumerator{Done: true}, collect(w.readers)})
	}
}

func collect(readers []model) (all [][]uint64) {
	for _, r := range readers {
		all = append(all, r.splits)
	}
	return all
}
