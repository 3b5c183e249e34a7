package weir

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/commit"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/enumerate"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/jobmaster"
	"github.com/weirstream/weir/internal/run"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/worker"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// ErrSuspended is what Wait and Run return when a job was stopped by the end of
// its context: its checkpoints stay, and it can be resumed.
var ErrSuspended = errors.New("job suspended")

// ErrCancelled is what Wait and Run return when a job was cancelled.
var ErrCancelled = errors.New("job cancelled")

// ErrStuck is in the error that Wait and Run return when a function of the job
// didn't return in the time of task.cancellation.timeout after it was told to stop
// by the end of its context. Nothing that it does has an effect on the job any more,
// but its goroutine stays until the process ends.
var ErrStuck = jobmaster.ErrStuck

// errFinished says that a job to be resumed has finished.
var errFinished = errors.New("the job has finished; there is nothing left to do")

// Start builds a job and runs it in this process. It reads no flags, no files and
// no environment, and opens nothing on the network. Mistakes in the job are its
// error. When ctx ends the job is suspended: it stops and keeps its checkpoints;
// only Cancel cancels it.
func Start(ctx context.Context, build func(*Job) error) (*Running, error) {
	p, err := prepare(build, config.Layer{}, config.Layer{})
	if err != nil {
		return nil, err
	}
	env := production(slog.Default())
	if err := p.checkPlaces(env.files); err != nil {
		return nil, err
	}
	return p.start(ctx, env)
}

// Run is Start and Wait.
func Run(ctx context.Context, build func(*Job) error) error {
	r, err := Start(ctx, build)
	if err != nil {
		return err
	}
	return r.Wait()
}

// environment is what a job runs in: this process, or the simulation.
type environment struct {
	executor executor.Executor
	files    filesystem.Set
	random   func() uint64 // safe for concurrent use
	log      *slog.Logger
	encode   bool                             // local channels encode and decode
	batchMax int                              // records in a batch; 0: as many as usual
	sliceMax int                              // records in a slice; 0: a full batch
	connect  func() (writer, reader net.Conn) // carries local channels; nil: nothing does
	// line carries a message from the job master to the workers, or back, and
	// then delivers it.
	line func(direction int, message any, deliver func())
}

// The two directions of the line.
const (
	toWorker = iota
	toMaster
)

func production(log *slog.Logger) environment {
	return environment{
		executor: executor.Real{},
		files:    filesystem.Set{"file": filesystem.Local{}},
		random: func() uint64 {
			var b [8]byte
			rand.Read(b[:]) // never fails
			return binary.NativeEndian.Uint64(b[:])
		},
		log:  log,
		line: func(_ int, _ any, deliver func()) { deliver() },
	}
}

// newID returns a job id: 32 hexadecimal digits.
func (env environment) newID() string {
	b := binary.BigEndian.AppendUint64(nil, env.random())
	return hex.EncodeToString(binary.BigEndian.AppendUint64(b, env.random()))
}

// site is where a job's checkpoints are: in a run's directory, or in memory.
type site struct {
	id      string
	files   filesystem.FileSystem // nil: in memory
	live    *run.Live             // so too
	storage snapshot.Storage
	from    string // path of the checkpoint to start from, if the run has none of its own
}

// site finds or makes the run that a job goes on as.
func (p *plan) site(env environment) (h site, err error) {
	uri := config.Get(p.config, config.CheckpointDir)
	from := config.Get(p.config, config.RecoveryPath)
	if uri == "" {
		return site{id: env.newID(), storage: &snapshot.Memory{}, from: from}, nil
	}
	files, dir, err := env.files.Resolve(uri)
	if err != nil {
		return h, fmt.Errorf("checkpoint directory: %w", err)
	}
	h.files = files
	if from == Latest {
		h.live, err = p.resume(env, files, dir)
		from = ""
	}
	if h.live == nil && err == nil {
		h.live, err = p.begin(env, run.Open(files, dir), from)
	}
	if err != nil {
		return h, err
	}
	r := h.live.Run()
	h.id, h.from = r.ID, r.From.Path
	if h.storage, err = p.storage(env, files, dir, r); err != nil {
		return h, errors.Join(err, h.live.Leave())
	}
	return h, nil
}

