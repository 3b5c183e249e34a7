// Package control is what the job master and its workers say to each other.
//
// Every message carries the attempt that it belongs to; whoever gets one of
// another attempt drops it. Messages on one line keep their order. Trigger, Ack,
// Decline, Complete, Abort, Request, Assign and Ended may be lost, late or
// repeated, and the job is none the worse for it; when one of the others can't
// be delivered, the worker is lost, and with it the attempt.
package control

import (
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
)

// Command is a message from the job master to a worker: Deploy, Start, Trigger,
// Complete, Abort, Assign, Pause, Drain, Finish or Stop.
type Command interface{ command() graph.Attempt }

// Report is a message from a worker to the job master: Ready, Request, Ack,
// Decline, Ended, Failed, Overdue or Stopped.
type Report interface{ report() graph.Attempt }

type (
	// Deploy tells a worker to open a subtask. It answers Ready or Failed.
	Deploy struct {
		Attempt graph.Attempt
		Name    string // of the attempt: unique across processes (connector.Writing.Attempt)
		Subtask graph.Subtask
		// Restored is what each operator of the chain starts from; an operator
		// that isn't in it starts empty.
		Restored map[graph.ID]snapshot.State
		// From is the URI of the directory that the files of Restored are relative to.
		From string
		// Checkpoint is the number of the restored checkpoint, 0 if none.
		Checkpoint uint64
		// MaxParallelism is that of every operator of the job: its number of key
		// groups. Restored state can make it another than the graph's.
		MaxParallelism map[graph.ID]int
	}
	// Start lets the subtasks take records: all are ready, and what was pending
	// is committed. After Pause it lets the sources go on.
	Start struct {
		Attempt graph.Attempt
	}
	// Pause has the sources take no more records until Start.
	Pause struct {
		Attempt graph.Attempt
	}
	// Drain ends the input of the sources where they are. Each answers Ended.
	Drain struct {
		Attempt graph.Attempt
	}
	// Trigger puts a barrier into the source subtasks.
	Trigger struct {
		Attempt graph.Attempt
		Barrier record.Barrier
		// Target is the URI of the directory that the checkpoint's files go to; empty:
		// they are kept in memory.
		Target string
		// Assigned is, for each source subtask, how many Assigns it must have seen:
		// those made before the enumerators' part of this checkpoint was taken.
		Assigned map[graph.Subtask]uint64
	}
	// Complete says that a checkpoint, and so every older one, is complete.
	Complete struct {
		Attempt    graph.Attempt
		Checkpoint uint64
	}
	// Abort says that a checkpoint won't be completed.
	Abort struct {
		Attempt    graph.Attempt
		Checkpoint uint64
	}
	// Assign answers a Request, with splits or with the word that there are no
	// more. Splits that were assigned after the enumerators' part of checkpoint
	// After was taken belong behind its barrier: the subtask holds them back
	// until it has sent that barrier, or a newer one, or been told of its abort.
	Assign struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
		Request uint64
		Splits  [][]byte
		NoMore  bool
		After   uint64
	}
	// Finish lets the subtasks close: the job has ended and everything is
	// committed. Each answers Stopped, unless it has said so.
	Finish struct {
		Attempt graph.Attempt
	}
	// Stop tells a worker to end its subtasks at once. Each answers Stopped, unless
	// it has said so.
	Stop struct {
		Attempt graph.Attempt
	}
)

type (
	// Ready says that a subtask has been opened and has loaded its state.
	Ready struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
	}
	// Request asks for a split. Requests of a subtask are numbered from 1; one
	// that isn't answered is repeated, and a repeated one gets the same answer.
	Request struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
		Request uint64
	}
	// Ack says that a subtask's part of a checkpoint is safe in storage.
	Ack struct {
		Attempt    graph.Attempt
		Subtask    graph.Subtask
		Checkpoint uint64
		State      snapshot.Task
		Measures   snapshot.Measures
	}
	// Decline says that a subtask can't take part in a checkpoint.
	Decline struct {
		Attempt    graph.Attempt
		Subtask    graph.Subtask
		Checkpoint uint64
		Reason     string
		NotReady   bool // the subtask is starting or stopping, or waits for an Assign: no failure that counts
	}
	// Ended says that a subtask's input has ended and that it has emitted
	// everything. It stays and answers barriers until Finish. It is repeated
	// until then.
	Ended struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
	}
	// Failed says that a subtask has failed and closes itself; Stopped follows.
	Failed struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
		Err     error
		Stack   string // of a panic
		Final   bool   // no other attempt would do better
	}
	// Overdue says that a subtask that was told to stop doesn't, because a function
	// of the user doesn't return. It won't do anything any more, and may still stop.
	Overdue struct {
		Attempt  graph.Attempt
		Subtask  graph.Subtask
		Operator string
		Stack    string // of the function
	}
	// Stopped says that a subtask is closed: nothing of it runs any more.
	Stopped struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
	}
)

func (m Deploy) command() graph.Attempt   { return m.Attempt }
func (m Start) command() graph.Attempt    { return m.Attempt }
func (m Trigger) command() graph.Attempt  { return m.Attempt }
func (m Complete) command() graph.Attempt { return m.Attempt }
func (m Abort) command() graph.Attempt    { return m.Attempt }
func (m Assign) command() graph.Attempt   { return m.Attempt }
func (m Pause) command() graph.Attempt    { return m.Attempt }
func (m Drain) command() graph.Attempt    { return m.Attempt }
func (m Finish) command() graph.Attempt   { return m.Attempt }
func (m Stop) command() graph.Attempt     { return m.Attempt }

func (m Ready) report() graph.Attempt   { return m.Attempt }
func (m Request) report() graph.Attempt { return m.Attempt }
func (m Ack) report() graph.Attempt     { return m.Attempt }
func (m Decline) report() graph.Attempt { return m.Attempt }
func (m Ended) report() graph.Attempt   { return m.Attempt }
func (m Failed) report() graph.Attempt  { return m.Attempt }
func (m Overdue) report() graph.Attempt { return m.Attempt }
func (m Stopped) report() graph.Attempt { return m.Attempt }

// AttemptOf returns the attempt that a Command or Report belongs to.
func AttemptOf(m any) graph.Attempt {
	switch m := m.(type) {
	case Command:
		return m.command()
	case Report:
		return m.report()
	}
	return 0
}
