package weir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// Jobs that have changed since they were stopped, and what they make of the state
// that they had.

// A change is what may have become of the job passing while it was stopped.
type change struct {
	parallelism int
	added       bool     // an operator with state in the middle, and a new end
	removed     bool     // an operator without state
	lost        bool     // one with state, which is dropped
	chain       []Option // of the operator behind the one that counts
}

// changed is a job that numbers numbers, and writes them by way of two more
// operators: one that only passes them on, and one that keeps them in a list.
func changed(b *board, in *numbers, out *ledger[string], c change, settings func(*Job)) func(*Job) error {
	return func(job *Job) error {
		quick(job)
		job.Parallelism = max(1, c.parallelism)
		settings(job)
		counts := counted(From(job, "in", in), "count")
		if c.added {
			counts = Process(KeyBy(counts, func(s string) string { return s }), "added", func(op *Op[string, string]) Handler[string] {
				seen := state.NewValue[bool](op, "seen")
				b.say("added: restored %v of %d", op.Restored(), op.RestoredCheckpoint())
				return Handler[string]{Record: func(s string) error {
					if seen.Get() {
						b.say("twice: %s", s)
					}
					seen.Set(true)
					op.Emit(s)
					return nil
				}}
			})
			Do(counts, "new end", func(string) error { return nil })
		}
		if !c.removed {
			counts = Filter(counts, "filter", func(string) bool { return true }, c.chain...)
		}
		if !c.lost {
			counts = Operate(counts, "keep", func(op *Out[string]) Handler[string] {
				kept := state.NewSplit[string](op, "kept")
				b.say("kept: restored %v of %d", op.Restored(), op.RestoredCheckpoint())
				for s := range kept.All() {
					b.say("kept %s", s)
				}
				return Handler[string]{Record: func(s string) error {
					kept.Append(s)
					op.Emit(s)
					return nil
				}}
			})
		}
		To(counts, "out", out)
		return nil
	}
}

// TestChangedJobsGoOn restores a job whose operators are others now, or elsewhere, or
// more. What is still there goes on where it was. S65: an operator that is new begins
// empty and is told so, and one that gets no share of what was saved isn't new; both
// know which checkpoint they were restored from.
func TestChangedJobsGoOn(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for name, c := range map[string]change{
			"unchanged":       {},
			"added":           {added: true},
			"removed":         {removed: true},
			"with state lost": {lost: true},
			"chain ended":     {chain: []Option{StartChain()}},
			"alone":           {chain: []Option{NoChain()}},
			"parallelism":     {parallelism: 3},
			"all":             {4, true, true, true, nil},
			"moved and more":  {2, true, false, false, []Option{NoChain()}},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, b := t.TempDir(), newBoard()
				in, out := count(b, "in", far), newLedger[string](b, "out")
				from := left(t, b, kind, dir, "out: 9 is number 10", changed(b, in.let(10), out, change{}, func(job *Job) { job.Checkpoints.Dir = dir }))
				was := metadata(t, from).Number
				again := newBoard() // where the changed job's operators speak
				ctx, end := context.WithCancel(t.Context())
				r, _ := launch(t, ctx, changed(again, in.let(20), out, c, func(job *Job) {
					job.From, job.Checkpoints.Dir, job.AllowNonRestored = from, dir, c.lost
				}))
				for _, line := range countedUpTo(20) {
					b.await(t, 1, "out: "+line)
				}
				end()
				wait(t, r)
				same(t, "output", b.all("out: "), countedUpTo(20))
				if n := b.times("in reads 0"); n != 1 {
					t.Errorf("the first number was read %d times", n)
				}
				p := max(1, c.parallelism)
				if n := again.times(fmt.Sprintf("added: restored false of %d", was)); n != p && c.added {
					t.Errorf("%d subtasks of the new operator know that it is new: %q", n, again.all("added: "))
				}
				if !c.lost {
					same(t, "what was kept", again.all("kept "), countedUpTo(10))
					if n := again.times(fmt.Sprintf("kept: restored true of %d", was)); n != p {
						t.Errorf("%d subtasks of the old operator know that it was restored: %q", n, again.all("kept: "))
					}
				}
				if left := again.all("twice: "); len(left) > 0 {
					t.Errorf("the new operator has had %q before", left)
				}
			})
		}
	}
}