// begin enters a new run.
func (p *plan) begin(env environment, book *run.Book, from string) (*run.Live, error) {
	r := run.Run{
		Job: p.name, ID: env.newID(), Started: env.executor.Now(),
		Flat: !config.Get(p.config, config.CreateSubdir),
	}
	switch {
	case from == "":
	case config.Get(p.config, config.ClaimMode) == string(Claim):
		var err error
		if r.From, err = env.claim(from); err != nil {
			return nil, fmt.Errorf("claim what the job starts from: %w", err)
		}
		env.log.Info("the job owns the snapshot that it starts from, and deletes it as it does its checkpoints", "job", p.name, "dir", r.From.Path)
	default:
		_, at, err := env.files.Resolve(from)
		if err != nil {
			return nil, fmt.Errorf("start from %q: %w", from, err)
		}
		r.From.Path = located(from, at) // the run may be resumed in another working directory
	}
	l, err := book.Begin(r)
	return l, describe(p, config.CheckpointDir, err)
}

// claim says what a job is to own. A checkpoint of a run that is alive is that run's.
func (env environment) claim(uri string) (o run.Origin, err error) {
	cp, at, dir, err := env.load(uri)
	if err != nil {
		return o, err
	}
	lock, err := run.Hold(at.Files, at.Dir, cp)
	if err != nil {
		return o, err
	}
	return run.Origin{Path: dir, Claimed: true, Checkpoint: cp.Number, JobID: cp.JobID, Taken: time.Unix(0, cp.Began).UTC()}, lock.Unlock()
}

// storage is where the checkpoints of a run are. Those of another in the same place
// are an error.
func (p *plan) storage(env environment, files filesystem.FileSystem, dir string, r run.Run) (snapshot.Storage, error) {
	uri := strings.TrimSuffix(config.Get(p.config, config.CheckpointDir), "/")
	if !r.Flat {
		uri += "/" + r.ID
	}
	own := &snapshot.Directory{Files: files, Path: r.Dir(dir), URI: uri, Random: env.random, Log: env.log.With("job", p.name)}
	if r.Flat {
		if err := own.Belongs(r.ID, r.Starts > 1 || r.End != ""); err != nil {
			return nil, err
		}
	}
	if !r.From.Claimed {
		return own, nil
	}
	in, at, err := env.files.Resolve(r.From.Path)
	return &snapshot.Claimed{
		Storage: own, Files: in, Path: at, URI: r.From.Path, Random: env.random,
		Number: r.From.Checkpoint, JobID: r.From.JobID, Began: r.From.Taken.UnixNano(),
	}, err
}

