// Package graph is a job as a picture: from the operators that the user wrote
// (StreamGraph) to tasks (JobGraph) to subtasks and their attempts (ExecutionGraph).
package graph

import "encoding/hex"

// ID names an operator, and a task, whose id is that of its head operator. It is
// made from the operator's uid, or generated, as Flink does.
type ID [16]byte

// String returns 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Subtask names one parallel copy of a task.
type Subtask struct {
	Task  ID
	Index int
}

// Attempt numbers the attempts to run a job within one process, from 1.
type Attempt uint64