// summed puts behind each text the sum of what all of them were worth, in state of one
// key.
func summed(in Stream[string], uid string, worth int, opts ...Option) Stream[string] {
	return Process(KeyBy(in, func(string) string { return "all" }), uid, func(op *Op[string, string]) Handler[string] {
		sum := state.NewValue[int](op, "sum")
		return Handler[string]{Record: func(s string) error {
			sum.Set(sum.Get() + worth)
			op.Emit(fmt.Sprint(s, " ", sum.Get()))
			return nil
		}}
	}, opts...)
}

// S52: A and B sum up in operators without uid. When the job gets another shape, their
// generated ids can be those that others had: it is refused, with the advice to give
// uids. With these, and the generated ids as former names, all goes on.
func TestGeneratedIDsNeverGiveStateToAnother(t *testing.T) {
	t.Parallel()
	all := func(string) bool { return true }
	type named struct {
		uid  string
		opts []Option
	}
	build := func(in *numbers, out *ledger[string], steps []string, names map[string]named, settings func(*Job)) func(*Job) error {
		return func(job *Job) error {
			quick(job)
			settings(job)
			s := Map(From(job, "in", in), "text", func(n int) string { return fmt.Sprint(n) })
			for _, step := range steps {
				switch name := names[step]; step {
				case "A":
					s = summed(s, name.uid, 1, name.opts...)
				case "B":
					s = summed(s, name.uid, 10, name.opts...)
				case "filter":
					s = Filter(s, name.uid, all)
				case "sum": // that nobody sees
					Do(summed(s, name.uid, 100), "nothing", func(string) error { return nil })
				}
			}
			To(Rebalance(s), "out", out)
			return nil
		}
	}
	line := func(n int) string { return fmt.Sprint(n, " ", n+1, " ", 10*(n+1)) }
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir, b := t.TempDir(), newBoard()
			in, out := count(b, "in", far), newLedger[string](b, "out")
			from := left(t, b, kind, dir, "out: "+line(9), build(in.let(10), out, []string{"A", "B"}, nil, func(job *Job) { job.Checkpoints.Dir = dir }))
			start := func(job *Job) { job.From, job.Checkpoints.Dir = from, dir }
			var generated []string
			for _, op := range metadata(t, from).Operators {
				if op.UID == "" {
					generated = append(generated, op.ID.String())
				}
			}
			names := map[string]named{"A": {"A", []Option{Formerly(generated[0])}}, "B": {"B", []Option{Formerly(generated[1])}}, "filter": {uid: "filter"}, "sum": {uid: "sum"}}
			for i, steps := range [][]string{{"filter", "A", "B"}, {"sum", "A", "B"}, {"A", "filter", "B"}, {"A", "sum", "B"}, {"A", "B", "filter"}, {"A", "B", "sum"}, {"B"}} {
				in := count(b, fmt.Sprint("in ", i), far).let(20)
				r, _ := launch(t, t.Context(), build(in, out, steps, nil, start))
				wants(t, wait(t, r), "without uid", "Formerly")
				if n := len(b.all(in.uid + " reads ")); n > 0 {
					t.Errorf("%q: %d numbers were read", steps, n)
				}
				if len(steps) < 3 {
					continue
				}
				again := newLedger[string](b, fmt.Sprint("again ", i))
				left(t, b, kind, dir, again.uid+": "+line(19), build(in, again, steps, names, start))
				if n := b.times(in.uid + " reads 9"); n > 0 {
					t.Errorf("%q: a number from before was read", steps)
				}
			}
			in.let(20)
			left(t, b, kind, dir, "out: "+line(19), build(in, out, []string{"A", "B"}, nil, start)) // without any change
		})
	}
}

// S53: where every operator must have a uid, one in the middle of a chain is found,
// too.
func TestOperatorWithoutUIDIsFoundInAChain(t *testing.T) {
	t.Parallel()
	var found []string
	for _, chaining := range []string{"true", "false"} {
		_, err := prepare(func(job *Job) error {
			job.Config = map[string]string{"pipeline.auto-generate-uids": "false", "pipeline.operator-chaining.enabled": chaining}
			Do(Map(FromSlice(job, "in", []int{1}), "", double), "end", func(int) error { return nil })
			return nil
		}, config.Layer{}, config.Layer{})
		wants(t, err, `"map" at `, "engine_change_test.go:", "no uid")
		found = append(found, err.Error())
	}
	if found[0] != found[1] {
		t.Errorf("chained: %s\nunchained: %s", found[0], found[1])
	}
}

