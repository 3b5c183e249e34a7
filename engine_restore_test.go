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

// kinds are what a job can be started from.
var kinds = []string{"checkpoint", "savepoint"}

// left runs a job, whose checkpoints are in dir, until something has been said, and
// ends it. It returns the directory of its newest checkpoint, or of a savepoint.
func left(t *testing.T, b *board, kind, dir, said string, build func(*Job) error) (path string) {
	t.Helper()
	if kind == "checkpoint" {
		path, _ = newest(t, dir, stopped(t, b, said, build))
		return path
	}
	r, _ := launch(t, t.Context(), build)
	b.await(t, 1, said)
	path = must(savepoint(t, r, t.TempDir()))(t)
	if err := soon(t, "the end", func() error { return r.Cancel(context.Background()) }); err != nil {
		t.Fatal(err)
	}
	return path
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
	parallel(t)
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

// S58: state was saved with 128 key groups by an operator that the new job chains with
// another. Another number that is set for it is refused with both; one that is set for
// the other operator isn't its own; without any, 128 is adopted, also where another
// would be derived; 200 subtasks are too many.
func TestMaxParallelismIsThatOfTheState(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		dir, b := t.TempDir(), newBoard()
		in, out := count(b, "in", far), newLedger[string](b, "out")
		job := func(from string, parallelism int, counting, passing []Option, config map[string]string) func(*Job) error {
			return func(job *Job) error {
				quick(job)
				job.From, job.Parallelism, job.Config, job.Checkpoints.Dir = from, parallelism, config, dir
				counts := Count(KeyBy(From(job, "in", in, Parallelism(1)), func(n int) int { return n % 10 }), "count", counting...)
				To(Map(counts, "text", func(p Pair[int, int64]) string { return fmt.Sprint(10*(p.Value-1) + int64(p.Key)) }, passing...), "out", out)
				return nil
			}
		}
		in.let(20)
		from := left(t, b, kind, dir, "out: 19", job("", 1, nil, []Option{NoChain()}, nil))
		if n := metadata(t, from).Operators[1]; n.UID != "count" || n.MaxParallelism != 128 {
			t.Fatalf("saved with max parallelism %d", n.MaxParallelism)
		}
		set := []Option{MaxParallelism(256)}
		for name, test := range map[string]struct {
			build func(*Job) error
			want  []string
		}{
			"set for the operator": {job(from, 2, set, nil, nil), []string{`"count"`, "256", "128"}},
			"set for the job":      {job(from, 2, nil, nil, map[string]string{"pipeline.max-parallelism": "256"}), []string{`"count"`, "256", "128"}},
			"too many subtasks":    {job(from, 200, nil, nil, nil), []string{`"count"`, "200 exceeds 128"}},
		} {
			r, _ := launch(t, t.Context(), test.build)
			err := wait(t, r)
			if wants(t, err, test.want...); b.times("in reads 20") > 0 {
				t.Errorf("%s: it has read something", name)
			}
		}
		n := 20
		for _, test := range []struct {
			parallelism int
			passing     []Option
		}{{2, set}, {2, nil}, {100, nil}} { // 100 would make 256
			n += 20
			in.let(n)
			from = left(t, b, kind, dir, fmt.Sprint("out: ", n-1), job(from, test.parallelism, nil, test.passing, nil))
			if op := metadata(t, from).Operators[1]; op.UID != "count" || op.MaxParallelism != 128 {
				t.Errorf("saved again with max parallelism %d", op.MaxParallelism)
			}
		}
		same(t, "output", b.all("out: "), upTo(n))
	}
}

// A max parallelism that is set to another, and may be, has all keys hashed anew. From
// then on it is the saved one.
func TestMaxParallelismChangesWhereItMay(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, b := t.TempDir(), newBoard()
			in, out := count(b, "in", far), newLedger[string](b, "out")
			from, n := "", 0
			for _, test := range []struct {
				parallelism, most int
				change            bool
			}{{2, 128, false}, {2, 256, true}, {3, 5, true}, {5, 5, false}, {6, 1000, true}, {2, 1000, true}, {1, 0, true}} {
				n += 40
				from = left(t, b, kind, dir, "out: "+tenthsUpTo(n)[n-1], tenths(b, in.let(n), out, test.parallelism, func(job *Job) {
					job.From, job.Checkpoints.Dir, job.ChangeMaxParallelism = from, dir, test.change
					if test.most > 0 {
						job.Config = map[string]string{"pipeline.max-parallelism": fmt.Sprint(test.most)}
					}
				}))
			}
			same(t, "output", b.all("out: "), tenthsUpTo(n))
			if k := b.times("in reads 0"); k != 1 {
				t.Errorf("the first number was read %d times", k)
			}
			for _, op := range metadata(t, from).Operators {
				if op.UID == "tenths" && op.MaxParallelism != 1000 {
					t.Errorf("at the end it is %d", op.MaxParallelism)
				}
			}
		})
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

