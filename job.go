package weir

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/commit"
	"github.com/weirstream/weir/internal/enumerate"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/state"
)

// A Job is what a program builds: streams and the operators between them, and
// settings. A setting that is left zero keeps what the configuration says.
type Job struct {
	// Name is how a run of the job is found again by -s latest. The default is
	// pipeline.name of the configuration, else the program's base name.
	Name string
	// Checkpoints says when checkpoints are taken and where they are kept.
	Checkpoints Checkpoints
	// Restart says what happens when the job fails.
	Restart Restart
	// State is where keyed state lives while the job runs. By default it is what
	// state.backend.type names in the configuration: heap.Backend, in memory.
	State state.Backend
	// Parallelism is the number of subtasks of operators that don't say their own.
	Parallelism int
	// From is where the job starts from: the path of a checkpoint, or Latest. It is
	// what the flag -s sets in programs; empty: from the beginning.
	From string
	// AllowNonRestored lets a job start from a checkpoint that holds state for which
	// it has no operator; that state is dropped. It is the flag -n of programs.
	AllowNonRestored bool
	// ChangeMaxParallelism lets operators have another MaxParallelism than the
	// checkpoint's from which the job starts. All keys are then hashed anew, which
	// takes every subtask of such an operator the time to read all its state.
	ChangeMaxParallelism bool
	// Claim says whose the checkpoint is from which the job starts. It is the flag
	// -claimMode of programs.
	Claim ClaimMode
	// BufferTimeout is how long a record may wait in a batch that isn't full.
	BufferTimeout time.Duration
	// Config holds further settings by their configuration keys.
	Config map[string]string

	graph graph.StreamGraph
	nodes []node          // in the graph's order
	edges []operator.Edge // in the graph's order
	errs  []error
}

// A ClaimMode says who owns the checkpoint or savepoint that a job starts from.
type ClaimMode string

// Claim modes. With NoClaim it stays its user's: the job deletes nothing of it, and
// needs nothing of it once it has completed a checkpoint of its own. With Claim it
// becomes a checkpoint of the job's: it counts among those kept, and is deleted when
// newer ones take its place, or when the job's last ones are; so no other job may be
// started from it, and checkpoints must not be kept in memory.
const (
	NoClaim ClaimMode = "NO_CLAIM"
	Claim   ClaimMode = "CLAIM"
)

// Latest, as Job.From or -s, resumes the newest run of the job's name.
const Latest = "latest"

// Checkpoints are the settings of a job's checkpoints and savepoints. A field that is
// left zero keeps what the configuration says. Directories are URIs, sizes in bytes.
type Checkpoints struct {
	// Interval is the time from the start of one checkpoint to the start of the next.
	// There are none without it, and none with -1, whatever the configuration says.
	Interval time.Duration
	// BacklogInterval takes its place while a source says that it is catching up. It is
	// not shorter; -1: there are none meanwhile.
	BacklogInterval time.Duration
	Mode            Mode
	Timeout         time.Duration
	MinPause        time.Duration // from the end of one to the start of the next
	Concurrent      int           // how many may be under way at once
	// TolerableFailures is how many may fail in a row before the job restarts.
	TolerableFailures int
	// NotAfterTasksFinish ends checkpoints as soon as a part of the job has ended; there
	// is no final one either.
	NotAfterTasksFinish bool

	Storage   Storage
	Dir       string // without it checkpoints are kept in memory
	NoSubdir  bool   // they lie in Dir itself, which is no other job's then
	Retained  int    // how many are kept
	Retention Retention
	// InlineBytes is the size below which state lies in a checkpoint's metadata.
	InlineBytes int
	BufferBytes int  // of the buffer before a file
	AckBytes    int  // that a subtask may say of a checkpoint in memory
	Compress    bool // keyed state, with zstd
	// Incremental has a checkpoint write only what has changed since the one before. It
	// isn't built yet, and the log says so.
	Incremental bool

	SavepointDir     string // where savepoints go that are asked for without a directory
	SavepointTimeout time.Duration

	// NoFallback lets a job fail whose newest checkpoint is damaged, rather than go on
	// from the one before.
	NoFallback bool
	// PreferSavepoint has a restart go on from the job's own savepoint, if that is newer
	// than its newest checkpoint.
	PreferSavepoint bool
	// LocalRecovery keeps copies of state in LocalDirs, on the machine that it is used
	// on. It isn't built yet, and the log says so.
	LocalRecovery bool
	LocalDirs     []string
}

// Mode says how often a record counts after a restart.
type Mode string

// Modes. ExactlyOnce, the default, has a subtask wait until the barriers of all its
// inputs are there. AtLeastOnce never waits: what comes in the meantime is in the
// checkpoint and is read again after a restart, so that it may count twice.
const (
	ExactlyOnce Mode = "EXACTLY_ONCE"
	AtLeastOnce Mode = "AT_LEAST_ONCE"
)

// Retention says which checkpoints stay when a job is cancelled. When it
// finishes they go, when it fails or is suspended they stay.
type Retention string

// Retentions. NotExternalized, the default, keeps as little as DeleteOnCancel.
const (
	NotExternalized Retention = "NO_EXTERNALIZED_CHECKPOINTS"
	DeleteOnCancel  Retention = "DELETE_ON_CANCELLATION"
	RetainOnCancel  Retention = "RETAIN_ON_CANCELLATION"
)

