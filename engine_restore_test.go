package weir

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/state"
)

// stopped runs a job until something has been said, suspends it, and returns its
// id.
func stopped(t *testing.T, b *board, said string, build func(*Job) error) (id string) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	r, _ := launch(t, ctx, build)
	b.await(t, 1, said)
	end()
	wait(t, r)
	return r.ID()
}

// newest returns the directory of a job's newest checkpoint, and its number.
func newest(t *testing.T, dir, id string) (path string, number int) {
	t.Helper()
	for _, name := range chk(t, dir, id) {
		n := must(strconv.Atoi(strings.TrimPrefix(name, "chk-")))(t)
		number = max(number, n)
	}
	return filepath.Join(dir, id, fmt.Sprintf("chk-%d", number)), number
}

// A listing of files that fails after a checkpoint goes on from there: what it has
// found isn't looked for again, and each file is read once.
func TestAListingIsRestoredInTheMiddle(t *testing.T) {
	t.Parallel()
	from, b := t.TempDir(), newBoard()
	var want []string
	for _, name := range []string{"a/1", "a/2", "a/3", "b/1", "c/1", "c/2"} {
		put(t, filepath.Join(from, name), []byte(name+"\n"))
		want = append(want, name)
	}
	listing := faults(func(op, path string) error {
		if op != "list" {
			return nil
		}
		b.say("list %s", strings.TrimPrefix(path, from))
		if path != from+"/b" || b.times("list /b") > 1 {
			return nil
		}
		b.await(t, 1, "out: a/1") // and so a checkpoint is complete
		return errStruck
	})
	r, _ := launch(t, t.Context(), func(job *Job) error {
		job.Checkpoints.Interval = 10 * time.Millisecond
		job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1, Delay: time.Millisecond}
		To(From(job, "in", file.Source{Path: from, FileSystems: listing}), "out", newLedger[string](b, "out"))
		return nil
	})
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	same(t, "output", b.all("out: "), want)
	if n := b.times("list /b"); n != 2 {
		t.Errorf("it listed b %d times, want 2", n)
	}
}

// S47: two jobs at the same time in one checkpoint directory, whose checkpoints
// have the same numbers. Each gets its own state back.
func TestTwoJobsInOneDirectory(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	names := []string{"left", "right"}
	ins, outs := map[string]*numbers{}, map[string]*ledger[string]{}
	for _, name := range names {
		ins[name], outs[name] = count(b, "in "+name, far), newLedger[string](b, name)
	}
	ids := map[string]string{}
	for round := range 2 {
		ctx, end := context.WithCancel(t.Context())
		var jobs []*Running
		for i, name := range names {
			r, _ := launch(t, ctx, passing(ins[name], outs[name], func(job *Job) {
				job.Name, job.Checkpoints.Dir, job.From = name, dir, Latest
			}))
			if jobs = append(jobs, r); round == 0 {
				ids[name] = r.ID()
			} else if ids[name] != r.ID() {
				t.Errorf("%s goes on as %s", name, r.ID())
			}
			ins[name].let(10*(round+1) + i)
		}
		for i, name := range names {
			n := 10*(round+1) + i
			b.await(t, 1, fmt.Sprintf("%s: %s", name, countedUpTo(n)[n-1]))
		}
		end()
		for _, r := range jobs {
			wait(t, r)
		}
	}
	same(t, "left", b.all("left: "), countedUpTo(20))
	same(t, "right", b.all("right: "), countedUpTo(21))
	if ids["left"] == ids["right"] {
		t.Error("they have the same id")
	}
}