// S55: two processes that build the same job give its operators the same ids, also
// those that they generate.
func TestTwoProcessesAgreeOnIDs(t *testing.T) {
	t.Parallel()
	shown := func() string {
		p := must(prepare(verbs, config.Layer{}, config.Layer{}))(t)
		var b bytes.Buffer
		for _, n := range p.info().Stream.Nodes {
			fmt.Fprint(&b, n.ID, " ", n.Name, "; ")
		}
		return "ids: " + b.String()
	}
	if os.Getenv("WEIR_TEST_IDS") != "" {
		fmt.Println(shown())
		return
	}
	here := shown()
	for range 3 {
		cmd := exec.Command(must(os.Executable())(t), "-test.run", "^TestTwoProcessesAgreeOnIDs$")
		cmd.Env = append(os.Environ(), "WEIR_TEST_IDS=1")
		out := must(cmd.Output())(t)
		if there, _, _ := strings.Cut(string(out), "\n"); there != here {
			t.Fatalf("there %s\nhere  %s", there, here)
		}
	}
}

// verbs is a job with each verb and view, none with a uid.
func verbs(job *Job) error {
	job.Checkpoints.Interval = time.Hour // or its file sink would never show anything
	tag := NewTag[string]("side")
	n := Union(FromSlice(job, "", []int{1}), From(job, "", datagen.Source[int]{Make: func(n int64, _ *rand.Rand) int { return int(n) }}))
	n = Union(n, FromChannel(job, "", make(chan int), AcceptLoss()))
	n = TryMap(Filter(Map(n, "", double), "", func(int) bool { return true }), "", func(n int) (int, error) { return n, nil })
	n = Each(Rescale(n), "", func(n int, emit func(int)) error { emit(n); return nil })
	n = FlatMap(Shuffle(n), "", func(n int) iter.Seq[int] { return slices.Values([]int{n}) })
	n = Operate(Rebalance(n), "", func(op *Out[int]) Handler[int] {
		tag.Of(op)
		return Handler[int]{Record: func(int) error { return nil }}
	})
	Print(Side(n, tag), "")
	lines := From(job, "", file.Lines("in"))
	To(Replicate(lines), "", file.Sink[string]{Dir: "out", Format: file.AppendLine})
	keys := KeyBy(Forward(n), double)
	var all []Pair[int, int64]
	Collect(Global(Count(keys, "")), "", &all)
	Do(Reduce(keys, "", func(a, b int) int { return a + b }), "", func(Pair[int, int]) error { return nil })
	Fold(keys, "", func(a, b int) int { return a + b })
	Process(keys, "", func(*Op[int, int]) Handler[int] { return Handler[int]{Record: func(int) error { return nil }} })
	Map(PartitionBy(n, func(int, int) int { return 0 }), "", double)
	return nil
}

// shards is a source of splits that never end, of a number each millisecond.
type shards struct {
	*board
	life int
}

type shard struct{ Number, Next int }

// shardCount is how many shards there are.
const shardCount = 5

func (s shards) Enumerate(_ context.Context, e connector.Enumeration[shard]) error {
	for i := range shardCount {
		e.Assign(shard{Number: i})
	}
	return nil
}

func (s shards) Open(_ context.Context, r connector.Reading) (connector.Reader[shard, shard], error) {
	return shardReader{s, r.Subtask()}, nil
}

type shardReader struct {
	shards
	subtask int
}

func (r shardReader) Read(ctx context.Context, at *shard, into *record.Batch[shard]) error {
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	r.say("life %d: shard %d is read by subtask %d", r.life, at.Number, r.subtask)
	into.Add(*at)
	at.Next++
	return nil
}

func (shardReader) Close() error { return nil }

