// Package worker runs subtasks: it does what the job master's commands say, and
// reports what becomes of it.
package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/metric"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/task"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// A Job is what a worker has to know of a job: its graph, and the code for each
// node and edge of its stream graph.
type Job struct {
	ID    string
	Graph *graph.JobGraph
	Nodes []operator.Spec
	Edges []operator.Edge
}

// Settings are those of a worker.
type Settings struct {
	Executor      executor.Executor
	Backend       state.Backend
	Logger        *slog.Logger
	BufferTimeout time.Duration
	BatchSize     int           // records in a full batch; 0: operator.BatchSize
	SliceMax      int           // records in a slice at most; 0: a full batch
	StopTimeout   time.Duration // how long a function may take to return when its subtask is stopped; 0: for ever
	AtLeastOnce   bool          // checkpoints never hold a channel, and a restart repeats what came early
	Encode        bool          // local channels write and read bytes, as those between processes do
	// Connect makes a connection for each local channel, as between processes; nil:
	// batches are handed over as they are. The worker closes both its ends.
	Connect       func() (writer, reader net.Conn)
	DropUnclaimed bool // stored state that an operator doesn't declare any more
	// Target and Origin lead to the files of a checkpoint to write and of one restored.
	Target func(b record.Barrier) state.Target
	Origin func(uri string) state.Origin
	// AckLimit is how many bytes an acknowledgement may have; 0: any number.
	AckLimit int64
}

// Worker runs the subtasks of one job in this process.
type Worker struct {
	job      Job
	settings Settings
	report   func(control.Report)

	mu   sync.Mutex     // guards what is below
	run  *attempt       // the newest; nil before the first
	past metric.Records // of the attempts before it
}

// attempt is what runs, or ran, for one attempt.
type attempt struct {
	number   graph.Attempt
	inboxes  map[graph.Subtask]*exchange.Inbox
	subtasks []subtask         // in the order of their deployment, so that a simulation can be replayed
	in, out  []*metric.Counter // of sources, and of operators that nobody takes records from
	links
}

// links are the connections between an attempt's subtasks. They are closed when
// the last of these has stopped, so that none finds another's end to be a fault.
type links struct {
	mu    sync.Mutex // guards what is below
	users int        // subtasks that haven't stopped
	conns []net.Conn
}

func (l *links) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
}

func (l *links) add(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conns...)
}

func (l *links) stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// records is how many records the attempt has read and written.
func (a *attempt) records() (r metric.Records) {
	for _, c := range a.in {
		r.In += c.Value()
	}
	for _, c := range a.out {
		r.Out += c.Value()
	}
	return r
}

type subtask struct {
	*task.Subtask
	id     graph.Subtask
	source bool
}