// tenths is a job with keyed state of each kind for ten keys, whose output says
// what is in it, and with a list that is no key's.
func tenths(b *board, in *numbers, out *ledger[string], parallelism int, settings func(*Job)) func(*Job) error {
	return func(job *Job) error {
		job.Name, job.Parallelism, job.From = "tenths", parallelism, Latest
		job.Checkpoints.Interval = 10 * time.Millisecond
		settings(job)
		numbers := From(job, "in", in, Parallelism(1))
		To(Process(KeyBy(numbers, func(n int) string { return fmt.Sprint("key ", n%10) }), "tenths", func(op *Op[string, string]) Handler[int] {
			value, list := state.NewValue[int](op, "value"), state.NewList[int](op, "list")
			entries := state.NewMap[int, string](op, "map")
			sum := state.NewReducing(op, "reducing", func(a, b int) int { return a + b })
			return Handler[int]{Record: func(n int) error {
				value.Set(value.Get() + 1)
				list.Append(n)
				entries.Put(n, "")
				sum.Add(n)
				op.Emit(fmt.Sprintln(op.Key(), value.Get(), slices.Collect(list.All()), entries.Len(), sum.Get()))
				return nil
			}}
		}), "out", out)
		Do(Operate(Rebalance(numbers), "dealt", func(op *Out[int]) Handler[int] {
			items := state.NewSplit[int](op, "items")
			first := true
			return Handler[int]{Record: func(n int) error {
				if first {
					for v := range items.All() {
						b.say("%d subtasks deal %d", parallelism, v)
					}
				}
				first = false
				items.Append(n)
				return nil
			}}
		}), "nothing", func(int) error { return nil })
		return nil
	}
}

// tenthsUpTo is what tenths emits of the numbers below n.
func tenthsUpTo(n int) (all []string) {
	for key := range 10 {
		var list []int
		sum := 0
		for v := key; v < n; v += 10 {
			list = append(list, v)
			sum += v
			all = append(all, fmt.Sprintln("key", key, len(list), list, len(list), sum))
		}
	}
	return all
}

// TestRescaling goes from one parallelism to the next, with state of every kind.
func TestRescaling(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far), newLedger[string](b, "out")
	n := 0
	for _, parallelism := range []int{1, 4, 2, 3, 1} {
		n += 40
		ctx, end := context.WithCancel(t.Context())
		r, _ := launch(t, ctx, tenths(b, in.let(n), out, parallelism, func(job *Job) { job.Checkpoints.Dir = dir }))
		for _, line := range tenthsUpTo(n) {
			b.await(t, 1, "out: "+line)
		}
		if n > 40 { // every subtask has had a record
			same(t, fmt.Sprintf("lists dealt to %d", parallelism), b.all(fmt.Sprintf("%d subtasks deal ", parallelism)), upTo(n-40))
		}
		end()
		wait(t, r)
	}
	same(t, "output", b.all("out: "), tenthsUpTo(n))
	if k := b.times("in reads 0"); k != 1 {
		t.Errorf("the first record was read %d times", k)
	}
}

// S58: the number of key groups is the checkpoint's. Another one that was asked
// for is refused, and so are more subtasks than key groups.
func TestMaxParallelismComesFromTheCheckpoint(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in, out := count(b, "in", far), newLedger[string](b, "out")
	job := func(parallelism int, config map[string]string) func(*Job) error {
		return tenths(b, in, out, parallelism, func(job *Job) { job.Checkpoints.Dir, job.Config = dir, config })
	}
	in.let(20)
	stopped(t, b, "out: "+tenthsUpTo(20)[19], job(1, map[string]string{"pipeline.max-parallelism": "8"}))
	for _, test := range []struct {
		parallelism int
		config      map[string]string
		want        []string
	}{
		{9, nil, []string{`"tenths"`, "9", "exceeds 8"}},
		{2, map[string]string{"pipeline.max-parallelism": "16"}, []string{`"tenths"`, "16", "8"}},
	} {
		r, _ := launch(t, t.Context(), job(test.parallelism, test.config))
		wants(t, wait(t, r), test.want...)
	}
	in.let(40)
	stopped(t, b, "out: "+tenthsUpTo(40)[39], job(8, nil)) // from 128, which would be derived, it comes down to 8
	for _, line := range tenthsUpTo(40) {
		if b.times("out: "+line) > 1 {
			t.Errorf("twice: %s", line)
		}
	}
}