// tidy clears away what a crash may have left of a run that is over, unless another
// has its place by now.
func (p *plan) tidy(env environment, files filesystem.FileSystem, dir string, r run.Run) error {
	lock, err := files.Lock(r.Dir(dir))
	switch {
	case err == nil:
		defer lock.Unlock()
	case errors.Is(err, filesystem.ErrLocked):
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	left, err := p.storage(env, files, dir, r)
	if err != nil {
		return err
	}
	return left.Clear()
}

// resume finds the newest run of the job's name. It returns nil where there is
// none.
func (p *plan) resume(env environment, files filesystem.FileSystem, dir string) (*run.Live, error) {
	live, before, err := run.Open(files, dir).Resume(p.name)
	switch {
	case errors.Is(err, run.ErrNone):
		env.log.Warn("no run to resume: the job starts from the beginning", "job", p.name, "dir", config.Get(p.config, config.CheckpointDir))
		return nil, nil
	case errors.Is(err, run.ErrFinished):
		return nil, errors.Join(fmt.Errorf("%w (job %q, id %s)", errFinished, p.name, before.ID), p.tidy(env, files, dir, before))
	case errors.Is(err, run.ErrStopped):
		return nil, errors.Join(err, p.tidy(env, files, dir, before))
	case err != nil:
		return nil, err
	}
	env.log.Info("resuming", "job", p.name, "id", before.ID, "end", cmp.Or(string(before.End), "killed"))
	return live, nil
}

// target is where the files of a checkpoint go.
func (p *plan) target(env environment) func(record.Barrier) state.Target {
	inline, buffer := config.Get(p.config, config.InlineThreshold), config.Get(p.config, config.WriteBufferSize)
	compress := config.Get(p.config, config.SnapshotCompression)
	return func(b record.Barrier) state.Target {
		if b.Target == "" {
			t := snapshot.Target{Compress: compress}
			if p.limited() {
				t.Most = snapshot.MostState
			}
			return t
		}
		files, dir, err := env.files.Resolve(b.Target)
		if err != nil {
			panic(fmt.Sprintf("weir: target of checkpoint %d: %v", b.Checkpoint, err)) // the job master has resolved it before
		}
		return snapshot.Target{Files: files, Dir: dir, Inline: int(inline), Buffer: int(buffer), Compress: compress, Random: env.random}
	}
}

// limited says whether there are limits to a checkpoint's size: to those in memory,
// unless it is only the one in which a job without checkpoints ends.
func (p *plan) limited() bool {
	return config.Get(p.config, config.CheckpointDir) == "" && config.Get(p.config, config.CheckpointInterval) > 0
}

// origin is where the files of a restored checkpoint are.
func (env environment) origin() func(string) state.Origin {
	return func(uri string) state.Origin {
		if uri == "" {
			return snapshot.Origin{}
		}
		files, dir, err := env.files.Resolve(uri)
		if err != nil {
			panic(fmt.Sprintf("weir: restored checkpoint: %v", err))
		}
		return snapshot.Origin{Files: files, Dir: dir}
	}
}

// Running is a job that has been started.
type Running struct {
	plan   *plan
	env    environment
	site   site
	master *jobmaster.Master
	worker *worker.Worker
}

// start brings up a job master and a worker, connected by a line, and begins the
// job.
func (p *plan) start(ctx context.Context, env environment) (*Running, error) {
	h, err := p.site(env)
	if err != nil {
		return nil, err
	}
	log := env.log.With("job", p.name)
	p.note(log)
	log.Info("starting the job", "id", h.id, "guarantee", p.guarantee())
	if h.files == nil && config.Get(p.config, config.CheckpointInterval) > 0 {
		log.Warn("checkpoints are kept in memory and lost with the process: set " + config.CheckpointDir.Key())
	}
	r := &Running{plan: p, env: env, site: h}
	ackLimit := int64(0)
	if p.limited() {
		ackLimit = config.Get(p.config, config.AcknowledgementSize)
	}
	r.worker = worker.New(p.code(h.id), worker.Settings{
		Executor:      env.executor,
		Backend:       p.backend(),
		Logger:        log,
		BufferTimeout: config.Get(p.config, config.BufferTimeout),
		BatchSize:     env.batchMax,
		SliceMax:      env.sliceMax,
		AtLeastOnce:   p.atLeastOnce(),
		Encode:        env.encode,
		Connect:       env.connect,
		StopTimeout:   config.Get(p.config, config.CancellationLimit),
		DropUnclaimed: config.Get(p.config, config.IgnoreUnclaimedState),
		Target:        p.target(env),
		Origin:        env.origin(),
		AckLimit:      ackLimit,
	}, func(m control.Report) { env.line(toMaster, m, func() { r.master.Report(m) }) })
	settings := p.settings(env, h, log, func(m control.Command) {
		env.line(toWorker, m, func() { r.worker.Do(m) })
	})
	made := make(chan struct{}) // closed when the job master is there: ctx may have ended before
	forget := context.AfterFunc(ctx, func() { <-made; r.master.Suspend() })
	settings.Ended = func(o jobmaster.Outcome) error {
		forget() // ctx may live longer than the job
		return h.ended(o)
	}
	r.master = jobmaster.New(settings)
	close(made)
	r.master.Start()
	return r, nil
}

// settings are those of the job master.
func (p *plan) settings(env environment, h site, log *slog.Logger, send func(control.Command)) jobmaster.Settings {
	s := jobmaster.Settings{
		Executor: env.executor, Graph: p.graph, JobID: h.id, JobName: p.name, Storage: h.storage,
		Sources:  map[graph.ID]enumerate.Source{},
		Sinks:    map[graph.ID]commit.Sink{},
		Allowed:  snapshot.Permission{Drop: config.Get(p.config, config.IgnoreUnclaimedState), Rehash: config.Get(p.config, config.ChangeMaxParallelism)},
		Fallback: config.Get(p.config, config.RecoveryFallback),
		Policy: checkpoint.Policy{
			Interval:    config.Get(p.config, config.CheckpointInterval),
			Backlog:     config.Get(p.config, config.BacklogInterval),
			MinPause:    config.Get(p.config, config.CheckpointMinPause),
			Timeout:     config.Get(p.config, config.CheckpointTimeout),
			Savepoint:   config.Get(p.config, config.SavepointTimeout),
			Retained:    config.Get(p.config, config.RetainedCheckpoints),
			Tolerable:   config.Get(p.config, config.TolerableFailedCheckpoints),
			Concurrent:  config.Get(p.config, config.ConcurrentCheckpoints),
			WhileAllRun: !config.Get(p.config, config.CheckpointsAfterEnd),
			History:     config.Get(p.config, config.CheckpointHistory),

			FromSavepoints: !config.Get(p.config, config.PreferCheckpoint),
		},
		Strategy:      jobmaster.Configured(p.config),
		KeepCancelled: config.Get(p.config, config.CheckpointRetention) == string(RetainOnCancel),
		StopTimeout:   config.Get(p.config, config.CancellationLimit),
		Send:          send,
		Random:        env.random,
		Log:           log,
	}
	s.Savepoint, s.Note = h.savepoint(), h.note
	s.Load = func(ctx context.Context, uri string) (*snapshot.Checkpoint, error) {
		cp, _, err := env.verified(ctx, uri)
		return cp, err
	}
	if _, claimed := h.storage.(*snapshot.Claimed); h.from != "" && !claimed {
		s.From = func(ctx context.Context) (*snapshot.Checkpoint, string, error) { return env.verified(ctx, h.from) }
	}
	for _, t := range p.graph.Tasks {
		for _, op := range t.Operators {
			if n := p.nodes[op.Node]; n.source != nil {
				s.Sources[op.ID] = n.source
			} else if n.sink != nil {
				s.Sinks[op.ID] = n.sink
			}
		}
	}
	return s
}

// load reads the metadata of a checkpoint that a user has named, and says where its
// files are, and at which URI.
func (env environment) load(uri string) (cp snapshot.Checkpoint, at snapshot.Origin, dir string, err error) {
	files, where, err := env.files.Resolve(uri)
	if err != nil {
		return cp, at, "", err
	}
	cp, dir, err = snapshot.Load(files, where)
	return cp, snapshot.Origin{Files: files, Dir: dir}, located(uri, dir), err
}

// located returns the URI of a path, given one in the same file system.
func located(uri, path string) string {
	if scheme, _, ok := strings.Cut(uri, "://"); ok {
		return scheme + "://" + path
	}
	return path
}

// verified reads the checkpoint that a job is started from, and says which URI its
// files are relative to.
func (env environment) verified(ctx context.Context, uri string) (*snapshot.Checkpoint, string, error) {
	cp, at, dir, err := env.load(uri)
	if err != nil {
		return nil, "", err
	}
	if err := snapshot.Verify(ctx, at, cp); err != nil {
		return nil, "", fmt.Errorf("checkpoint %s: %w", uri, err)
	}
	return &cp, dir, nil
}

// savepoint is the one that a resumed run goes on from, unless it has a newer
// checkpoint.
func (h site) savepoint() jobmaster.Savepoint {
	if h.live == nil {
		return jobmaster.Savepoint{}
	}
	p := h.live.Run().Savepoint
	return jobmaster.Savepoint{Checkpoint: p.Checkpoint, Dir: p.Path, Committed: p.Committed}
}

// note puts on record from which savepoint the run goes on. A job that keeps its
// checkpoints in memory isn't resumed.
func (h site) note(p jobmaster.Savepoint) error {
	if h.live == nil {
		return nil
	}
	return h.live.GoOnFrom(run.Savepoint{Path: p.Dir, Checkpoint: p.Checkpoint, Committed: p.Committed})
}

// ended puts the end of a run on record.
func (h site) ended(o jobmaster.Outcome) error {
	if h.live == nil {
		return nil
	}
	defer h.live.Close()
	if o.Status == jobmaster.Failed && !o.Opened && h.live.Run().Starts == 1 {
		return h.live.Withdraw() // refused: what ran before it is still the newest
	}
	if o.Savepoint != "" {
		return h.live.End(run.Stopped, o.Savepoint)
	}
	detail := ""
	if o.Err != nil {
		detail = o.Err.Error()
	}
	return h.live.End(map[jobmaster.Status]run.End{
		jobmaster.Finished: run.Finished, jobmaster.Failed: run.Failed,
		jobmaster.Canceled: run.Cancelled, jobmaster.Suspended: run.Suspended,
	}[o.Status], detail)
}

// ID returns the job's id: 32 hexadecimal digits.
func (r *Running) ID() string { return r.site.id }

// Cancel ends the job for good; its checkpoints go or stay as Checkpoints.Retention
// says. It returns when the job has ended, or with the context's error.
func (r *Running) Cancel(ctx context.Context) error {
	r.master.Cancel()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.master.Done():
		if err := r.err(); !errors.Is(err, ErrCancelled) {
			return err
		}
		return nil
	}
}

