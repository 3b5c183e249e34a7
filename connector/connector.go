// Package connector is the contract between the engine and what stands at the
// ends of a job: sources that can be read again from a position, and sinks that
// commit what a checkpoint holds.
package connector

import (
	"context"
	"log/slog"

	"github.com/weirstream/weir/record"
)

// A Source is read in splits. A split S is a plain struct that holds what to
// read and how far it has been read; the engine stores it in every checkpoint.
// Enumerate finds the splits, in one place for the whole job; readers, one in
// each subtask, read them.
type Source[T, S any] interface {
	// Enumerate finds splits and assigns them. It runs in a goroutine of its own
	// beside the job master, once per attempt; after a restore it is called only
	// if it hadn't been done before the checkpoint. Returning nil means Done. An
	// error fails the attempt. When ctx ends it returns soon.
	Enumerate(ctx context.Context, e Enumeration[S]) error
	// Open makes the reader of one subtask.
	Open(ctx context.Context, r Reading) (Reader[T, S], error)
}

// An Enumeration is what an enumerator works with. Its methods may be called
// from the goroutine of Enumerate only.
type Enumeration[S any] interface {
	// Position returns what was last given to Save before the checkpoint from
	// which the job was restored, nil if there is none.
	Position() []byte
	// Assign stages splits for the readers. They are handed out, and in a
	// checkpoint, from the next Save or Done on, all at once.
	Assign(splits ...S)
	// Save hands out what was staged; from now on a restored Enumerate goes on
	// from position.
	Save(position []byte)
	// SetBacklog says whether the source is catching up, as one is that reads what has
	// gathered before it follows what comes now. Nothing waits for its records then,
	// and checkpoints come at execution.checkpointing.interval-during-backlog. It
	// isn't before it says so, in each attempt anew, nor behind Done.
	SetBacklog(behind bool)
	// Done hands out what was staged and says that there will be no more.
	Done()
	// Parallelism is the number of readers.
	Parallelism() int
	Log() *slog.Logger
}

// A Reader reads splits in one subtask, one call at a time, on a goroutine of
// its own beside the subtask.
type Reader[T, S any] interface {
	// Read appends some records of split *at to into, and moves *at past them.
	// It returns soon once it has at least one record, and at latest when ctx
	// ends, with the context's error. io.EOF means that the split is at its end;
	// records may come with it. Any other error fails the attempt. Into has room
	// for as many records as its capacity says; more are taken, but a reader
	// stops there if it can.
	Read(ctx context.Context, at *S, into *record.Batch[T]) error
	Close() error
}

// Reading is the situation of one reader.
type Reading interface {
	Subtask() int
	Parallelism() int
	Log() *slog.Logger
}

// Bounded is implemented by sources that end. A source without it is taken as
// one that never does.
type Bounded interface{ Bounded() bool }

// Lossy is implemented by sources that can't be read again from a position: after
// a restart their readers go on with whatever comes next, and what they had read
// since the checkpoint is lost.
type Lossy interface{ Lossy() bool }

// Checked is implemented by sources and sinks that find mistakes in their settings
// when the job is built. Check opens nothing. Its error, which may join several, is
// reported with all other mistakes of the job.
type Checked interface{ Check() error }

// A Guarantee is what a sink promises when the job restarts.
type Guarantee int

// Guarantees, weakest first.
const (
	Nothing     Guarantee = iota // records may be lost
	LeastOnce                    // records may be written twice
	OnceExactly                  // each record's effect is there once
)

func (g Guarantee) String() string {
	return [...]string{"no guarantee", "at least once", "exactly once"}[g]
}

// AtLeastOnce is embedded by sinks that may write a record twice.
type AtLeastOnce struct{}

// Guarantee implements Sink.
func (AtLeastOnce) Guarantee() Guarantee { return LeastOnce }

// ExactlyOnce is embedded by sinks whose committed output holds each record once.
type ExactlyOnce struct{}

// Guarantee implements Sink.
func (ExactlyOnce) Guarantee() Guarantee { return OnceExactly }

// A Sink writes records by one writer per subtask. A committable C is a plain
// struct that says what a writer has prepared; sinks that have nothing to
// commit use None.
type Sink[T, C any] interface {
	Guarantee() Guarantee
	// Open makes the writer of one subtask, before its first record.
	Open(ctx context.Context, w Writing) (Writer[T, C], error)
}

// None is the committable of sinks that don't commit.
type None struct{}

// A Writer writes in one subtask. Its methods are called one at a time.
type Writer[T, C any] interface {
	// Write takes the records; it doesn't keep the batch. An error fails the attempt.
	Write(ctx context.Context, b *record.Batch[T]) error
	// Prepare is called at every barrier and at the end of input. What was
	// written before it is safe to commit later, by anyone who has the
	// committables, when Prepare returns: synced, flushed, acknowledged. After an
	// error the checkpoint fails, the job goes on, and the writer still holds
	// everything for the next Prepare. Nothing written means no committables.
	Prepare(ctx context.Context) ([]C, error)
	// Close is called once, however the attempt ended. What wasn't prepared is
	// not committed.
	Close() error
}

// Writing is the situation of one writer.
type Writing interface {
	Subtask() int
	Parallelism() int
	// JobID is 32 hexadecimal digits; it stays the same when the job is resumed.
	JobID() string
	// Attempt names this run of the subtask; no other attempt of the same job
	// has the same, not even in another process. Letters and digits.
	Attempt() string
	Log() *slog.Logger
}

// Committing is implemented by sinks with committables: its committer is the
// sink's one part per attempt beside the job master.
type Committing[C any] interface {
	// OpenCommitter is called before any writer of the attempt is opened. It
	// claims the target, if that must not have two owners.
	OpenCommitter(ctx context.Context, c Commitment) (Committer[C], error)
}

// A Committer makes prepared output visible. Its methods are called one at a
// time, and never while another attempt of the same job has a committer open.
type Committer[C any] interface {
	// Recover is called once, first: it commits what the restored checkpoint
	// lists, in the order given, and removes what dead attempts of this job
	// (and of the job it was restored from) left and the list doesn't name.
	Recover(ctx context.Context, pending []Committable[C]) error
	// Commit is called after each completed checkpoint with what that made due,
	// in order. What has been committed before may come again. An error fails
	// the attempt; after the restart the same comes to Recover.
	Commit(ctx context.Context, due []Committable[C]) error
	Close() error
}

// A Committable is something prepared, and by whom, before which checkpoint.
type Committable[C any] struct {
	Checkpoint uint64
	Subtask    int
	Value      C
}

// Commitment is the situation of a committer.
type Commitment interface {
	JobID() string
	// RestoredJobID is the id of the job whose checkpoint this one was started
	// from; the same as JobID when it was resumed, empty when there is none.
	RestoredJobID() string
	// RestoredCheckpoint is the number of that checkpoint, 0 if there is none.
	RestoredCheckpoint() uint64
	// Attempt is as in Writing.
	Attempt() string
	Log() *slog.Logger
}