// without is the job passing without its operator that counts.
func without(in *numbers, out *ledger[string], settings func(*Job)) func(*Job) error {
	return func(job *Job) error {
		job.Name = "passing"
		quick(job)
		settings(job)
		To(Map(From(job, "in", in), "text", func(n int) string { return fmt.Sprint(n) }), "out", out)
		return nil
	}
}

// dropped are the lines of a log that say that state is dropped.
func dropped(log *journal) (all []string) {
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "dropped") {
			all = append(all, line)
		}
	}
	return all
}

// S49: there is state of an operator that is gone. The job fails before it reads
// anything, and names the operator and the flag; with the flag it runs, and the log
// says what was dropped, and how much.
func TestStateOfAnOperatorThatIsGone(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		dir, b := t.TempDir(), newBoard()
		in := count(b, "in", far)
		path := left(t, b, kind, dir, "out: 9 is number 10", passing(in.let(10), newLedger[string](b, "out"), func(job *Job) { job.Checkpoints.Dir = dir }))
		in.let(20)
		out := newLedger[string](b, "without")
		build := func(allow bool) func(*Job) error {
			return without(in, out, func(job *Job) { job.From, job.AllowNonRestored = path, allow })
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
		var bytes int64
		for _, op := range metadata(t, path).Operators {
			if op.UID == "count" {
				bytes = op.Bytes()
			}
		}
		if said := dropped(log); bytes == 0 || len(said) != 1 || !strings.Contains(said[0], fmt.Sprintf("operator=count bytes=%d", bytes)) {
			t.Errorf("of %d bytes the log says %q", bytes, said)
		}
		if b.times("in reads 0") != 1 {
			t.Error("the source's state was dropped, too")
		}
	}
}

// S50: whether state may be dropped is one rule, whichever way the job comes by its
// checkpoint: by its path, as the latest of its own, or in an automatic restart.
func TestPermissionToDropHoldsOnEveryPath(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	in := count(b, "in", far)
	from := map[string]string{}
	for _, kind := range []string{"savepoint", "checkpoint"} { // the latest is that of the last run
		from[kind] = left(t, b, kind, dir, kind+": 9 is number 10", passing(in.let(10), newLedger[string](b, kind), func(job *Job) { job.Checkpoints.Dir = dir }))
	}
	path, point := from["checkpoint"], from["savepoint"]

	var refusals []string
	for _, from := range []string{path, Latest, point} {
		r, _ := launch(t, t.Context(), without(in, newLedger[string](b, "refused"), func(job *Job) { job.From, job.Checkpoints.Dir = from, dir }))
		err := wait(t, r)
		wants(t, err, `"count"`, "-allowNonRestoredState")
		refusals = append(refusals, err.Error())
	}
	if refusals[0] != refusals[1] {
		t.Errorf("by its path it is refused with %q\nas the latest one with %q", refusals[0], refusals[1])
	}
	if _, why, _ := strings.Cut(refusals[2], ": operator"); !strings.HasSuffix(refusals[0], why) {
		t.Errorf("the savepoint is refused with %q", why)
	}

	for _, from := range []string{Latest, path, point} {
		in := count(b, from, far).let(60)
		in.fault = &fault{point: "read"}
		r, log := launch(t, t.Context(), without(in, newLedger[string](b, "allowed"), func(job *Job) {
			job.From, job.Checkpoints.Dir, job.AllowNonRestored = from, dir, true
			job.Checkpoints.Interval = time.Hour // so that the restart begins from there again
			job.Checkpoints.Retention = RetainOnCancel
		}))
		b.await(t, 1, from+" reads 59")
		if said := dropped(log); len(said) != 2 || len(r.Failures()) != 1 {
			t.Errorf("from %s: %d failures, and it says %q", from, len(r.Failures()), said)
		}
		if n := b.times(from + " reads 10"); n != 2 || b.times(from+" reads 9") > 0 {
			t.Errorf("from %s: the first number behind the checkpoint was read %d times", from, n)
		}
		if err := soon(t, "the end", func() error { return r.Cancel(context.Background()) }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOtherTypesThanStoredAreRefused changes a state, a key, and the splits.
func TestOtherTypesThanStoredAreRefused(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBoard()
	from := map[string]string{}
	for _, kind := range kinds {
		from[kind] = left(t, b, kind, dir, kind+": 9 is number 10", passing(count(b, "in", far).let(10), newLedger[string](b, kind), func(job *Job) { job.Checkpoints.Dir = dir }))
	}
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
		for kind, path := range from {
			r, _ := launch(t, t.Context(), func(job *Job) error {
				job.From, job.AllowNonRestored = path, true
				job.Checkpoints.Interval = time.Hour
				test.build(job)
				return nil
			})
			wants(t, wait(t, r), test.want...)
			if n := len(r.Failures()); n != 1 {
				t.Errorf("%s of a %s: it was tried %d times", name, kind, n)
			}
		}
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
	parallel(t)
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