// TestNewJobGoesOnFromACheckpoint starts a job from another one's checkpoint.
func TestNewJobGoesOnFromACheckpoint(t *testing.T) {
	t.Parallel()
	dir, elsewhere, b := t.TempDir(), t.TempDir(), newBoard()
	in, out := count(b, "in", far), newLedger[string](b, "out")
	old := stopped(t, b, "out: 9 is number 10", passing(in.let(10), out, func(job *Job) { job.Checkpoints.Dir = dir }))
	path, number := newest(t, dir, old)
	for i, from := range []string{path, filepath.Join(path, "_metadata"), "file://" + path} {
		b := newBoard()
		in, out := count(b, "in", far).let(20), newLedger[string](b, "out")
		id := stopped(t, b, "out: 19 is number 20", passing(in, out, func(job *Job) { job.Checkpoints.Dir, job.From = elsewhere, from }))
		if id == old {
			t.Error("it has the old job's id")
		}
		if _, n := newest(t, elsewhere, id); n <= number {
			t.Errorf("its checkpoint has number %d, and it came from number %d", n, number)
		}
		if n := b.times("in reads 0"); n > 0 {
			t.Errorf("start %d reads the first record", i)
		}
	}
	if left, _ := newest(t, dir, old); left != path {
		t.Errorf("the old job's checkpoint is now %s", left)
	}
}

// S49: the checkpoint holds state of an operator that is gone.
func TestStateOfAnOperatorThatIsGone(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in := count(b, "in", far)
	id := stopped(t, b, "out: 9 is number 10", passing(in.let(10), newLedger[string](b, "out"), func(job *Job) { job.Checkpoints.Dir = dir }))
	path, _ := newest(t, dir, id)
	in.let(20)
	out := newLedger[string](b, "without")
	build := func(allow bool) func(*Job) error {
		return func(job *Job) error {
			job.Name, job.From, job.AllowNonRestored = "passing", path, allow
			job.Checkpoints.Interval = 10 * time.Millisecond
			To(Map(From(job, "in", in), "text", func(n int) string { return fmt.Sprint(n) }), "out", out)
			return nil
		}
	}
	r, _ := launch(t, t.Context(), build(false))
	wants(t, wait(t, r), `"count"`, "bytes", "-allowNonRestoredState")
	if b.times("in reads 10") > 0 || len(r.Failures()) != 1 {
		t.Errorf("it has read something, or tried again: %v", r.Failures())
	}
	ctx, end := context.WithCancel(t.Context())
	r, log := launch(t, ctx, build(true))
	b.await(t, 1, "without: 19")
	end()
	wait(t, r)
	for _, text := range []string{"dropped", "operator=count", "bytes="} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log doesn't say %q", text)
		}
	}
	if b.times("in reads 0") != 1 {
		t.Error("the source's state was dropped, too")
	}
}

// TestOtherTypesThanStoredAreRefused changes a state, a key, and the splits.
func TestOtherTypesThanStoredAreRefused(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	id := stopped(t, b, "out: 9 is number 10", passing(count(b, "in", far).let(10), newLedger[string](b, "out"), func(job *Job) { job.Checkpoints.Dir = dir }))
	path, _ := newest(t, dir, id)
	for name, test := range map[string]struct {
		build func(*Job)
		want  []string
	}{
		"value": {func(job *Job) {
			Process(KeyBy(From(job, "in", count(b, "in", far)), func(int) string { return "" }), "count", func(op *Op[string, int]) Handler[int] {
				state.NewValue[string](op, "n")
				return Handler[int]{Record: func(int) error { return nil }}
			})
		}, []string{`"count"`, `"n"`, "int64", "string"}},
		"kind": {func(job *Job) {
			Process(KeyBy(From(job, "in", count(b, "in", far)), func(int) string { return "" }), "count", func(op *Op[string, int]) Handler[int] {
				state.NewReducing(op, "n", func(a, b int64) int64 { return a + b })
				return Handler[int]{Record: func(int) error { return nil }}
			})
		}, []string{`"count"`, `"n"`, "value", "reducing"}},
		"key":          {func(job *Job) { Count(KeyBy(From(job, "in", count(b, "in", far)), double), "count") }, []string{`"count"`, "keys", "string", "int64"}},
		"splits":       {func(job *Job) { Do(From(job, "in", file.Lines(dir)), "new", func(string) error { return nil }) }, []string{`"in"`, "splits", "Next"}},
		"committables": {func(job *Job) { To(FromSlice(job, "new", []int{1}), "out", newLedger[int](b, "int")) }, []string{`"out"`, "committables", "string", "int64"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := launch(t, t.Context(), func(job *Job) error {
				job.From, job.AllowNonRestored = path, true
				job.Checkpoints.Interval = time.Hour
				test.build(job)
				return nil
			})
			wants(t, wait(t, r), test.want...)
			if n := len(r.Failures()); n != 1 {
				t.Errorf("it was tried %d times", n)
			}
		})
	}
}

