// Package snapshot is what a checkpoint holds, and how it lies in storage.
package snapshot

import (
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

// Task is what one subtask acknowledges: a part for each operator of its chain.
type Task map[graph.ID]State

// State is one operator's part of one subtask's snapshot.
type State struct {
	Keyed   []state.Handle
	Lists   []List
	Splits  [][]byte  // positions of a source's splits, encoded by the split's codec
	Pending []Pending // prepared by a sink and not known to be committed, oldest first
	Ended   bool      // the operator's input had ended and its End had run
}

// A List is a run of items of one state that doesn't belong to keys: items of the
// given lengths follow each other in File, from Offset on.
type List struct {
	state.Declared
	File    state.File
	Offset  int64
	Lengths []uint32
}

// Pending is a committable: what a sink's writer prepared before a checkpoint.
type Pending struct {
	Checkpoint uint64
	Subtask    int
	Data       []byte
}

// Checkpoint is the content of a _metadata file.
type Checkpoint struct {
	Number    uint64
	Savepoint bool
	JobID     string // 32 hexadecimal digits
	JobName   string
	Began     int64 // nanoseconds since 1970
	Operators []Operator
}

// Operator is everything that one operator saved.
type Operator struct {
	ID             graph.ID
	UID, Name      string // UID is empty where the id was generated
	Parallelism    int
	MaxParallelism int
	Enumerator     *Enumerator // of a source
	Schemas        Schemas
	Subtasks       []State // one for each index
}

// Enumerator is a source enumerator's part of a checkpoint.
type Enumerator struct {
	Done     bool
	Position []byte   // what it last saved
	Splits   [][]byte // found and not handed to a reader yet
}

// Schemas describe what Splits and Pending hold; zero where there are none.
type Schemas struct{ Split, Committable codec.Schema }
