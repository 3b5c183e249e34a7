// Package operator is what runs inside a subtask: a chain of operators that hand
// batches to each other by direct, typed calls.
//
//	Inbox ──► head ──► operator ──┬─► operator ──► Router ──► channels
//	                              └─► Router ──► channels
//
// An operator reads the batch that it is given, appends what it emits to its
// Output, and flushes that before it returns, so that between two calls of the
// head nothing is under way inside the chain. Only the routers at its ends
// collect records until a batch is worth sending. The typed parts are put
// together once per subtask, as any; what each of them asserts is said there.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/metric"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// BatchSize is how many records a full batch holds where nothing else is asked for.
const BatchSize = 2048

// A Receiver takes a batch and is done with it when it returns.
type Receiver[T any] func(b *record.Batch[T])

// A Spec says how to make one operator of a job. Package weir writes it, where
// the types are known; it is used once per subtask.
type Spec struct {
	// Out is the type of the records that the operator emits; nil if it emits none.
	Out record.Type
	// Sides holds the types of the side outputs that are read, by tag.
	Sides map[string]record.Type
	// Open makes the operator in one subtask. Next holds, for each edge that
	// leaves it, a Receiver[O] as any, or a Side. An operator that comes with an
	// error is closed, and nothing else.
	Open func(c *Context, next []any) (Operator, error)
}

// Type returns the type of the records on an edge that carries the side output of
// tag, or the main output if tag is empty.
func (s *Spec) Type(tag string) record.Type {
	if tag == "" {
		return s.Out
	}
	return s.Sides[tag]
}

// An Edge says how records leave for another task.
type Edge struct {
	// Route makes the router of one subtask over the channels to the receiving subtasks.
	Route func(r Routing) Router
}

// An Operator is one operator of a chain at work in one subtask. All methods are
// called by the subtask's goroutine.
type Operator interface {
	// Receiver returns a Receiver of the operator's input, as any; nil for a source.
	Receiver() any
	// Slice processes some records of a batch from the inbox, and Length says how
	// many a batch has; they are called on heads only.
	Slice(batch any, from, to int)
	Length(batch any) int
	// End is called once when the input has ended; the operator may still emit.
	End()
	// Freeze takes the operator's state as it is now. It must be fast. An error
	// makes the subtask decline the checkpoint and the job goes on.
	Freeze(b record.Barrier) (Part, error)
	// Completed says that a checkpoint, and so each older one, is complete.
	Completed(checkpoint uint64)
	// Err returns the first error of the operator's state, nil if there is none.
	Err() error
	Close() error
}

// A Part is an operator's state, frozen at a barrier.
type Part interface {
	// Capture copies some of the state, about as many entries as the budget says;
	// the subtask calls it between slices until it says done.
	Capture(budget int) (done bool)
	// Write stores what was captured. It may run on any goroutine, and may be slow.
	Write(ctx context.Context, to state.Target) (snapshot.State, error)
	// Drop ends the capturing of what won't be written; the subtask calls it.
	Drop()
}

// Context is an operator's situation in one subtask.
type Context struct {
	context.Context // ends with the attempt
	Chain           *Chain
	Executor        executor.Executor
	Operator        graph.ID
	Name            string // how the user calls it: its uid, or the generated name
	Index           int    // of the subtask
	Degree          int    // parallelism
	MaxParallelism  int
	Job             string // id
	AttemptName     string
	Checkpoint      uint64          // number of the one that the job is restored from, 0 if none
	Restored        *snapshot.State // what the operator gets of it; nil if it isn't in it
	Origin          state.Origin    // of the files of Restored
	lists           *state.Lists    // nil until they are asked for
	DropUnclaimed   bool            // states that are stored and not declared any more
	Backend         state.Backend
	Logger          *slog.Logger
	Records         metric.Counter // taken in, or read from a source
	BatchSize       int            // records in a full batch; 0: BatchSize
}

func (c *Context) batchSize() int { return cmp.Or(c.BatchSize, BatchSize) }

// Subtask, Parallelism, JobID, Attempt and Log make a Context the connector's
// Reading and Writing.
func (c *Context) Subtask() int      { return c.Index }
func (c *Context) Parallelism() int  { return c.Degree }
func (c *Context) JobID() string     { return c.Job }
func (c *Context) Attempt() string   { return c.AttemptName }
func (c *Context) Log() *slog.Logger { return c.Logger }

// Chain is what the operators of one subtask have in common.
type Chain struct {
	err    error
	halted atomic.Bool
	at     atomic.Pointer[Context] // the operator at work, for whoever recovers a panic or can't wait any more
}

// Halt ends the chain from outside: what operators emit from now on is dropped.
func (c *Chain) Halt() { c.halted.Store(true) }

// passes reports whether what is emitted is passed on.
func (c *Chain) passes() bool { return c.err == nil && !c.halted.Load() }

// Fail notes the first error of the chain. Operators go on to the end of the
// slice as well as they can; what they emit is dropped.
func (c *Chain) Fail(operator string, err error) {
	if c.err == nil {
		c.err = fmt.Errorf("operator %q: %w", operator, err)
	}
}

var errHalted = errors.New("halted")

// Err returns the first error.
func (c *Chain) Err() error {
	if c.err == nil && c.halted.Load() {
		return errHalted
	}
	return c.err
}

// At returns the operator that is, or was last, at work. It may be called from
// any goroutine.
func (c *Chain) At() string {
	if at := c.at.Load(); at != nil {
		return at.Name
	}
	return ""
}

// Caught is deferred around calls of user functions. If they haven't returned it
// calls f with what their panic said, and the stack of where it came from. Ending
// the goroutine (runtime.Goexit, as a test's FailNow does) counts as a panic.
func Caught(returned *bool, f func(what any, stack string)) {
	if *returned {
		return
	}
	what := recover()
	if what == nil {
		what = "it ended its goroutine"
	}
	f(what, string(debug.Stack()))
}

// Enter notes that an operator is at work and returns who was; the caller puts
// that back when it returns. A panic leaves the name of the innermost.
func (c *Chain) Enter(operator *Context) (outer *Context) {
	outer = c.at.Load()
	c.at.Store(operator)
	return outer
}

// Whole is a Part that needs no capturing: its state is in hand already.
type Whole snapshot.State

// Capture implements Part.
func (Whole) Capture(int) bool { return true }

// Write implements Part.
func (w Whole) Write(context.Context, state.Target) (snapshot.State, error) {
	return snapshot.State(w), nil
}

// Drop implements Part.
func (Whole) Drop() {}
