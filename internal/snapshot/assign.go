package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/keygroup"
	"github.com/weirstream/weir/state"
)

// Assignment says who starts from what when a job is restored.
type Assignment struct {
	// Subtasks holds what each operator of a subtask's chain starts from, where the
	// operator is in the checkpoint; of what was saved it may get nothing.
	Subtasks map[graph.Subtask]Task
	// Pending is what each sink's committer has to commit first, in order.
	Pending     map[graph.ID][]Pending
	Enumerators map[graph.ID]*Enumerator
	// MaxParallelism is that of every operator of the job: of one whose own was
	// derived, the restored one.
	MaxParallelism map[graph.ID]int
	// Restored are the operators of the job that were saved.
	Restored []Restored
	// Dropped is state that has no place in the job any more, by the operators that
	// saved it.
	Dropped []Operator
}

// Restored is an operator of a job with what was saved of it, perhaps under an id that
// it had before.
type Restored struct {
	Operator graph.Operator
	Saved    Operator
}

// Permission is what a restore may do beside putting everything back where it was.
type Permission struct {
	Drop   bool // state that has no place in the job
	Rehash bool // all keys of an operator whose max parallelism is set to another
}

// Assign deals out the state of a checkpoint to the subtasks of a job, which may
// have another parallelism. What can't be restored is an error, all of it at
// once, unless may says that it isn't one. Operators without uid
// get their state only as long as all of them are the same as in the checkpoint: their
// ids come from the job's shape, and another shape may give one the id of another.
// Without a checkpoint everybody starts empty.
func Assign(cp *Checkpoint, job *graph.JobGraph, may Permission) (Assignment, error) {
	a := Assignment{
		Subtasks:       map[graph.Subtask]Task{},
		Pending:        map[graph.ID][]Pending{},
		Enumerators:    map[graph.ID]*Enumerator{},
		MaxParallelism: map[graph.ID]int{},
	}
	saved := map[graph.ID]Operator{}
	nameless := map[graph.ID]string{} // operators without uid, by their generated ids
	if cp != nil {
		for _, op := range cp.Operators {
			saved[op.ID] = op
			if op.UID == "" {
				nameless[op.ID] = op.Name
			}
		}
	}
	reshaped := !maps.Equal(nameless, withoutUID(job))
	var errs []error
	for _, task := range job.Tasks {
		for _, op := range task.Operators {
			a.MaxParallelism[op.ID] = op.MaxParallelism
			old, ok, err := take(saved, op)
			switch {
			case err != nil:
				errs = append(errs, err)
			case !ok:
			case reshaped && old.UID == "" && old.ID == op.ID && !old.empty():
				errs = append(errs, fmt.Errorf("%s has state in the checkpoint, and ids without uid come from the job's shape, which was another: "+
					"that may be another operator's state; give the operators uids, and name the ids of their state by the option Formerly", title(old)))
			default:
				a.Restored = append(a.Restored, Restored{op, old})
				errs = append(errs, a.restore(task.ID, op, old, may.Rehash), a.drop(old.misplaced(op), may.Drop,
					"that its operator has no place for, having no key, being no source or committing nothing: give that another uid"))
			}
		}
	}
	for _, old := range slices.SortedFunc(maps.Values(saved), byName) {
		errs = append(errs, a.drop(old, may.Drop, "and isn't in the job: give an operator its uid back, or name this one by the option Formerly"))
	}
	return a, errors.Join(errs...)
}

// drop leaves state out, if there is any. That must be allowed.
func (a *Assignment) drop(old Operator, allowed bool, why string) error {
	switch {
	case old.empty():
	case allowed:
		a.Dropped = append(a.Dropped, old)
	default:
		return fmt.Errorf("%s has %d bytes of state in the checkpoint %s, or drop its state with -n (-allowNonRestoredState)", title(old), old.Bytes(), why)
	}
	return nil
}

// misplaced is what an operator has saved that it has no place for any more, now that
// it is op.
func (old Operator) misplaced(op graph.Operator) Operator {
	lost := Operator{ID: old.ID, UID: old.UID, Name: old.Name}
	if op.Kind != graph.Source {
		lost.Enumerator = old.Enumerator
	}
	for _, s := range old.Subtasks {
		var l State
		if !op.Keyed {
			l.Keyed = s.Keyed
		}
		if op.Kind != graph.Source {
			l.Splits = s.Splits
		}
		if !op.Commits {
			l.Pending = s.Pending
		}
		lost.Subtasks = append(lost.Subtasks, l)
	}
	return lost
}

// withoutUID returns the names of a job's operators that have no uid, by their ids.
func withoutUID(job *graph.JobGraph) map[graph.ID]string {
	names := map[graph.ID]string{}
	for _, task := range job.Tasks {
		for _, op := range task.Operators {
			if op.UID == "" {
				names[op.ID] = op.Name
			}
		}
	}
	return names
}

// take takes out of saved what an operator has saved, under its id or one that it had
// before. Only one may hold state.
func take(saved map[graph.ID]Operator, op graph.Operator) (old Operator, ok bool, err error) {
	for _, id := range append([]graph.ID{op.ID}, op.Former...) {
		found, there := saved[id]
		delete(saved, id)
		switch {
		case !there:
		case !ok, old.empty() && !found.empty():
			old, ok = found, true
		case !found.empty():
			err = errors.Join(err, fmt.Errorf("operator %q takes over the state of %s, but %s has state in the checkpoint, too: "+
				"leave out the option Formerly, or give the former operator its uid back", cmp.Or(op.UID, op.Name), title(found), title(old)))
		}
	}
	return old, ok, err
}