// Wait returns when the job has ended: nil if it has finished, ErrSuspended,
// ErrCancelled, or the error for which it has failed for good.
func (r *Running) Wait() error {
	<-r.master.Done()
	return r.err()
}

// A Failure is an error, or a panic, for which an attempt to run the job has
// failed, or one more thing that went wrong in an attempt that had.
type Failure struct {
	Attempt int // from 1
	At      time.Time
	Where   string // what failed: a task and its subtask, or a part of the engine
	Err     error
	Stack   string // of a panic; else empty
}

// Failures are the last failures of the job in this process, oldest first.
func (r *Running) Failures() (all []Failure) {
	for _, f := range r.master.View().Failures {
		all = append(all, Failure{int(f.Attempt), f.At, f.Where, f.Err, f.Stack})
	}
	return all
}

// over reports whether the job has ended.
func (r *Running) over() bool {
	select {
	case <-r.master.Done():
		return true
	default:
		return false
	}
}

// err is how the job has ended.
func (r *Running) err() error {
	switch o := r.master.Outcome(); {
	case o.Err != nil:
		return fmt.Errorf("job %q: %w", r.plan.name, o.Err)
	case o.Status == jobmaster.Suspended:
		return fmt.Errorf("job %q: %w", r.plan.name, ErrSuspended)
	case o.Status == jobmaster.Canceled:
		return fmt.Errorf("job %q: %w", r.plan.name, ErrCancelled)
	}
	return nil
}

