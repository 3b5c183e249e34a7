package graph

import (
	"errors"
	"testing"
)

func execution(t *testing.T) *ExecutionGraph {
	t.Helper()
	job, _, err := Build(StreamGraph{Nodes: []Node{{UID: "lines", Kind: Source, Parallelism: 2}}}, Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	return NewExecution(job)
}

func TestSubtaskGoesThroughItsStates(t *testing.T) {
	for _, path := range [][]State{
		{Deploying, Initializing, Running, Finished},
		{Deploying, Initializing, Running, Finished, Canceling, Canceled},
		{Deploying, Canceling, Canceled},
		{Deploying, Initializing, Canceling, Failed},
		{Canceled},
		{Failed},
	} {
		e := execution(t).Subtasks[1]
		for _, s := range path {
			if err := e.To(s); err != nil {
				t.Errorf("%v: %v", path, err)
			}
		}
	}
}

func TestSubtaskSkipsNoState(t *testing.T) {
	for from, to := range map[State]State{
		Created: Running, Deploying: Running, Running: Canceled, Finished: Running, Canceling: Running, Canceled: Failed, Failed: Created,
	} {
		e := Execution{State: from}
		if err := e.To(to); err == nil || e.State != from {
			t.Errorf("%s after %s: got %v and state %s", to, from, err, e.State)
		}
	}
}

func TestRestartRemembersTheLastAttempts(t *testing.T) {
	g := execution(t)
	lines := g.Job.Tasks[0].ID
	for a := Attempt(2); a <= 20; a++ {
		if err := g.Find(Subtask{lines, 1}).Fail(errors.New("disk full")); err != nil {
			t.Fatal(err)
		}
		g.Restart(a)
	}
	e := g.Find(Subtask{lines, 1})
	if e.Attempt != 20 || e.State != Created || e.Err != "" {
		t.Errorf("got %+v, want a fresh attempt 20", e)
	}
	if last := (Past{19, Failed, "disk full"}); len(e.Past) != 16 || e.Past[0].Attempt != 4 || e.Past[15] != last {
		t.Errorf("got %v, want attempts 4 to 19", e.Past)
	}
	if other := g.Subtasks[0].Past[15]; other != (Past{19, Created, ""}) {
		t.Errorf("got %v for the other subtask", other)
	}
	if g.Find(Subtask{lines, 2}) != nil {
		t.Error("found a subtask that isn't there")
	}
}

func TestExecutionGraphReadsWell(t *testing.T) {
	g := execution(t)
	if err := g.Subtasks[1].To(Deploying); err != nil {
		t.Fatal(err)
	}
	if got, want := g.String(), "Source: lines  1 CREATED  1 DEPLOYING\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