// S59: from parallelism 2 to 3, to 1 and to 4, with a savepoint each time. Each key's
// count is exact after each step, each shard is read by exactly one subtask, and the
// items of a list are those that there were.
func TestSavepointsAtOtherParallelisms(t *testing.T) {
	t.Parallel()
	b := newBoard()
	var items []string
	for i := range 13 {
		items = append(items, fmt.Sprint("item ", i))
	}
	build := func(life, parallelism int, from string) func(*Job) error {
		return func(job *Job) error {
			job.Parallelism, job.From = parallelism, from
			in := From(job, "in", shards{b, life})
			counts := Process(KeyBy(in, func(s shard) string { return fmt.Sprint("shard ", s.Number) }), "count", func(op *Op[string, string]) Handler[shard] {
				count := state.NewValue[int](op, "count")
				return Handler[shard]{Record: func(s shard) error {
					count.Set(count.Get() + 1)
					op.Emit(fmt.Sprintf("%s %d is number %d", op.Key(), s.Next, count.Get()))
					return nil
				}}
			})
			Do(Operate(counts, "list", func(op *Out[string]) Handler[string] {
				list := state.NewSplit[string](op, "items")
				if !op.Restored() {
					for i := op.Subtask(); i < len(items); i += op.Parallelism() {
						list.Append(items[i])
					}
				}
				for item := range list.All() {
					b.say("life %d has %s", life, item)
				}
				return Handler[string]{Record: func(s string) error { op.Emit(s); return nil }}
			}), "say", func(s string) error { b.say("life %d: %s", life, s); return nil })
			return nil
		}
	}
	from, next := "", [shardCount]int{} // the first number of each shard that hasn't been seen
	for life, parallelism := range []int{2, 3, 1, 4} {
		r, _ := launch(t, t.Context(), build(life, parallelism, from))
		for i, n := range next {
			b.await(t, 1, fmt.Sprintf("life %d: shard %d %d is number %d", life, i, n+20, n+21))
		}
		from = must(savepoint(t, r, t.TempDir()))(t)
		if err := soon(t, "the end", func() error { return r.Cancel(context.Background()) }); err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("items in life %d", life), b.all(fmt.Sprintf("life %d has ", life)), items)
		for i := range next {
			if readers := slices.Compact(b.all(fmt.Sprintf("life %d: shard %d is read by ", life, i))); len(readers) != 1 {
				t.Errorf("life %d: shard %d is read by %q", life, i, readers)
			}
			seen := b.all(fmt.Sprintf("life %d: shard %d ", life, i))
			seen = slices.DeleteFunc(seen, func(s string) bool { return strings.HasPrefix(s, "is read") })
			exact := func(n int) bool {
				return b.times(fmt.Sprintf("life %d: shard %d %d is number %d", life, i, n, n+1)) == 1
			}
			first := next[i]
			for exact(first - 1) {
				first-- // what came between the last savepoint and the end comes again
			}
			for exact(next[i]) {
				next[i]++
			}
			if n := next[i] - first; n != len(seen) || life > 0 && first == 0 {
				t.Errorf("life %d: shard %d begins with %d, and %d of %d counts are right", life, i, first, n, len(seen))
			}
		}
	}
}

// S64: a process is killed when one of three subtasks has written its part of the
// first checkpoint. That is no checkpoint, for whoever looks at the disk as it is
// then: the job begins at the beginning, and skips nothing.
func TestPartsOfACheckpointAreNone(t *testing.T) {
	t.Parallel()
	dir, left, b := t.TempDir(), t.TempDir(), newBoard()
	held := make(chan struct{})
	var created atomic.Int32
	disk := &filesystem.Faulty{
		FileSystem: filesystem.Local{},
		Before: func(op, path string) error {
			if op == "create" && strings.Contains(path, "/chk-1/") && created.Add(1) > 1 {
				b.say("held")
				<-held
			}
			return nil
		},
		After: func(op, path string) error {
			if op == "sync" && strings.Contains(path, "/chk-1/") {
				b.say("written")
			}
			return nil
		},
	}
	build := func(in *numbers, name, dir string) func(*Job) error {
		return func(job *Job) error {
			job.Name, job.From, job.Parallelism = "three", Latest, 3
			job.Checkpoints.Dir, job.Checkpoints.Interval = dir, time.Hour
			job.Config = map[string]string{"execution.checkpointing.data-inline-threshold": "0"}
			counts := Count(KeyBy(From(job, "in", in), func(n int) int { return n % 30 }), "count")
			Do(counts, "say", func(p Pair[int, int64]) error { b.say("%s: %d %d", name, p.Key, p.Value); return nil })
			return nil
		}
	}
	var counts []string
	for n := range 60 {
		counts = append(counts, fmt.Sprint(n%30, " ", n/30+1))
	}
	killed, _ := launch(t, t.Context(), build(count(b, "in", far).let(60), "killed", dir), on(disk))
	for _, c := range counts {
		b.await(t, 1, "killed: "+c)
	}
	t.Cleanup(func() { close(held) }) // before it is cancelled
	go killed.Checkpoint(t.Context(), false)
	b.await(t, 1, "written")
	b.await(t, 2, "held")
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if files := must(fs.Glob(os.DirFS(left), "*/chk-1/*"))(t); len(files) != 1 {
		t.Fatalf("it has left %q", files)
	}
	r, log := launch(t, t.Context(), build(count(b, "in", 60).let(60), "again", left))
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	if r.ID() != killed.ID() || !strings.Contains(log.String(), "the job starts from the beginning") {
		t.Error("it isn't the same job, or doesn't say where it begins")
	}
	same(t, "counts", b.all("again: "), counts)
}

