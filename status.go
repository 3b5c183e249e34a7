package weir

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"
)

// Status is how a job is doing.
type Status struct {
	State    string // as Flink names it: "RUNNING", "RESTARTING", "FINISHED", ...
	Attempt  int    // from 1; 0 before the first
	Restarts int    // in this process
	// RecordsIn is how many records the sources have read in this process, and
	// RecordsOut how many were given to sinks and other operators at the ends of the
	// job. What is read again after a restart counts again.
	RecordsIn, RecordsOut int64
	Checkpoint            CheckpointStatus // the newest one completed in this process
}

// CheckpointStatus is a completed checkpoint. Its number is 0 if there is none.
type CheckpointStatus struct {
	Number   uint64
	Ended    time.Time
	Duration time.Duration // from its trigger until it was stored
	Bytes    int64         // of all that it holds
}

// Status says how the job is doing now.
func (r *Running) Status() Status {
	v, records := r.master.View(), r.worker.Records()
	s := Status{
		State: v.Status.String(), Attempt: int(v.Attempt), Restarts: max(0, int(v.Attempt)-1),
		RecordsIn: records.In, RecordsOut: records.Out,
	}
	if c := v.Checkpoints.Latest.Completed; c.Checkpoint > 0 {
		s.Checkpoint = CheckpointStatus{Number: c.Checkpoint, Ended: c.Ended, Duration: c.Ended.Sub(c.Began), Bytes: c.State}
	}
	return s
}

// progress is how a job is doing, and how many records a second there were lately.
type progress struct {
	Status
	in, out float64
}

// attended is Wait that shows the progress from time to time.
func (r *Running) attended(every time.Duration, show func(progress)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	before, at := r.Status(), time.Now()
	for {
		select {
		case <-r.master.Done():
			return r.err()
		case now := <-tick.C:
			s, seconds := r.Status(), now.Sub(at).Seconds()
			show(progress{s, float64(s.RecordsIn-before.RecordsIn) / seconds, float64(s.RecordsOut-before.RecordsOut) / seconds})
			before, at = s, now
		}
	}
}

// progressOn says how often and how progress is shown in a file: to somebody who
// is looking, or in the log.
func progressOn(f *os.File, log *slog.Logger) (every time.Duration, show func(progress)) {
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return time.Second, asLine(f)
	}
	return 10 * time.Second, asRecord(log)
}

// asLine shows progress to somebody at a terminal. Each is a line of its own, since
// what the job itself prints may come between any two.
func asLine(to io.Writer) func(progress) {
	return func(p progress) {
		last := "no checkpoint yet"
		if c := p.Checkpoint; c.Number > 0 {
			last = fmt.Sprintf("checkpoint %d took %v, %sB", c.Number, c.Duration.Round(time.Millisecond), short(float64(c.Bytes)))
		}
		fmt.Fprintf(to, "weir: %s  in %7s/s  out %7s/s  %s  restarts %d\n", p.State, short(p.in), short(p.out), last, p.Restarts)
	}
}

// asRecord shows progress to whoever reads the log.
func asRecord(log *slog.Logger) func(progress) {
	return func(p progress) {
		attrs := []any{"state", p.State, "in", int64(p.in), "out", int64(p.out), "restarts", p.Restarts}
		if c := p.Checkpoint; c.Number > 0 {
			attrs = append(attrs, "checkpoint", c.Number, "duration", c.Duration, "bytes", c.Bytes)
		}
		log.Info("progress; records a second", attrs...)
	}
}

// short writes a number with three digits and a prefix of its unit.
func short(n float64) string {
	prefix := 0
	for ; n >= 999.5 && prefix < 4; prefix++ {
		n /= 1000
	}
	digits := 0
	if prefix > 0 && n < 99.95 {
		digits = 1
		if n < 9.995 {
			digits = 2
		}
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + []string{" ", " k", " M", " G", " T"}[prefix]
}
