package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/keygroup"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/table"
)

// Examine reads all of a checkpoint, to the last entry of the last table, and
// returns everything that is wrong with it. It takes what Verify takes and more:
// a checkpoint that Verify accepts can be read, one that Examine accepts makes
// sense.
func Examine(ctx context.Context, from state.Origin, cp Checkpoint) (wrong []error) {
	seen := map[string]bool{}
	for _, op := range cp.Operators {
		note := func(err error) {
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", title(op), err))
			}
		}
		for i, s := range op.Subtasks {
			note(op.covered(i))
			for _, h := range s.Keyed {
				for _, f := range h.Files {
					note(examineTable(ctx, from, f, h, op.MaxParallelism))
				}
			}
			for _, l := range s.Lists {
				if l.File.Name == "" || !seen[l.File.Name] {
					seen[l.File.Name] = true
					note(examineList(ctx, from, l))
				}
			}
		}
	}
	return wrong
}

// covered says whether the handles of a subtask are for the key groups that it
// owns, each of them once.
func (op Operator) covered(subtask int) error {
	s := op.Subtasks[subtask]
	if !op.keyed() || s.Ended && len(s.Keyed) == 0 {
		return nil
	}
	first, last := keygroup.Range(subtask, op.Parallelism, op.MaxParallelism)
	next := first
	byFirst := func(a, b state.Handle) int { return cmp.Compare(a.First, b.First) }
	for _, h := range slices.SortedFunc(slices.Values(s.Keyed), byFirst) {
		if h.First != next {
			return fmt.Errorf("subtask %d: %w: key group %d is missing, there twice, or another subtask's", subtask, ErrCorrupt, min(next, h.First))
		}
		next = h.Last + 1
	}
	if next != last+1 {
		return fmt.Errorf("subtask %d: %w: its key groups end at %d instead of %d", subtask, ErrCorrupt, next-1, last)
	}
	return nil
}

func examineList(ctx context.Context, from state.Origin, l List) error {
	b, err := from.Open(ctx, l.File)
	if err != nil {
		return fmt.Errorf("state %q: %w", l.Name, err)
	}
	return b.Close()
}

// examineTable reads a file of keyed state entry by entry.
func examineTable(ctx context.Context, from state.Origin, f state.File, h state.Handle, maxParallelism int) error {
	b, err := from.Open(ctx, f)
	if err != nil {
		return err
	}
	t, err := table.Open(b, b.Size())
	if err == nil {
		err = t.Verify()
	}
	if err == nil {
		err = examineEntries(t.All(), h, maxParallelism)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return fmt.Errorf("keyed state of key groups %d to %d, file %q: %w", h.First, h.Last, f.Name, err)
	}
	return nil
}

func examineEntries(it *table.Iterator, h state.Handle, maxParallelism int) error {
	known := map[string]bool{}
	for _, d := range h.States {
		known[d.Name] = true
	}
	for it.Next() {
		switch group, name, _, ok := cutEntryKey(it.Key()); {
		case !ok:
			return fmt.Errorf("%w: %x is no key of an entry", ErrCorrupt, it.Key())
		case group >= maxParallelism:
			return fmt.Errorf("%w: an entry is of key group %d of %d", ErrCorrupt, group, maxParallelism)
		case !known[string(name)]:
			return fmt.Errorf("%w: an entry is of state %q, which the metadata doesn't list", ErrCorrupt, name)
		}
	}
	return it.Err()
}

// cutEntryKey takes the key of a table's entry apart; rest is the key, and of a
// map the user key.
func cutEntryKey(key []byte) (group int, name, rest []byte, ok bool) {
	if len(key) < 2 {
		return 0, nil, nil, false
	}
	name, rest, ok = bytes.Cut(key[2:], []byte{0})
	return int(binary.BigEndian.Uint16(key)), name, rest, ok
}
