package snapshot

import (
	"slices"

	"github.com/weirstream/weir/state"
)

// files yields every file that a checkpoint refers to, those with their data
// inline too; some come more than once.
func (cp Checkpoint) files(yield func(state.File) bool) {
	for _, op := range cp.Operators {
		for _, s := range op.Subtasks {
			for f := range s.files {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// files yields the files of one operator in one subtask.
func (s State) files(yield func(state.File) bool) {
	for _, h := range s.Keyed {
		for _, f := range h.Files {
			if !yield(f) {
				return
			}
		}
	}
	for _, l := range s.Lists {
		if !yield(l.File) {
			return
		}
	}
}

// Bytes is how much there is in a checkpoint.
func (cp Checkpoint) Bytes() (n int64) {
	for _, op := range cp.Operators {
		n += op.Bytes()
	}
	return n
}

// Bytes is how much an operator saved.
func (op Operator) Bytes() (n int64) {
	if e := op.Enumerator; e != nil {
		n += e.Bytes()
	}
	for _, s := range op.Subtasks {
		n += s.Bytes()
	}
	return n
}

// Bytes is how much an enumerator saved.
func (e Enumerator) Bytes() int64 { return int64(len(e.Position)) + sizes(e.Splits) }

// Bytes is how much an operator saved in one subtask.
func (s State) Bytes() int64 {
	n := s.Loose()
	for f := range s.files {
		n += f.Size
	}
	return n
}

// Loose is how much of it is in no file.
func (s State) Loose() int64 {
	n := sizes(s.Splits)
	for _, p := range s.Pending {
		n += int64(len(p.Data))
	}
	return n
}

// empty says that nothing is lost when the operator is gone.
func (op Operator) empty() bool {
	if e := op.Enumerator; e != nil && (e.Position != nil || len(e.Splits) > 0) {
		return false
	}
	for _, s := range op.Subtasks {
		if len(s.Splits)+len(s.Pending) > 0 || slices.ContainsFunc(s.Keyed, hasFiles) || slices.ContainsFunc(s.Lists, hasItems) {
			return false
		}
	}
	return true
}

func hasFiles(h state.Handle) bool { return len(h.Files) > 0 }
func hasItems(l List) bool         { return len(l.Lengths) > 0 }

func (l List) bytes() (n int64) {
	for _, length := range l.Lengths {
		n += int64(length)
	}
	return n
}

func sizes(all [][]byte) (n int64) {
	for _, b := range all {
		n += int64(len(b))
	}
	return n
}