// S46: a savepoint whose metadata isn't whole is none. It fails at each of its steps;
// whoever asked is told, and what was left of it is refused before there is a run.
func TestIncompleteSavepointIsRefused(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "write", "sync", "close", "rename"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			points, dir, b := t.TempDir(), t.TempDir(), newBoard()
			var full atomic.Bool
			disk := &filesystem.Faulty{FileSystem: filesystem.Local{}, Before: func(o, path string) error {
				switch {
				case !strings.HasPrefix(path, points):
				case o == "remove": // so that what is left stays
					return errors.New("stays")
				case o == op && full.Load() && strings.Contains(path, "_metadata"):
					return filesystem.Torn{Bytes: 20, Err: errors.New("torn")}
				}
				return nil
			}}
			in := count(b, "in", far).let(10)
			r, _ := launch(t, t.Context(), passing(in, newLedger[string](b, "out"), nil), on(disk))
			b.await(t, 1, "out: 9 is number 10")
			full.Store(true)
			_, err := savepoint(t, r, points)
			wants(t, err, "torn")
			full.Store(false)
			left := must(filepath.Glob(filepath.Join(points, "savepoint-*")))(t)
			if len(left) != 1 {
				t.Fatalf("%q are left", left)
			}
			_, err = Start(t.Context(), passing(in, newLedger[string](b, "never"), func(job *Job) { job.From, job.Checkpoints.Dir = left[0], dir }))
			wants(t, err, left[0], "incomplete or corrupt")
			if runs := must(os.ReadDir(dir))(t); len(runs) > 0 {
				t.Errorf("a run was recorded: %v", runs)
			}
			whole := must(savepoint(t, r, points))(t)
			launch(t, t.Context(), passing(in.let(20), newLedger[string](b, "again"), func(job *Job) { job.From = whole }))
			b.await(t, 1, "again: 19 is number 20")
		})
	}
}

// S47: two jobs put their savepoints, of the same numbers, into one directory at the
// same time. Each goes on from its own.
func TestTwoJobsSavepointsInOneDirectory(t *testing.T) {
	t.Parallel()
	points, b := t.TempDir(), newBoard()
	names := []string{"left", "right"}
	var jobs [2]*Running
	var ins [2]*numbers
	for i, name := range names {
		ins[i] = count(b, "in "+name, far).let(10 + i)
		jobs[i], _ = launch(t, t.Context(), passing(ins[i], newLedger[string](b, name), func(job *Job) { job.Checkpoints.Interval = time.Hour }))
		b.await(t, 1, fmt.Sprintf("in %s reads %d", name, 9+i))
	}
	var paths [2]string
	var errs [2]error
	var both sync.WaitGroup
	for i := range jobs {
		both.Go(func() { paths[i], errs[i] = jobs[i].Savepoint(t.Context(), points) })
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if cp := metadata(t, paths[i]); cp.Number != 1 || cp.JobID != jobs[i].ID() {
			t.Errorf("the savepoint of %s is number %d of %s", name, cp.Number, cp.JobID)
		}
		launch(t, t.Context(), passing(ins[i].let(20+i), newLedger[string](b, name+" again"), func(job *Job) { job.From = paths[i] }))
		b.await(t, 1, fmt.Sprintf("%s again: %s", name, countedUpTo(20 + i)[19+i]))
		if n := b.times("in " + name + " reads 0"); n != 1 {
			t.Errorf("the first number of %s was read %d times", name, n)
		}
	}
}