// S61: key groups are the same in every process.
func TestTwoProcessesAgreeOnKeyGroups(t *testing.T) {
	t.Parallel()
	type key struct {
		Name  string
		Parts [2]int16
		Yes   bool
	}
	where := func() []string {
		b := newBoard()
		err := Run(t.Context(), func(job *Job) error {
			job.Parallelism = 7
			in := FromSlice(job, "in", upToInt(500), Parallelism(1))
			Process(KeyBy(in, func(n int) key { return key{fmt.Sprint(n), [2]int16{int16(n), -1}, n%2 == 0} }), "keys", func(op *Op[key, int]) Handler[int] {
				var keys []int
				return Handler[int]{
					Record: func(n int) error { keys = append(keys, n); return nil },
					End:    func() error { b.say("%v", keys); return nil },
				}
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.all("")
	}
	if os.Getenv("WEIR_TEST_KEY_GROUPS") != "" {
		fmt.Printf("keys: %q\n", where())
		return
	}
	here := fmt.Sprintf("keys: %q", where())
	for range 2 {
		cmd := exec.Command(must(os.Executable())(t), "-test.run", "^TestTwoProcessesAgreeOnKeyGroups$")
		cmd.Env = append(os.Environ(), "WEIR_TEST_KEY_GROUPS=1")
		out := must(cmd.Output())(t)
		if there, _, _ := strings.Cut(string(out), "\n"); there != here {
			t.Fatalf("there %s\nhere  %s", there, here)
		}
	}
}

// S01: a record that comes behind the barrier, while the other input's barrier
// is still to come, isn't in the snapshot.
func TestRecordBehindTheBarrierIsNotInTheSnapshot(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	fast, slow := count(b, "fast", far).let(1), count(b, "slow", far).let(1)
	held := make(chan struct{})
	build := func(out, from string) func(*Job) error {
		return func(job *Job) error {
			job.From = from
			job.Checkpoints = Checkpoints{Interval: 300 * time.Millisecond, MinPause: 200 * time.Millisecond, Retained: 1000, Dir: dir}
			a := From(job, "fast", fast)
			To(a, "witness", newLedger[int](b, "witness"))
			s := Map(From(job, "slow", slow), "hold", func(n int) int { b.say("holding"); <-held; return n })
			both := Union(Map(a, "a", func(n int) string { b.say("passed %d", n); return fmt.Sprint("a", n) }),
				Map(s, "b", func(n int) string { return fmt.Sprint("b", n) }))
			To(Count(KeyBy(both, func(s string) string { return s[:1] }), "count"), "out", newLedger[Pair[string, int64]](b, out))
			return nil
		}
	}
	ctx, end := context.WithCancel(t.Context())
	r, _ := launch(t, ctx, build("first", ""))
	b.await(t, 1, "holding")
	b.await(t, 1, "witness prepares") // at the fast source's barrier; the slow one's waits behind its record
	fast.let(2)
	b.await(t, 1, "passed 1")
	close(held)
	b.await(t, 1, "first: {a 2}")
	b.await(t, 1, "first: {b 1}")
	end()
	wait(t, r)
	r, _ = launch(t, t.Context(), build("again", filepath.Join(dir, r.ID(), "chk-1")))
	b.await(t, 1, "again: {a 2}")
	b.await(t, 1, "again: {b 1}")
	r.Cancel(t.Context())
	// The first of each was pending in the checkpoint, or is read again.
	same(t, "from the snapshot", b.all("again: "), []string{"{a 1}", "{a 2}", "{b 1}"})
}

// A checkpoint to start from that isn't one is a mistake in the job: no run is
// recorded, so that the latest one stays the latest.
func TestWrongStartLeavesNoRun(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	_, err := Start(t.Context(), passing(count(b, "in", 10), newLedger[string](b, "out"), func(job *Job) {
		job.Checkpoints.Dir, job.From = dir, filepath.Join(dir, "chk-7")
	}))
	if err == nil || !strings.Contains(err.Error(), "chk-7") {
		t.Errorf("started from nothing: %v", err)
	}
	if left := must(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}
