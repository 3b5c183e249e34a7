package weir

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/state"
)

// S104 (a): the last rows of a bounded job are visible when it ends, at once,
// however far off the next checkpoint is.
func TestBoundedJobDoesNotWaitForTheInterval(t *testing.T) {
	parallel(t)
	for _, dir := range []string{"", t.TempDir()} {
		files, b := t.TempDir(), newBoard()
		r, _ := launch(t, t.Context(), func(job *Job) error {
			job.Checkpoints = Checkpoints{Interval: time.Hour, MinPause: 30 * time.Minute, Dir: dir}
			To(From(job, "in", count(b, "in", 10).let(10)), "out", printed[int](files))
			return nil
		})
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		same(t, "rows", lines(t, files), upTo(10))
		for _, e := range must(os.ReadDir(files))(t) {
			if strings.HasPrefix(e.Name(), ".") {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
}

// S104 (b): a bounded source beside an endless one: when it has ended checkpoints
// go on, and after a restore it isn't read again.
func TestCheckpointsGoOnBehindTheEndOfASource(t *testing.T) {
	parallel(t)
	dir, b := t.TempDir(), newBoard()
	short, long, out := count(b, "short", 5).let(5), count(b, "long", far), newLedger[int](b, "out")
	build := func(job *Job) error {
		job.Name, job.From, job.Checkpoints = "uneven", Latest, Checkpoints{Interval: 10 * time.Millisecond, Dir: dir}
		hundreds := Map(From(job, "short", short), "hundreds", func(n int) int { return 100 + n })
		To(Union(hundreds, From(job, "long", long)), "out", out)
		return nil
	}
	for round := range 3 {
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, build)
		b.await(t, 1, "out: 104") // the short one's last
		for _, limit := range []int{20*round + 10, 20*round + 20} {
			long.let(limit)
			b.await(t, 1, fmt.Sprintf("out: %d", limit-1))
		}
		end()
		wait(t, r)
	}
	same(t, "output", b.all("out: "), append(upTo(60), "100", "101", "102", "103", "104"))
	if n, m := b.times("short enumerates"), b.times("short reads 0"); n != 1 || m != 1 {
		t.Errorf("the source that had ended was enumerated %d times, and read %d times", n, m)
	}
}

// S104 (c): the commit of the last rows fails.
func TestLastCommitFails(t *testing.T) {
	parallel(t)
	for _, panics := range []bool{false, true} {
		b := newBoard()
		out := newLedger[string](b, "out")
		out.fault = &fault{point: "commit", panics: panics}
		r, _ := launch(t, t.Context(), passing(count(b, "in", 10).let(10), out, func(job *Job) {
			job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: t.TempDir()}
		}))
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		same(t, "rows", b.all("out: "), countedUpTo(10))
		if n := b.times("in reads 9"); n != 1 || len(r.Failures()) != 1 {
			t.Errorf("the last row was read %d times, failures: %v", n, r.Failures())
		}
	}
}

// S104 (d): one subtask has ended, one runs. What both remember is there after a
// restart, also at another parallelism.
func TestStateOfAnEndedSubtaskIsKept(t *testing.T) {
	parallel(t)
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far), newLedger[int](b, "out")
	in.stretches = []interval{{0, 5}, {1000, far}}
	for round, parallelism := range []int{2, 2, 1} {
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, func(job *Job) error {
			job.Name, job.From, job.Checkpoints = "half", Latest, Checkpoints{Interval: 10 * time.Millisecond, Dir: dir}
			job.Parallelism = parallelism
			To(Operate(From(job, "in", in), "remember", func(op *Out[int]) Handler[int] {
				seen := state.NewSplit[int](op, "seen")
				first := true
				return Handler[int]{Record: func(n int) error {
					for v := range seen.All() {
						if first && parallelism == 1 {
							b.say("remembers %d", v)
						}
					}
					first = false
					seen.Append(n)
					op.Emit(n)
					return nil
				}}
			}), "out", out)
			return nil
		})
		limit := 1000 + 5*(round+1)
		in.let(limit)
		b.await(t, 1, fmt.Sprintf("out: %d", limit-1))
		if round == 0 {
			b.await(t, 1, "out: 4")
		}
		end()
		wait(t, r)
	}
	want := append(upTo(5), "1000", "1001", "1002", "1003", "1004", "1005", "1006", "1007", "1008", "1009")
	same(t, "what was remembered", b.all("remembers "), want)
	if b.times("in reads 0") != 1 {
		t.Error("the split that had ended was read again")
	}
}

