package weir

import (
	"time"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
)

// CheckpointStatistics is what there is to tell about the checkpoints of a job in
// this process, its savepoints among them. They begin anew with a process.
type CheckpointStatistics struct {
	Restored   int // how often an attempt to run the job began from a checkpoint
	Triggered  int // Completed, Failed and InProgress together
	InProgress int
	Completed  int
	Failed     int

	Summary CheckpointSummary

	// The newest of their kind, nil where there is none.
	LatestCompleted *CheckpointDetails // no savepoint
	LatestSavepoint *CheckpointDetails
	LatestFailed    *CheckpointDetails
	LatestRestore   *CheckpointRestore

	// History holds those begun last, the newest first, in progress or ended:
	// as many as web.checkpoints.history says.
	History []CheckpointDetails
}

// CheckpointDetails is the story of one checkpoint.
type CheckpointDetails struct {
	Number    uint64
	Status    string    // as Flink names it: "IN_PROGRESS", "COMPLETED" or "FAILED"
	Kind      string    // "checkpoint", "savepoint", "stop" for the savepoint of a Stop, or "final" for the last one
	Triggered time.Time // when it began
	LatestAck time.Time // zero: no subtask has acknowledged it yet
	Ended     time.Time // when it was stored or given up; zero: it is in progress
	// Duration is from Triggered to LatestAck, or, if it has failed, to Ended; 0
	// before the first acknowledgement.
	Duration  time.Duration
	StateSize int64 // bytes that it holds, as far as they are acknowledged
	// CheckpointedSize is how many bytes of these were written for it, and not for
	// an older one.
	CheckpointedSize int64
	Path             string // the URI of its directory, once it is complete; empty in memory
	Discarded        bool   // it was complete, and newer ones have taken its place
	Failure          string // empty: it hasn't failed
	Subtasks         int    // how many have to acknowledge it
	Acknowledged     int    // how many have
	Tasks            []TaskCheckpoint
}

// TaskCheckpoint is the part of one task in a checkpoint.
type TaskCheckpoint struct {
	ID               string // of the task: 32 hexadecimal digits
	Name             string
	LatestAck        time.Time     // zero: none has come yet
	Duration         time.Duration // from the checkpoint's beginning to LatestAck
	StateSize        int64
	CheckpointedSize int64
	Acknowledged     int                 // how many of Subtasks have
	Subtasks         []SubtaskCheckpoint // by their index
}

// SubtaskCheckpoint is the part of one subtask in a checkpoint; zero, as long as it
// hasn't acknowledged it.
type SubtaskCheckpoint struct {
	Acknowledged     time.Time
	Duration         time.Duration // from the checkpoint's beginning to then
	StateSize        int64
	CheckpointedSize int64
	StartDelay       time.Duration // from the checkpoint's beginning until its first barrier was there
	Alignment        time.Duration // from then until the last one was
	Sync             time.Duration // of freezing the state, when no record is taken
	Async            time.Duration // from then until everything was written
}

// CheckpointRestore is that an attempt to run the job began from a checkpoint.
type CheckpointRestore struct {
	Number    uint64
	Savepoint bool
	At        time.Time
	Path      string // the URI of its directory, empty in memory
}

// CheckpointSummary is over the completed checkpoints of this process. Figures of
// subtasks are the slowest one's of each.
type CheckpointSummary struct {
	Duration         Distribution[time.Duration]
	StateSize        Distribution[int64]
	CheckpointedSize Distribution[int64]
	StartDelay       Distribution[time.Duration]
	Alignment        Distribution[time.Duration]
	Sync             Distribution[time.Duration]
	Async            Distribution[time.Duration]
}

// A Distribution says how values lie; it is zero where there are none. Its quantiles
// are those of the last ten thousand.
type Distribution[N int64 | time.Duration] struct {
	Min, Max, Average        N
	P50, P90, P95, P99, P999 N
}

// Checkpoints says what has become of the job's checkpoints.
func (r *Running) Checkpoints() CheckpointStatistics {
	c := r.master.Checkpoints()
	sum, latest := c.Summary(), c.Latest
	s := CheckpointStatistics{
		Restored: c.Restores, Triggered: c.Triggered, InProgress: c.InProgress, Completed: c.Completed, Failed: c.Failed,
		Summary: CheckpointSummary{
			distribution[time.Duration](sum.Duration), distribution[int64](sum.State), distribution[int64](sum.Written),
			distribution[time.Duration](sum.StartDelay), distribution[time.Duration](sum.Alignment),
			distribution[time.Duration](sum.Sync), distribution[time.Duration](sum.Async),
		},
		LatestCompleted: r.latest(latest.Completed), LatestSavepoint: r.latest(latest.Savepoint), LatestFailed: r.latest(latest.Failed),
	}
	if c.Restores > 0 {
		s.LatestRestore = &CheckpointRestore{c.Restored.Checkpoint, c.Restored.Savepoint, c.Restored.At, c.Restored.Dir}
	}
	for i := len(c.History) - 1; i >= 0; i-- {
		s.History = append(s.History, r.details(c.History[i]))
	}
	return s
}

func distribution[N int64 | time.Duration](d checkpoint.Distribution) Distribution[N] {
	return Distribution[N]{N(d.Min), N(d.Max), N(d.Average), N(d.P50), N(d.P90), N(d.P95), N(d.P99), N(d.P999)}
}

func (r *Running) latest(of checkpoint.Record) *CheckpointDetails {
	if of.Checkpoint == 0 {
		return nil
	}
	d := r.details(of)
	return &d
}

func (r *Running) details(of checkpoint.Record) CheckpointDetails {
	d := CheckpointDetails{
		Number: of.Checkpoint, Status: "COMPLETED", Kind: "checkpoint",
		Triggered: of.Began, LatestAck: of.Acked, Ended: of.Ended,
		StateSize: of.State, CheckpointedSize: of.Written,
		Path: of.Dir, Discarded: of.Discarded, Failure: of.Failure,
		Subtasks: of.Subtasks, Acknowledged: len(of.Parts), Tasks: r.tasks(of),
	}
	switch {
	case of.Stops:
		d.Kind = "stop"
	case of.Savepoint:
		d.Kind = "savepoint"
	case of.Final:
		d.Kind = "final"
	}
	switch {
	case of.Failure != "":
		d.Status, d.Duration = "FAILED", of.Ended.Sub(of.Began)
		return d
	case of.Ended.IsZero():
		d.Status = "IN_PROGRESS"
	}
	if d.Acknowledged > 0 {
		d.Duration = of.Acked.Sub(of.Began)
	}
	return d
}

// tasks sorts the parts of subtasks by their tasks.
func (r *Running) tasks(of checkpoint.Record) []TaskCheckpoint {
	tasks, at := make([]TaskCheckpoint, len(r.plan.graph.Tasks)), map[graph.ID]*TaskCheckpoint{}
	for i, t := range r.plan.graph.Tasks {
		tasks[i] = TaskCheckpoint{ID: t.ID.String(), Name: t.Name, Subtasks: make([]SubtaskCheckpoint, t.Parallelism)}
		at[t.ID] = &tasks[i]
	}
	for _, p := range of.Parts { // the last one to acknowledge comes last
		t, took := at[p.Subtask.Task], p.Acked.Sub(of.Began)
		t.LatestAck, t.Duration = p.Acked, took
		t.StateSize += p.State
		t.CheckpointedSize += p.Written
		t.Acknowledged++
		t.Subtasks[p.Subtask.Index] = SubtaskCheckpoint{p.Acked, took, p.State, p.Written, p.StartDelay, p.Alignment, p.Sync, p.Async}
	}
	return tasks
}