// find returns a subtask, nil if it isn't deployed.
func (a *attempt) find(id graph.Subtask) *subtask {
	i := slices.IndexFunc(a.subtasks, func(s subtask) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return &a.subtasks[i]
}

// New makes a worker. Report must not block and may be called from any goroutine.
func New(job Job, settings Settings, report func(control.Report)) *Worker {
	settings.BatchSize = cmp.Or(settings.BatchSize, operator.BatchSize)
	settings.SliceMax = cmp.Or(settings.SliceMax, settings.BatchSize)
	return &Worker{job: job, settings: settings, report: report}
}

// Records is how many records have been read and written here, in all attempts:
// what is read again after a restart counts again.
func (w *Worker) Records() metric.Records {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run == nil {
		return w.past
	}
	return w.past.Plus(w.run.records())
}

// Do carries out a command. Commands of an older attempt are dropped.
func (w *Worker) Do(c control.Command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d, ok := c.(control.Deploy); ok {
		w.deploy(d)
		return
	}
	if w.run == nil || w.run.number != control.AttemptOf(c) {
		return
	}
	if a, ok := c.(control.Assign); ok {
		if s := w.run.find(a.Subtask); s != nil {
			s.Assign(task.Assignment{Request: a.Request, Splits: a.Splits, NoMore: a.NoMore, After: a.After})
		}
		return
	}
	for _, s := range w.run.subtasks {
		s.tell(c)
	}
}

// tell passes on a command that is for every subtask, or for every source.
func (s subtask) tell(c control.Command) {
	switch c := c.(type) {
	case control.Start:
		s.Start()
	case control.Pause:
		if s.source {
			s.Pause()
		}
	case control.Drain:
		if s.source {
			s.Drain()
		}
	case control.Trigger:
		if s.source {
			b := c.Barrier
			b.Target = c.Target
			s.Trigger(b, c.Assigned[s.id])
		}
	case control.Complete:
		s.Completed(c.Checkpoint)
	case control.Abort:
		s.Abort(c.Checkpoint)
	case control.Finish, control.Stop:
		s.Stop()
	}
}

// deploy opens a subtask.
func (w *Worker) deploy(d control.Deploy) {
	if w.run == nil || w.run.number < d.Attempt {
		w.begin(d.Attempt)
	}
	if w.run.number != d.Attempt || w.run.find(d.Subtask) != nil {
		return
	}
	t := w.job.Graph.Task(d.Subtask.Task)
	w.run.open()
	w.run.subtasks = append(w.run.subtasks, subtask{task.New(w.plan(t, d)), d.Subtask, t.Operators[0].Kind == graph.Source})
}

// begin makes the inboxes of a new attempt, so that senders find them in
// whatever order subtasks are opened.
func (w *Worker) begin(n graph.Attempt) {
	if w.run != nil {
		for _, s := range w.run.subtasks {
			s.Stop()
		}
		w.past = w.past.Plus(w.run.records())
	}
	w.run = &attempt{number: n, inboxes: map[graph.Subtask]*exchange.Inbox{}}
	for _, id := range w.job.Graph.Subtasks() {
		w.run.inboxes[id] = exchange.NewInbox(w.lanes(id))
	}
}

// lanes is the number of a subtask's input channels; a source has one for its fetcher.
func (w *Worker) lanes(id graph.Subtask) int { return max(1, len(w.job.Graph.Inputs(id))) }

// channelBound is how many batches a channel holds before its writer stops: 4, as
// two subtasks that wake each other seldom need, and fewer where a subtask has so
// many channels that memory counts.
func channelBound(lanes int) int { return min(max(32/lanes, 2), 4) }

func (w *Worker) plan(t *graph.Task, d control.Deploy) task.Plan {
	run, id := w.run, d.Subtask
	log := w.settings.Logger.With("attempt", run.number, "task", t.Name, "subtask", id.Index)
	p := task.Plan{
		Name:          w.name(id),
		Inbox:         run.inboxes[id],
		Inputs:        w.lanes(id),
		BufferTimeout: w.settings.BufferTimeout,
		AtLeastOnce:   w.settings.AtLeastOnce,
		SliceMax:      w.settings.SliceMax,
		StopTimeout:   w.settings.StopTimeout,
		Executor:      w.settings.Executor,
		Target:        w.settings.Target,
		AckLimit:      w.settings.AckLimit,
		Reports:       reports{w.report, run, id},
		Logger:        log,
	}
	place := map[int]int{} // of each edge that leaves the chain, in p.Outputs
	for _, op := range t.Operators {
		st := task.Step{ID: op.ID, Spec: w.job.Nodes[op.Node], Next: op.Chained, Context: &operator.Context{
			Operator: op.ID, Name: cmp.Or(op.UID, op.Name), Index: id.Index, Degree: t.Parallelism, MaxParallelism: cmp.Or(d.MaxParallelism[op.ID], op.MaxParallelism),
			Job: w.job.ID, AttemptName: d.Name, Checkpoint: d.Checkpoint, DropUnclaimed: w.settings.DropUnclaimed,
			Backend: w.settings.Backend, BatchSize: w.settings.BatchSize, Logger: log.With("operator", cmp.Or(op.UID, op.Name)),
		}}
		if restored, ok := d.Restored[op.ID]; ok {
			st.Context.Restored, st.Context.Origin = &restored, w.settings.Origin(d.From)
		}
		if op.Kind == graph.Source {
			run.in = append(run.in, &st.Context.Records)
		}
		if len(op.Chained)+len(op.Out) == 0 {
			run.out = append(run.out, &st.Context.Records)
		}
		for _, e := range op.Out {
			place[e] = len(p.Outputs)
			st.Outputs = append(st.Outputs, len(p.Outputs))
			edge := w.job.Graph.Edges[e]
			to := &w.job.Graph.Tasks[edge.To]
			p.Outputs = append(p.Outputs, task.Output{
				Edge: w.job.Edges[edge.Edge],
				Routing: operator.Routing{
					Subtask: id.Index, MaxParallelism: cmp.Or(d.MaxParallelism[to.ID], to.MaxParallelism), BatchSize: w.settings.BatchSize,
					To: cmp.Or(to.Operators[0].UID, to.Operators[0].Name),
				},
				Side: edge.Side,
			})
		}
		p.Operators = append(p.Operators, st)
	}
	for _, c := range w.job.Graph.Outputs(id) {
		routing := &p.Outputs[place[c.Edge]].Routing
		routing.Senders = append(routing.Senders, w.sender(t, c))
	}
	return p
}

// sender is the writing end of a channel.
func (w *Worker) sender(t *graph.Task, c graph.Channel) exchange.Sender {
	self, to, bound := w.run.inboxes[c.From], w.run.inboxes[c.To], channelBound(w.lanes(c.To))
	edge := w.job.Graph.Edges[c.Edge]
	records := w.job.Nodes[t.Operators[edge.Operator].Node].Type(edge.Side)
	if w.settings.Connect != nil {
		writer, reader := w.settings.Connect()
		w.run.add(writer, reader)
		exchange.Incoming(w.settings.Executor, reader, records, to, c.Index, w.broken(c, c.To))
		return exchange.Outgoing(w.settings.Executor, writer, records, bound, self.Wake, w.broken(c, c.From))
	}
	s := to.Sender(c.Index, bound, self.Wake)
	if w.settings.Encode {
		return exchange.Encoded(s, records)
	}
	return s
}

// broken makes what is called when a channel breaks at one of its ends: it fails
// the subtask there, once that is deployed.
func (w *Worker) broken(c graph.Channel, at graph.Subtask) func(err error, stack string) {
	run := w.run
	return func(err error, stack string) {
		err = fmt.Errorf("channel from %s to %s: %w", w.name(c.From), w.name(c.To), err)
		run.inboxes[at].Post(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			run.find(at).Fail(err, stack)
		})
	}
}

