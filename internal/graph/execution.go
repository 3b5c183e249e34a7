package graph

import (
	"fmt"
	"slices"
	"strings"
)

// State is how far a subtask has come in an attempt:
//
//	CREATED -> DEPLOYING -> INITIALIZING -> RUNNING -> FINISHED
//
// From any of them it may fail, or be canceled, by way of CANCELING if it has
// been deployed. A finished subtask has emitted everything but stays until the
// job's last commit, so these can still happen to it; nothing happens after
// CANCELED and FAILED.
type State int

// States, as Flink names them.
const (
	Created      State = iota
	Deploying          // a worker has been told to open it
	Initializing       // it is open, its state is loaded, and it waits for the others
	Running            // it takes records
	Finished           // its input has ended
	Canceling          // it has been told to stop
	Canceled
	Failed
)

func (s State) String() string {
	return [...]string{"CREATED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED", "FAILED"}[s]
}

// next lists the states that each state may lead to.
var next = [...][]State{
	Created:      {Deploying, Canceled, Failed},
	Deploying:    {Initializing, Canceling, Failed},
	Initializing: {Running, Canceling, Failed},
	Running:      {Finished, Canceling, Failed},
	Finished:     {Canceling, Failed},
	Canceling:    {Canceled, Failed},
	Canceled:     {},
	Failed:       {},
}

// ExecutionGraph is the job as it runs: every subtask with the attempt it is in.
type ExecutionGraph struct {
	Job      *JobGraph
	Subtasks []Execution // in the order of JobGraph.Subtasks
}

// An Execution is a subtask in an attempt, and what became of earlier ones.
type Execution struct {
	Subtask Subtask
	Attempt Attempt
	State   State
	Err     string // why it failed
	Past    []Past // the last attempts before this one, oldest first
}

// Past is how an attempt ended.
type Past struct {
	Attempt Attempt
	State   State
	Err     string
}

// remembered is how many attempts an execution keeps.
const remembered = 16

// NewExecution returns the execution graph of a job in its first attempt.
func NewExecution(job *JobGraph) *ExecutionGraph {
	g := &ExecutionGraph{Job: job}
	for _, s := range job.Subtasks() {
		g.Subtasks = append(g.Subtasks, Execution{Subtask: s, Attempt: 1})
	}
	return g
}

// Find returns the execution of a subtask, nil if there is no such subtask.
func (g *ExecutionGraph) Find(s Subtask) *Execution {
	i := slices.IndexFunc(g.Subtasks, func(e Execution) bool { return e.Subtask == s })
	if i < 0 {
		return nil
	}
	return &g.Subtasks[i]
}

// Restart puts every subtask into a new attempt.
func (g *ExecutionGraph) Restart(a Attempt) {
	for i := range g.Subtasks {
		g.Subtasks[i].restart(a)
	}
}

func (e *Execution) restart(a Attempt) {
	past := append(e.Past, Past{e.Attempt, e.State, e.Err})
	past = past[max(0, len(past)-remembered):]
	*e = Execution{Subtask: e.Subtask, Attempt: a, Past: past}
}

// To moves the execution to another state, if that may follow.
func (e *Execution) To(s State) error {
	if !slices.Contains(next[e.State], s) {
		return fmt.Errorf("subtask %d of task %s in attempt %d: %s after %s", e.Subtask.Index, e.Subtask.Task, e.Attempt, s, e.State)
	}
	e.State = s
	return nil
}

// Fail moves the execution to Failed and keeps why.
func (e *Execution) Fail(cause error) error {
	if err := e.To(Failed); err != nil {
		return err
	}
	e.Err = cause.Error()
	return nil
}

// String returns a line for each task, with the number of its subtasks in each state.
func (g *ExecutionGraph) String() string {
	var b strings.Builder
	for _, t := range g.Job.Tasks {
		var count [len(next)]int
		for _, e := range g.Subtasks {
			if e.Subtask.Task == t.ID {
				count[e.State]++
			}
		}
		b.WriteString(t.Name)
		for s, n := range count {
			if n > 0 {
				fmt.Fprintf(&b, "  %d %s", n, State(s))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
