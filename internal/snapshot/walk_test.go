package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

// TestWalk has checkpoints begun, stored, dropped, discarded and released, in any
// order, by processes that are killed on machines that crash, on a file system that
// fails, and holds the directory to its promise: what is stored and not discarded is
// there, whole, and is what the next process finds; and once that has cleaned up,
// nothing else is. A failure prints its seed.
func TestWalk(t *testing.T) {
	reached := map[string]int{}
	for seed := range uint64(200) {
		w := newWalker(seed, reached)
		if err := w.walk(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, what := range []string{"stored", "not stored", "unknown", "discarded", "not discarded", "released", "killed", "fell back to nothing", "cleaned", "not cleaned"} {
		if reached[what] == 0 {
			t.Errorf("no walk has %s: %v", what, reached)
		}
	}
}

// A walker is a job's storage, and what is true of it.
type walker struct {
	*Directory
	rng     *rand.Rand
	disk    *filesystem.Memory
	calm    bool // nothing fails any more
	reached map[string]int

	last    uint64
	pending map[uint64]Checkpoint // begun
	dropped []uint64              // of this process; late parts of them are released
	stored  map[uint64]bool       // must be there
	unsure  map[uint64]bool       // may be there or not
}

func newWalker(seed uint64, reached map[string]int) *walker {
	w := &walker{rng: rand.New(rand.NewPCG(seed, 0)), disk: filesystem.NewMemory(), reached: reached, stored: map[uint64]bool{}, unsure: map[uint64]bool{}}
	w.Directory = directory(&filesystem.Faulty{FileSystem: w.disk, Before: w.fault, After: w.fault})
	w.Random = w.rng.Uint64
	w.begin()
	return w
}

func (w *walker) fault(op, _ string) error {
	if w.calm || w.rng.IntN(40) > 0 {
		return nil
	}
	return errors.New("injected")
}

// begin begins a process.
func (w *walker) begin() { w.pending, w.dropped = map[uint64]Checkpoint{}, nil }

func (w *walker) walk() error {
	for range 80 {
		w.move()
		if err := w.check(); err != nil {
			return err
		}
	}
	w.calm = true
	return w.settle()
}

// move does one thing.
func (w *walker) move() {
	switch w.rng.IntN(10) {
	case 0, 1:
		w.last++
		if w.pending[w.last] = (Checkpoint{Number: w.last, JobID: path.Base(w.Path)}); w.Begin(w.last) != nil {
			w.drop(w.last)
		}
	case 2, 3:
		if n, ok := w.any(); ok && !w.add(n) {
			w.drop(n)
		}
	case 4, 5:
		if n, ok := w.any(); ok {
			w.store(n)
		}
	case 6:
		if n, ok := w.any(); ok {
			w.drop(n)
		}
	case 7:
		if n := slices.Sorted(maps.Keys(w.stored)); len(n) > 1 {
			w.discard(n[0])
		}
	case 8:
		w.late()
	case 9:
		w.kill()
	}
}

// any is one of the checkpoints that have begun.
func (w *walker) any() (n uint64, ok bool) {
	if len(w.pending) == 0 {
		return 0, false
	}
	all := slices.Sorted(maps.Keys(w.pending))
	return all[w.rng.IntN(len(all))], true
}

// add writes a subtask's part of a checkpoint.
func (w *walker) add(n uint64) bool {
	part, err := w.part(n)
	if err != nil {
		return false
	}
	cp := w.pending[n]
	cp.Operators = append(cp.Operators, Operator{ID: graph.ID{byte(len(cp.Operators))}, Parallelism: 1, MaxParallelism: 128, Subtasks: []State{part}})
	w.pending[n] = cp
	return true
}

func (w *walker) part(n uint64) (State, error) {
	h := state.Handle{Last: 127}
	for range 1 + w.rng.IntN(2) {
		f, err := w.write(n)
		if err != nil {
			return State{}, err
		}
		h.Files = append(h.Files, f)
	}
	return State{Keyed: []state.Handle{h}}, nil
}

func (w *walker) write(n uint64) (state.File, error) {
	to := Target{Files: w.Files, Dir: w.chk(n), Inline: 10, Random: w.Random}
	f, err := to.Create(context.Background())
	if err != nil {
		return state.File{}, err
	}
	if _, err := f.Write(make([]byte, 1+w.rng.IntN(30))); err != nil {
		f.Abort()
		return state.File{}, err
	}
	return f.Finish()
}

func (w *walker) store(n uint64) {
	err := w.Store(w.pending[n])
	switch {
	case err == nil:
		delete(w.pending, n)
		w.stored[n] = true
		w.reached["stored"]++
	case errors.Is(err, ErrUnknown):
		delete(w.pending, n)
		w.unsure[n] = true
		w.reached["unknown"]++
	default:
		w.drop(n)
		w.reached["not stored"]++
	}
}

// drop discards a checkpoint that hasn't been stored.
func (w *walker) drop(n uint64) {
	delete(w.pending, n)
	w.dropped = append(w.dropped, n)
	w.discard(n)
}

func (w *walker) discard(n uint64) {
	if w.stored[n] {
		w.reached["discarded"]++
		delete(w.stored, n)
	}
	if w.Discard(n) != nil {
		w.reached["not discarded"]++
		w.unsure[n] = true
	}
}

// late has a subtask answer for a checkpoint that was dropped.
func (w *walker) late() {
	if len(w.dropped) == 0 {
		return
	}
	n := w.dropped[w.rng.IntN(len(w.dropped))]
	if part, err := w.part(n); err == nil && w.Release(n, Task{graph.ID{}: part}) == nil {
		w.reached["released"]++
	}
}

// kill ends the process, perhaps with its machine. The next one cleans up behind its
// first checkpoint.
func (w *walker) kill() {
	w.reached["killed"]++
	keep := func(c filesystem.Change) int { return c.Bytes }
	if w.rng.IntN(2) == 0 {
		keep = func(c filesystem.Change) int { return w.rng.IntN(c.Bytes + 1) }
	}
	w.disk.Crash(keep)
	w.begin()
	found, err := w.Latest(context.Background(), true)
	if err != nil {
		return // the file system; what was found is checked anyway
	}
	if found.Checkpoint == nil {
		w.reached["fell back to nothing"]++
	}
	w.last = max(w.last, found.Highest)
	w.last++
	n := w.last
	w.pending[n] = Checkpoint{Number: n}
	if w.Begin(n) != nil || !w.add(n) {
		w.drop(n)
		return
	}
	if w.store(n); !w.stored[n] {
		return
	}
	if w.Clean(n) == nil {
		w.reached["cleaned"]++
	} else {
		w.reached["not cleaned"]++
	}
}

// check makes sure that whatever must be there is, and is found.
func (w *walker) check() error {
	disk := *w.Directory
	disk.Files = w.disk
	for n := range w.stored {
		if _, err := disk.verified(context.Background(), n); err != nil {
			return fmt.Errorf("checkpoint %d: %w", n, err)
		}
	}
	found, err := disk.Latest(context.Background(), false)
	if err != nil {
		return err
	}
	for _, n := range found.Complete {
		if !w.stored[n] && !w.unsure[n] {
			return fmt.Errorf("checkpoint %d is there", n)
		}
	}
	for n := range w.stored {
		if !slices.Contains(found.Complete, n) {
			return fmt.Errorf("checkpoint %d isn't found among %v", n, found.Complete)
		}
	}
	return nil
}

// settle has one more process clean up, and looks for what is left; then the job ends.
func (w *walker) settle() error {
	w.kill()
	if err := w.check(); err != nil {
		return err
	}
	found, err := w.Latest(context.Background(), false)
	if err != nil {
		return err
	}
	want := map[string]bool{"shared": true, "taskowned": true}
	for _, n := range found.Complete {
		cp, _, err := Load(w.disk, w.chk(n))
		if err != nil {
			return err
		}
		want[chkName(n)], want[chkName(n)+"/"+metadataName] = true, true
		for f := range cp.files {
			if f.Name != "" {
				want[chkName(n)+"/"+f.Name] = true
			}
		}
	}
	for _, name := range tree(w.disk, w.Path) {
		if name = strings.TrimPrefix(name, w.Path+"/"); !want[name] {
			return fmt.Errorf("%s is left; complete are %v", name, found.Complete)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		return fmt.Errorf("%v are missing", want)
	}
	if err := w.Clear(); err != nil {
		return err
	}
	if left := tree(w.disk, path.Dir(w.Path)); len(left) > 0 {
		return fmt.Errorf("the job has left %v", left)
	}
	return nil
}