func byName(a, b Operator) int {
	return cmp.Or(cmp.Compare(a.UID, b.UID), slices.Compare(a.ID[:], b.ID[:]))
}

// title names a saved operator as its user knows it.
func title(op Operator) string {
	if op.UID == "" {
		return fmt.Sprintf("operator %q (without uid, id %s)", op.Name, op.ID)
	}
	return fmt.Sprintf("operator with uid %q", op.UID)
}

// restore assigns what one operator saved.
func (a *Assignment) restore(task graph.ID, op graph.Operator, old Operator, rehash bool) error {
	changed := !op.Derived && op.MaxParallelism != old.MaxParallelism
	rehash = rehash && changed
	if !rehash && (op.Keyed || old.keyed()) {
		switch {
		case op.Parallelism > old.MaxParallelism:
			return fmt.Errorf("%s: parallelism %d exceeds %d, the max parallelism that its state was saved with",
				title(old), op.Parallelism, old.MaxParallelism)
		case changed:
			return fmt.Errorf("%s: its max parallelism is set to %d, but its state was saved with %d: "+
				"leave it as it was, or have all keys hashed anew by execution.state-recovery.change-max-parallelism", title(old), op.MaxParallelism, old.MaxParallelism)
		}
		a.MaxParallelism[op.ID] = old.MaxParallelism
	}
	for _, s := range old.Subtasks {
		a.Pending[op.ID] = append(a.Pending[op.ID], s.Pending...)
	}
	if old.Enumerator != nil {
		a.Enumerators[op.ID] = old.Enumerator
	}
	for i, s := range old.dealt(op.Parallelism, rehash) {
		who := graph.Subtask{Task: task, Index: i}
		if a.Subtasks[who] == nil {
			a.Subtasks[who] = Task{}
		}
		a.Subtasks[who][op.ID] = s
	}
	return nil
}

func (op Operator) keyed() bool {
	return slices.ContainsFunc(op.Subtasks, func(s State) bool { return len(s.Keyed) > 0 })
}

// dealt returns what each of p subtasks starts from: the keyed state of its key
// groups, contiguous runs of splits and of the items of split lists, all union
// lists, and a copy of each broadcast. At unchanged parallelism what isn't shared
// stays where it is. When keys are hashed anew everybody gets all keyed state, and
// takes what is its own.
func (op Operator) dealt(p int, rehash bool) []State {
	all := op.together()
	split, union, broadcast := all.lists(state.SplitKind), all.lists(state.UnionKind), all.lists(state.BroadcastKind)
	dealt := make([]State, p)
	for i := range dealt {
		s := &dealt[i]
		if p == op.Parallelism {
			*s = op.Subtasks[i]
			s.Pending = nil // the committer has it
			s.Lists = slices.Concat(s.lists(state.SplitKind)...)
		} else {
			s.Ended = all.Ended
			s.Keyed = overlap(all.Keyed, i, p, op.MaxParallelism)
			first, end := run(len(all.Splits), i, p)
			s.Splits = all.Splits[first:end:end]
			for _, same := range split {
				s.Lists = append(s.Lists, cut(same, i, p)...)
			}
		}
		if rehash {
			s.Keyed = all.Keyed
		}
		for _, same := range union {
			s.Lists = append(s.Lists, same...)
		}
		for _, same := range broadcast {
			s.Lists = append(s.Lists, same[i%len(same)])
		}
	}
	return dealt
}

// together returns everything in the order of the subtasks. Ended is true if all
// had ended: a subtask that had and one that hadn't can't be mixed.
func (op Operator) together() (all State) {
	all.Ended = true
	for _, s := range op.Subtasks {
		all.Ended = all.Ended && s.Ended
		all.Keyed = append(all.Keyed, s.Keyed...)
		all.Lists = append(all.Lists, s.Lists...)
		all.Splits = append(all.Splits, s.Splits...)
	}
	return all
}

// overlap returns the handles that hold key groups of subtask i of p, narrowed
// down to these.
func overlap(handles []state.Handle, i, p, maxParallelism int) (own []state.Handle) {
	first, last := keygroup.Range(i, p, maxParallelism)
	for _, h := range handles {
		h.First, h.Last = max(h.First, first), min(h.Last, last)
		if h.First <= h.Last {
			own = append(own, h)
		}
	}
	return own
}

// run returns which of n items belong to subtask i of p: equally many in each,
// the first ones having the remainder, one each.
func run(n, i, p int) (first, end int) {
	each, more := n/p, n%p
	first = i*each + min(i, more)
	end = first + each
	if i < more {
		end++
	}
	return first, end
}

// lists returns the lists of one kind, those of the same name together, in the
// order in which the names first come.
func (s State) lists(kind string) (all [][]List) {
	place := map[string]int{}
	for _, l := range s.Lists {
		if l.Kind != kind {
			continue
		}
		at, ok := place[l.Name]
		if !ok {
			at = len(all)
			place[l.Name], all = at, append(all, nil)
		}
		all[at] = append(all[at], l)
	}
	return all
}

// cut returns subtask i's run of the items of lists.
func cut(lists []List, i, p int) (own []List) {
	total := 0
	for _, l := range lists {
		total += len(l.Lengths)
	}
	first, end := run(total, i, p)
	at := 0 // items before l
	for _, l := range lists {
		from, to := max(first-at, 0), min(end-at, len(l.Lengths))
		at += len(l.Lengths)
		if from < to {
			own = append(own, l.slice(from, to))
		}
	}
	return own
}

// slice returns the items from..to-1.
func (l List) slice(from, to int) List {
	skipped := List{Lengths: l.Lengths[:from]}
	l.Offset += skipped.bytes()
	l.Lengths = l.Lengths[from:to:to]
	return l
}