// TestFinalCheckpointIsTriedAgainAtOnce has the sink decline it once: within the
// tolerable number that costs a moment, beyond it the attempt.
func TestFinalCheckpointIsTriedAgainAtOnce(t *testing.T) {
	parallel(t)
	for tolerable := range 2 {
		b := newBoard()
		out := newLedger[string](b, "out")
		out.fault = &fault{point: "prepare"}
		r, _ := launch(t, t.Context(), passing(count(b, "in", 10).let(10), out, func(job *Job) {
			job.Checkpoints = Checkpoints{Interval: time.Hour, MinPause: time.Hour, TolerableFailures: tolerable}
		}))
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		same(t, "rows", b.all("out: "), countedUpTo(10))
		if n := len(r.Failures()); n != 1-tolerable {
			t.Errorf("%d tolerable, and %d attempts failed: %v", tolerable, n, r.Failures())
		}
	}
}

// S100: of three sinks that commit for themselves one can't. The others have
// committed, all are closed, and after the restore the first one commits.
func TestOneOfThreeCommitsFails(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		dir, b := t.TempDir(), newBoard()
		sinks := []string{"one", "two", "three"}
		outs := map[string]*ledger[int]{}
		for _, uid := range sinks {
			outs[uid] = newLedger[int](b, uid)
		}
		outs["one"].fault = &fault{point: "commit", panics: panics}
		build := func(job *Job) error {
			job.Name, job.From, job.Restart.Strategy = "three", Latest, "none"
			job.Checkpoints = Checkpoints{Interval: time.Hour, Dir: dir}
			in := From(job, "in", count(b, "in", 10).let(10))
			for _, uid := range sinks {
				To(in, uid, outs[uid])
			}
			return nil
		}
		r, _ := launch(t, t.Context(), build)
		wants(t, wait(t, r), `"one"`, "struck")
		for _, uid := range sinks {
			want := upTo(10)
			if uid == "one" {
				want = nil
			}
			same(t, uid, b.all(uid+": "), want)
			if n := b.times(uid + " closes"); n != 1 {
				t.Errorf("%s was closed %d times", uid, n)
			}
		}
		r, _ = launch(t, t.Context(), build)
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		for _, uid := range sinks {
			same(t, uid, b.all(uid+": "), upTo(10))
		}
		if n := b.times("in reads 0"); n != 1 {
			t.Errorf("the first row was read %d times", n)
		}
	}
}

// TestWithoutCheckpointsABoundedJobCommitsAtItsEnd sets no interval.
func TestWithoutCheckpointsABoundedJobCommitsAtItsEnd(t *testing.T) {
	parallel(t)
	files, b := t.TempDir(), newBoard()
	in := count(b, "in", 10).let(5)
	r, _ := launch(t, t.Context(), func(job *Job) error {
		To(From(job, "in", in), "out", printed[int](files))
		return nil
	})
	b.await(t, 1, "in reads 4")
	in.let(10)
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	same(t, "rows", lines(t, files), upTo(10))
}

// TestEndlessJobWithoutCheckpointsCannotCommit is refused, with the names of both
// ends.
func TestEndlessJobWithoutCheckpointsCannotCommit(t *testing.T) {
	t.Parallel()
	b := newBoard()
	_, err := Start(t.Context(), passing(count(b, "in", far), newLedger[string](b, "out"), func(job *Job) { job.Checkpoints.Interval = 0 }))
	wants(t, err, `"in"`, `"out"`, "execution.checkpointing.interval")
}

// TestCheckpointsInMemory have a warning, and a restart goes on from them.
func TestCheckpointsInMemory(t *testing.T) {
	parallel(t)
	b := newBoard()
	in, out := count(b, "in", 2*soFar).let(soFar), newLedger[string](b, "out")
	in.fault = &fault{point: "read"}
	r, log := launch(t, t.Context(), passing(in, out, nil))
	b.await(t, 1, "out: "+countedUpTo(soFar)[soFar-1])
	in.let(2 * soFar)
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	same(t, "output", b.all("out: "), countedUpTo(2*soFar))
	if b.times("in reads 0") != 1 || len(r.Failures()) != 1 {
		t.Errorf("failures %v, the first record was read %d times", r.Failures(), b.times("in reads 0"))
	}
	if !strings.Contains(log.String(), "in memory") {
		t.Errorf("no warning: %s", log)
	}
}
