// Package run keeps the book of the runs of jobs that share a checkpoint
// directory, so that "go on with the latest" is a safe thing to say.
//
//	<dir>/.runs/00000007-<job id>.3    the third version of the seventh run's record
//	<dir>/<job id>/                    the run's own directory, locked while it is alive
//
// The directory of a run that is flat is <dir> itself.
//
// A run is found by the name of its job; the newest is the one that began last.
// A record is never changed: a new version is written beside it, whole or not at
// all, and the older ones are removed afterwards. Only who holds the lock on a
// run's directory writes its record.
package run

import (
	"errors"
	"fmt"
	"time"
)

// A Run is one job at work under one id, however often its process is started.
type Run struct {
	Job       string    `json:"job"`            // the job's name
	ID        string    `json:"id"`             // 32 hexadecimal digits
	Started   time.Time `json:"started"`        // when it began, for people: clocks don't order runs
	Starts    int       `json:"starts"`         // how often it has been started, resumptions included
	Flat      bool      `json:"flat,omitempty"` // its checkpoints lie in the checkpoint directory itself
	From      Origin    `json:"from,omitzero"`
	Savepoint Savepoint `json:"savepoint,omitzero"`
	End       End       `json:"end,omitempty"`
	Detail    string    `json:"detail,omitempty"` // of the end: the savepoint that it was stopped with, the error
}

// Dir returns the run's own directory, given that of the book.
func (r Run) Dir(dir string) string {
	if r.Flat {
		return dir
	}
	return dir + "/" + r.ID
}

// An Origin is the checkpoint that a run was started from; zero: it began at the
// beginning. Of one that is claimed, which the run deletes when it doesn't need it
// any more, there is what tells it from every other.
type Origin struct {
	Path       string    `json:"path"`
	Claimed    bool      `json:"claimed,omitempty"`
	Checkpoint uint64    `json:"checkpoint,omitempty"`
	JobID      string    `json:"job_id,omitempty"`
	Taken      time.Time `json:"taken,omitzero"`
}

// A Savepoint is one of the run that it goes on from, unless there is a newer
// checkpoint; zero: there is none.
type Savepoint struct {
	Path       string `json:"path"`
	Checkpoint uint64 `json:"checkpoint"` // its number
	// Committed says that outputs were committed for it, or may have been, so that
	// the run can't go on from anything older.
	Committed bool `json:"committed"`
}

// An End is how a run ended. It is empty while the run is alive, and stays empty
// if its process was killed.
type End string

// Finished, Cancelled and Stopped are for good; a run that Failed or was
// Suspended may go on.
const (
	Finished  End = "finished"
	Cancelled End = "cancelled"
	Stopped   End = "stopped" // with a savepoint
	Failed    End = "failed"
	Suspended End = "suspended"
)

var (
	// ErrNone says that the job has no run in this directory.
	ErrNone = errors.New("it has none")
	// ErrAlive says that another process runs it.
	ErrAlive = errors.New("it is alive")
	// ErrFinished says that there is nothing left to do.
	ErrFinished = errors.New("it has finished")
	// ErrCancelled says that it was given up.
	ErrCancelled = errors.New("it was cancelled")
	// ErrStopped says that it goes on as a new run, from its savepoint.
	ErrStopped = errors.New("it was stopped with a savepoint")
)

// over returns why a run can't go on, nil if it can.
func (r Run) over() error {
	switch r.End {
	case "", Failed, Suspended:
		return nil
	case Finished:
		return ErrFinished
	case Cancelled:
		return ErrCancelled
	case Stopped:
		return fmt.Errorf("%w; start a new one from it with -s %s", ErrStopped, r.Detail)
	}
	return fmt.Errorf("it has ended in a way that this program doesn't know: %q", r.End)
}