// howToGoOn says from where a suspended job will go on, and with which command: the
// one that starts it from somewhere, or from the beginning.
func (r *Running) howToGoOn(command func(from string) string) string {
	o := r.master.Outcome()
	switch {
	case r.site.files == nil && r.site.from != "":
		return fmt.Sprintf("weir: suspended; there is no checkpoint directory, so the next start is from %s again", r.site.from)
	case r.site.files == nil:
		return "weir: suspended; there is no checkpoint directory, so the next start is from the beginning"
	}
	if newest, err := r.site.live.Newest(); err == nil && newest.ID != r.site.id {
		return fmt.Sprintf("weir: suspended; %q now means run %s, which began later; what this one has done goes on as a new job with\n  %s",
			Latest, newest.ID, command(cmp.Or(o.Dir, r.site.from)))
	}
	switch again := command(Latest); {
	case o.Latest > 0:
		return fmt.Sprintf("weir: suspended; it goes on from checkpoint %d (%s) with\n  %s", o.Latest, o.Dir, again)
	case r.site.from != "":
		return fmt.Sprintf("weir: suspended before a checkpoint of its own; it goes on from %s with\n  %s", r.site.from, again)
	default:
		return fmt.Sprintf("weir: suspended before its first checkpoint; it begins from the beginning with\n  %s", again)
	}
}

// code is the job for a worker.
func (p *plan) code(id string) worker.Job {
	w := worker.Job{ID: id, Graph: p.graph, Edges: p.edges}
	for _, n := range p.nodes {
		w.Nodes = append(w.Nodes, n.spec)
	}
	return w
}

// guarantee says in words what the job's output is worth, and what limits it.
func (p *plan) guarantee() string {
	if config.Get(p.config, config.CheckpointInterval) == 0 {
		return "none: without checkpoints a restart begins from the beginning; set " + config.CheckpointInterval.Key()
	}
	for _, n := range p.Job.graph.Nodes {
		if n.Lossy {
			return fmt.Sprintf("none: source %q can't be read again, so that a restart loses records", n.UID)
		}
	}
	least, by := connector.OnceExactly, ""
	for i, n := range p.Job.graph.Nodes {
		if n.Kind == graph.Sink && p.nodes[i].guarantee < least {
			least, by = p.nodes[i].guarantee, n.UID
		}
	}
	switch {
	case p.atLeastOnce():
		return fmt.Sprintf("at least once: %s is %s", config.CheckpointMode.Key(), AtLeastOnce)
	case by == "":
		return "exactly once"
	}
	return fmt.Sprintf("exactly once for state, %s for output: limited by sink %q", least, by)
}

func (p *plan) atLeastOnce() bool {
	return config.Get(p.config, config.CheckpointMode) == string(AtLeastOnce)
}
