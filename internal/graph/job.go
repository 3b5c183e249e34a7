package graph

import (
	"fmt"
	"strings"
)

// JobGraph is the job as tasks: chains of operators that run in one goroutine,
// and the edges between them.
type JobGraph struct {
	Tasks []Task     // in topological order
	Edges []TaskEdge // in the order of the stream graph
}

// A Task is a chain of operators. It is a tree: records enter at its head,
// Operators[0], and every other operator is fed by one before it.
type Task struct {
	ID             ID     // the head's
	Name           string // such as "Source: lines -> split"
	Parallelism    int
	MaxParallelism int        // the head's, which alone can be keyed
	Operators      []Operator // in topological order
	In             []int      // indices of edges, all of which lead to the head
}

// An Operator is a node of the stream graph in its task.
type Operator struct {
	ID             ID
	UID            string // empty where the id was generated
	Former         []ID   // those that it had before
	Name           string
	Node           int // its index in the stream graph
	Kind           Kind
	Keyed          bool
	Bounded        bool
	Commits        bool
	Parallelism    int
	MaxParallelism int
	Derived        bool   // MaxParallelism wasn't set for it
	Chained        []Link // to the operators that it calls
	Out            []int  // indices of edges that lead to other tasks
}

// A Link is an edge within a chain.
type Link struct {
	To   int // index of the operator in its task
	Side string
	Edge int // index of the edge in the stream graph
}

// A TaskEdge carries records from one task to another. The key group of a record
// on a Hash edge is one of the receiver's MaxParallelism.
type TaskEdge struct {
	From, To  int // indices of tasks
	Operator  int // index of the sending operator in From
	Input     int // which input of the head of To
	Side      string
	Partition Partition
	Edge      int // index of the edge in the stream graph
}

// Task returns the task with the given id, nil if there is none.
func (g *JobGraph) Task(id ID) *Task {
	for i := range g.Tasks {
		if g.Tasks[i].ID == id {
			return &g.Tasks[i]
		}
	}
	return nil
}

// Subtasks returns all subtasks, task by task.
func (g *JobGraph) Subtasks() (all []Subtask) {
	for _, t := range g.Tasks {
		for i := range t.Parallelism {
			all = append(all, Subtask{t.ID, i})
		}
	}
	return all
}

// String returns a line for each task, with where its records come from.
func (g *JobGraph) String() string {
	var b strings.Builder
	for i, t := range g.Tasks {
		fmt.Fprintf(&b, "%d. %s  p=%d max=%d", i+1, t.Name, t.Parallelism, t.MaxParallelism)
		for _, e := range t.In {
			fmt.Fprintf(&b, "  <- %s %s", output(g.Edges[e].From, g.Edges[e].Side), g.Edges[e].Partition)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
