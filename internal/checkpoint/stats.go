package checkpoint

import (
	"slices"
	"time"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

// Stats is what there is to tell about the checkpoints of a job. Triggered is
// Completed and Failed and those in progress together.
type Stats struct {
	Triggered, InProgress, Completed, Failed int

	Latest  Latest
	History []Record // those that began last, oldest first
}

// Latest holds the newest checkpoint of each kind, zero where there is none.
type Latest struct{ Completed, Savepoint, Failed Record }

// A Record is the story of one checkpoint.
type Record struct {
	Checkpoint uint64
	Savepoint  bool
	Stops      bool // a savepoint that the job is stopped with
	Final      bool
	Began      time.Time
	Acked      time.Time // by the subtask that was the last one so far
	Ended      time.Time // zero while it is in progress
	Failure    string    // empty: it is in progress, or complete
	Dir        string    // where it is, once it is complete
	Discarded  bool      // complete, and deleted since
	Subtasks   int       // how many have to acknowledge it
	Parts      []Part    // of those that have, in the order in which they did
	State      int64     // bytes in the parts there are
	Written    int64     // bytes of these that were written for it
}

// A Part is what one subtask has acknowledged.
type Part struct {
	Subtask graph.Subtask
	Acked   time.Time
	snapshot.Measures
}

// Stats returns the statistics as they are now. Nothing in them changes any more.
func (c *Coordinator) Stats() Stats {
	t := &c.told
	s := Stats{Triggered: t.triggered, InProgress: len(c.pending), Completed: t.completed, Failed: t.failed}
	for _, r := range t.history {
		s.History = append(s.History, *r)
	}
	for _, of := range []struct {
		record *Record
		to     *Record
	}{{t.checkpoint, &s.Latest.Completed}, {t.savepoint, &s.Latest.Savepoint}, {t.failure, &s.Latest.Failed}} {
		if of.record != nil {
			*of.to = *of.record
		}
	}
	return s
}

// Sample returns what Stats doesn't: the figures of completed checkpoints.
func (c *Coordinator) Sample() Sample {
	s := c.told.sample
	s.last = slices.Clone(s.last)
	return s
}

// told is what a coordinator remembers in order to tell it.
type told struct {
	triggered, completed, failed   int
	checkpoint, savepoint, failure *Record // the newest, nil if there is none
	history                        []*Record
	sample                         Sample
}

// begin opens the record of a checkpoint; a history holds so many.
func (t *told) begin(r Record, history int) *Record {
	t.triggered++
	t.history = append(t.history, &r)
	t.history = slices.Delete(t.history, 0, max(0, len(t.history)-history))
	return &r
}

// add takes in what of a checkpoint isn't a subtask's, all of which is written anew.
func (r *Record) add(bytes int64) {
	r.State += bytes
	r.Written += bytes
}

// ack takes in what a subtask has acknowledged.
func (r *Record) ack(now time.Time, s graph.Subtask, m snapshot.Measures) {
	r.Acked = now
	r.Parts = append(r.Parts, Part{s, now, m})
	r.State += m.State
	r.Written += m.Written
}

// end closes the record.
func (t *told) end(r *Record, now time.Time, failure string) {
	newest := &t.failure
	switch r.Ended, r.Failure = now, failure; {
	case failure != "":
		t.failed++
	case r.Savepoint:
		newest = &t.savepoint
	default:
		newest = &t.checkpoint
	}
	if failure == "" {
		t.completed++
		t.sample.add(r)
	}
	if *newest == nil || (*newest).Checkpoint < r.Checkpoint {
		*newest = r
	}
}

// discard notes that a complete checkpoint is deleted.
func (t *told) discard(n uint64) {
	for _, r := range append(slices.Clone(t.history), t.checkpoint) {
		if r != nil && r.Checkpoint == n {
			r.Discarded = true
		}
	}
}

// A Sample holds figures of all completed checkpoints, and of the last ones each.
type Sample struct {
	count         int64
	min, max, sum figures
	last          []figures // a ring; the oldest is at next once it is full
	next          int
}

// figures are those of one checkpoint, in the order of Summary's fields.
type figures [7]int64

// sampled is how many checkpoints' figures the quantiles are of.
const sampled = 10_000

func (s *Sample) add(r *Record) {
	f := figures{int64(r.Acked.Sub(r.Began)), r.State, r.Written}
	for _, p := range r.Parts {
		for i, d := range []time.Duration{p.StartDelay, p.Alignment, p.Sync, p.Async} {
			f[3+i] = max(f[3+i], int64(d))
		}
	}
	if s.count++; s.count == 1 {
		s.min, s.last = f, make([]figures, 0, sampled) // at once: memory doesn't grow with history
	}
	for i, v := range f {
		s.min[i], s.max[i], s.sum[i] = min(s.min[i], v), max(s.max[i], v), s.sum[i]+v
	}
	if len(s.last) < sampled {
		s.last = append(s.last, f)
		return
	}
	s.last[s.next] = f
	s.next = (s.next + 1) % sampled
}

// A Summary is over completed checkpoints, savepoints among them. Durations are in
// nanoseconds, and those of subtasks are the slowest one's of each checkpoint.
type Summary struct {
	Duration   Distribution // from the beginning to the last acknowledgement
	State      Distribution // bytes
	Written    Distribution // bytes
	StartDelay Distribution
	Alignment  Distribution
	Sync       Distribution
	Async      Distribution
}

// A Distribution is zero where there is nothing. Its quantiles are those of the last
// ten thousand values.
type Distribution struct {
	Min, Max, Average        int64
	P50, P90, P95, P99, P999 int64
}

// Summary sums up.
func (s Sample) Summary() (sum Summary) {
	for i, to := range []*Distribution{&sum.Duration, &sum.State, &sum.Written, &sum.StartDelay, &sum.Alignment, &sum.Sync, &sum.Async} {
		if s.count == 0 {
			break
		}
		values := make([]int64, len(s.last))
		for k, f := range s.last {
			values[k] = f[i]
		}
		slices.Sort(values)
		at := func(q float64) int64 { return quantile(values, q) }
		*to = Distribution{s.min[i], s.max[i], s.sum[i] / s.count, at(0.5), at(0.9), at(0.95), at(0.99), at(0.999)}
	}
	return sum
}

// quantile interpolates between the two of the sorted values that q lies between, as
// if there were one more place than values.
func quantile(values []int64, q float64) int64 {
	at := q * float64(len(values)+1)
	i := int(at)
	switch {
	case i < 1:
		return values[0]
	case i >= len(values):
		return values[len(values)-1]
	}
	below, above := values[i-1], values[i]
	return below + int64((at-float64(i))*float64(above-below))
}
