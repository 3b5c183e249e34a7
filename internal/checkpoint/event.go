package checkpoint

import (
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
)

// Event is something that happened: to time a Tick; wanted by the
// user a Request or a Stop; to an attempt Started, Stopped, Backlog, or Ended;
// said by a subtask Ack or Decline; done, or not, by the
// driver Enumerated, Stored, Failed, or Committed.
type Event interface{ event() }

// Action is something to do: Pause, Drain, Resume, Enumerate, Trigger, Store,
// Commit, Notify, Abort, Discard, Release, Answer, FailAttempt, or Finish.
type Action interface{ action() }

type (
	// Tick says that time has passed.
	Tick struct{}
	// Request asks for a checkpoint, or a savepoint, beside the periodic ones. It
	// is answered once.
	Request struct {
		ID        uint64 // not 0
		Savepoint bool
	}
	// Stop asks for a savepoint and then for the end of the job. It is answered once,
	// when the job has finished, or goes on.
	Stop struct {
		ID    uint64 // not 0
		Drain bool   // the input ends first, and operators hear so
	}
	// Started says that all subtasks of an attempt run.
	Started struct {
		Attempt  graph.Attempt
		Subtasks []graph.Subtask
		// Restored is the number of the checkpoint that the attempt began from, 0
		// if none.
		Restored uint64
		Behind   []graph.ID // sources that are catching up
		// Delay is the time to the first periodic checkpoint. At random between
		// MinPause and Interval, so that jobs don't all checkpoint at once.
		Delay time.Duration
	}
	// Stopped says that an attempt has failed or is being suspended.
	Stopped struct{ Attempt graph.Attempt }
	// Backlog says whether a source is catching up.
	Backlog struct {
		Attempt graph.Attempt
		Source  graph.ID
		Behind  bool
	}
	// Ended says that a subtask's input has ended.
	Ended struct {
		Attempt graph.Attempt
		Subtask graph.Subtask
	}
	// Enumerated brings the parts of the sources' enumerators.
	Enumerated struct {
		Checkpoint uint64
		Parts      map[graph.ID]snapshot.Enumerator
	}
	// Ack says that a subtask's part is safe in storage.
	Ack struct {
		Attempt    graph.Attempt
		Subtask    graph.Subtask
		Checkpoint uint64
		State      snapshot.Task
		Measures   snapshot.Measures
	}
	// Decline says that a subtask can't take part.
	Decline struct {
		Attempt    graph.Attempt
		Subtask    graph.Subtask
		Checkpoint uint64
		Reason     string
		// NotReady says that the subtask is starting or stopping. Then the failure
		// counts for nothing.
		NotReady bool
	}
	// Stored says that a checkpoint's metadata is in storage.
	Stored struct {
		Checkpoint uint64
		Dir        string // the URI of its directory, empty in memory
	}
	// Failed says that the driver couldn't do its own part: enumerate, make a
	// place for the files, or store.
	Failed struct {
		Checkpoint uint64
		Reason     string
		// Unknown says that the metadata may be in storage all the same.
		Unknown bool
	}
	// Committed says that the sinks have committed what Commit asked for. When
	// they can't, the attempt fails.
	Committed struct{ Checkpoint uint64 }
)

type (
	// Pause has the sources take no more records.
	Pause struct{}
	// Drain has the sources end their input.
	Drain struct{}
	// Resume has the sources go on after Pause.
	Resume struct{}
	// Enumerate takes the parts of the sources' enumerators, where there are any.
	// The answer is Enumerated.
	Enumerate struct {
		Checkpoint uint64
		Savepoint  uint64 // the Request or Stop that it is for, if it is one
	}
	// Trigger sends a barrier into every source.
	Trigger struct{ Barrier record.Barrier }
	// Store writes the metadata of a checkpoint that every subtask has
	// acknowledged. The answer is Stored or Failed.
	Store struct {
		Barrier record.Barrier
		// Final says that nothing comes after it. Without an interval it needn't
		// outlive the process.
		Final       bool
		Enumerators map[graph.ID]snapshot.Enumerator
		Subtasks    map[graph.Subtask]snapshot.Task
	}
	// Commit has the sinks commit everything pending in a stored checkpoint, which
	// is everything pending in older ones, too. The answer is Committed.
	Commit struct{ Checkpoint uint64 }
	// Notify tells every subtask that a checkpoint is complete and committed.
	Notify struct{ Checkpoint uint64 }
	// Abort tells every subtask that a checkpoint won't be complete.
	Abort struct {
		Checkpoint uint64
		Reason     string
	}
	// Discard deletes a checkpoint and what only it needs: its metadata and all
	// that was acknowledged for it.
	Discard struct{ Checkpoint uint64 }
	// Release deletes what one subtask wrote for a checkpoint that is discarded.
	Release struct {
		Checkpoint uint64
		State      snapshot.Task
	}
	// Answer says what has become of a Request: which checkpoint is stored for it,
	// or why none is. That of a Stop may be both: its savepoint is stored, and the
	// job goes on all the same.
	Answer struct {
		ID         uint64
		Checkpoint uint64 // stored, if not 0
		Reason     string // empty: all that was asked for is done
	}
	// FailAttempt gives the attempt up. It counts as Stopped.
	FailAttempt struct{ Reason string }
	// Finish ends the job well: everything is stored and committed.
	Finish struct{}
)

func (Tick) event()       {}
func (Request) event()    {}
func (Stop) event()       {}
func (Started) event()    {}
func (Stopped) event()    {}
func (Backlog) event()    {}
func (Ended) event()      {}
func (Enumerated) event() {}
func (Ack) event()        {}
func (Decline) event()    {}
func (Stored) event()     {}
func (Failed) event()     {}
func (Committed) event()  {}

func (Pause) action()       {}
func (Drain) action()       {}
func (Resume) action()      {}
func (Enumerate) action()   {}
func (Trigger) action()     {}
func (Store) action()       {}
func (Commit) action()      {}
func (Notify) action()      {}
func (Abort) action()       {}
func (Discard) action()     {}
func (Release) action()     {}
func (Answer) action()      {}
func (FailAttempt) action() {}
func (Finish) action()      {}