// name is a subtask's, for people.
func (w *Worker) name(id graph.Subtask) string {
	t := w.job.Graph.Task(id.Task)
	return fmt.Sprintf("%s (%d/%d)", t.Name, id.Index+1, t.Parallelism)
}

// reports puts a subtask's reports into messages.
type reports struct {
	send    func(control.Report)
	attempt *attempt
	subtask graph.Subtask
}

func (r reports) Ready() {
	r.send(control.Ready{Attempt: r.attempt.number, Subtask: r.subtask})
}

func (r reports) Request(n uint64) {
	r.send(control.Request{Attempt: r.attempt.number, Subtask: r.subtask, Request: n})
}

func (r reports) Ack(checkpoint uint64, t snapshot.Task, m snapshot.Measures) {
	r.send(control.Ack{Attempt: r.attempt.number, Subtask: r.subtask, Checkpoint: checkpoint, State: t, Measures: m})
}

func (r reports) Decline(checkpoint uint64, reason string) {
	r.send(control.Decline{Attempt: r.attempt.number, Subtask: r.subtask, Checkpoint: checkpoint, Reason: reason})
}

func (r reports) NotReady(checkpoint uint64, reason string) {
	r.send(control.Decline{Attempt: r.attempt.number, Subtask: r.subtask, Checkpoint: checkpoint, Reason: reason, NotReady: true})
}

func (r reports) Ended() {
	r.send(control.Ended{Attempt: r.attempt.number, Subtask: r.subtask})
}

func (r reports) Failed(err error, stack string) {
	final := errors.Is(err, state.ErrMistake) || errors.Is(err, operator.ErrNoBody)
	r.send(control.Failed{Attempt: r.attempt.number, Subtask: r.subtask, Err: err, Stack: stack, Final: final})
}

func (r reports) Overdue(operator, stack string) {
	r.send(control.Overdue{Attempt: r.attempt.number, Subtask: r.subtask, Operator: operator, Stack: stack})
}

func (r reports) Stopped() {
	r.attempt.stopped()
	r.send(control.Stopped{Attempt: r.attempt.number, Subtask: r.subtask})
}