// Storage says where checkpoints are kept. Without it Checkpoints.Dir decides.
type Storage string

// Storages. What is in memory is lost with the process.
const (
	InMemory Storage = "jobmanager"
	InFiles  Storage = "filesystem"
)

// Restart says when a job that has failed is started again, in the process that
// it runs in, from its latest checkpoint. The zero value leaves it to the
// configuration: without checkpoints never, with checkpoints again and again,
// after a delay that grows.
type Restart struct {
	Strategy string // "none", "fixed-delay", "failure-rate", "exponential-delay"
	Attempts int    // of fixed-delay
	Delay    time.Duration
}

// node is what a job knows of an operator beside its place in the graph.
type node struct {
	spec      operator.Spec
	source    enumerate.Source    // of a source
	sink      commit.Sink         // of a sink that commits
	guarantee connector.Guarantee // of a sink
}

// An Option is a setting of one operator, given at the end of its verb.
type Option func(*graph.Node)

// Parallelism sets the number of subtasks of an operator.
func Parallelism(n int) Option { return func(o *graph.Node) { o.Parallelism = n } }

// MaxParallelism sets the number of key groups of an operator: the most subtasks
// it can ever have. Only Job.ChangeMaxParallelism can change it later.
func MaxParallelism(n int) Option { return func(o *graph.Node) { o.MaxParallelism = n } }

// Name sets what an operator is called in logs; its uid by default. The uid, not
// the name, is what its state belongs to.
func Name(name string) Option { return func(o *graph.Node) { o.Name = name } }

// Formerly names a uid that an operator had before, or an id that was generated for
// it, 32 hexadecimal digits. State that the checkpoint or savepoint at the start
// holds under that name is the operator's; every later checkpoint holds it under the
// present uid, so that the option can go as soon as there is one. It may be given
// several times, for several names. It is a mistake if another operator of the job has
// the name, or has had it, and the job doesn't start if there is state under more
// than one of an operator's names.
func Formerly(uid string) Option {
	return func(o *graph.Node) { o.Former = append(o.Former, uid) }
}

// StartChain makes an operator run in a goroutine apart from those before it.
func StartChain() Option { return func(o *graph.Node) { o.Chaining = graph.ChainHead } }

// NoChain makes an operator run in a goroutine of its own.
func NoChain() Option { return func(o *graph.Node) { o.Chaining = graph.ChainNever } }

// A Stream is a stream of records of one type, as a view of the operators that
// emit them.
type Stream[T any] struct {
	job  *Job
	from []origin
}

// origin is an operator whose output is a part of a stream, and how its records
// leave it.
type origin struct {
	node      int
	side      string // the tag of the side output; empty: the main one
	partition graph.Partition
	edge      operator.Edge
}

// add puts an operator into the graph. Its options have the last word.
func (j *Job) add(verb string, n graph.Node, what node, from []origin, opts []Option) int {
	n.Where = caller()
	if n.UID == "" {
		n.Name = verb
	}
	for _, o := range opts {
		o(&n)
	}
	at := len(j.graph.Nodes)
	j.graph.Nodes = append(j.graph.Nodes, n)
	j.nodes = append(j.nodes, what)
	for _, f := range from {
		j.graph.Edges = append(j.graph.Edges, graph.Edge{From: f.node, To: at, Side: f.side, Partition: f.partition})
		j.edges = append(j.edges, f.edge)
	}
	return at
}

// mistake notes an error in the job, to be reported with all others. Views have no uid.
func (j *Job) mistake(verb, uid string, err error) {
	if err == nil {
		return
	}
	if uid != "" {
		verb = fmt.Sprintf("%s %q", verb, uid)
	}
	j.errs = append(j.errs, fmt.Errorf("%s at %s: %w", verb, caller(), err))
}

// given notes a mistake unless what a verb is given is there, and returns whether it is.
func (j *Job) given(verb, uid, what string, there bool) bool {
	if !there {
		j.mistake(verb, uid, fmt.Errorf("the %s is nil", what))
	}
	return there
}

// check notes what a source or a sink finds wrong with itself.
func (j *Job) check(verb, uid string, end any) {
	c, ok := end.(connector.Checked)
	if !ok {
		return
	}
	err := c.Check()
	mistakes := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		mistakes = several.Unwrap()
	}
	for _, err := range mistakes {
		j.mistake(verb, uid, err)
	}
}

// caller returns the file and line of the user's call.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "github.com/weirstream/weir.") || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// stream is the plain view of an operator's output.
func stream[T any](j *Job, node int) Stream[T] {
	return Stream[T]{j, []origin{{node: node, partition: graph.Auto, edge: operator.Rebalance[T]()}}}
}

// through returns the stream with its records spread by a partition.
func through[T any](in Stream[T], p graph.Partition, e operator.Edge) Stream[T] {
	out := Stream[T]{job: in.job}
	for _, o := range in.from {
		out.from = append(out.from, origin{o.node, o.side, p, e})
	}
	return out
}

var errNoStream = errors.New("its input is no stream of this job")
