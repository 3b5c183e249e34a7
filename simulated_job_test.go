package weir

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/run"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

var (
	seeds    = flag.Int("seeds", 0, "how many lives of a job to simulate; 0 is 1000, or 200 with the race detector, which finds nothing new in a simulation that has one goroutine")
	oneSeed  = flag.Int64("seed", -1, "simulate this life only, and print its steps")
	showLogs = flag.Bool("logs", false, "with -seed: print the engine's log, too")
)

// points are the places where the simulation has to have struck, at least once
// over all seeds: those that issue and design name.
var points = []string{
	"kill control.Trigger", "kill align", "kill freeze", "kill capture", "kill write", "kill before persist", "kill after persist",
	"kill control.Ack", "kill control.Complete", "kill before store", "kill after store", "kill before commit", "kill after commit",
	"kill before write _metadata", "kill after write _metadata", "kill before rename _metadata", "kill after rename _metadata",
	"kill before rename out", "kill after rename out", "kill before write chk-",
	"error align", "error freeze", "error capture", "error write", "error before write _metadata", "error before rename _metadata",
	"error before write chk-", "error before write out", "error before rename out", "error user function", "error user panic",
	"lose control.Trigger", "lose control.Ack", "lose control.Complete", "lose control.Abort", "lose control.Request", "lose control.Assign", "lose control.Ended",
	"late control.Trigger", "late control.Ack", "late control.Complete", "repeat control.Ack", "repeat control.Assign", "repeat control.Complete",
	"delay write _metadata", "delay rename _metadata", "delay write chk-", "delay sync chk-", "delay rename out", "crash tears", "crash reorders",
	"savepoint", "stop", "cancel", "restart behind a cancellation",
}

// TestSimulatedJobIsExact lives through many lives of a job, each with crashes,
// errors and lost messages, changing its parallelism at every start, and holds
// the output to the law: for each key the counts 1, 2, ... once each, at every
// crash as far as output is final, and all of it in the end.
func TestSimulatedJobIsExact(t *testing.T) {
	n := *seeds
	switch {
	case n > 0:
	case testing.Short():
		n = 30
	case raced:
		n = 200
	default:
		n = 1000
	}
	hits := map[string]int{}
	for seed := range int64(n) {
		if *oneSeed >= 0 {
			seed = *oneSeed
		}
		l := newLife(t, uint64(seed))
		if err := l.live(); err != nil {
			t.Fatalf("seed %d: %v\nreplay with: go test -run TestSimulatedJobIsExact -seed %d -logs .", seed, err, seed)
		}
		for point, n := range l.w.hits {
			hits[point] += n
		}
		if *oneSeed >= 0 {
			return
		}
	}
	if n < 300 {
		return
	}
	for _, p := range points {
		if hits[p] == 0 {
			t.Errorf("%q was never hit", p)
		}
	}
	if t.Failed() {
		t.Logf("hit were %q", slices.Sorted(maps.Keys(hits)))
	}
}

// TestSimulationReplays lives one life twice and compares every step.
func TestSimulationReplays(t *testing.T) {
	var steps [2][]string
	for i := range steps {
		l := newLife(t, 7)
		l.w.trace = func(format string, args ...any) {
			steps[i] = append(steps[i], fmt.Sprint(l.w.now.UnixNano(), " ", fmt.Sprintf(format, args...)))
		}
		if err := l.live(); err != nil {
			t.Fatal(err)
		}
	}
	if len(steps[0]) < 100 {
		t.Fatalf("only %d steps", len(steps[0]))
	}
	for i := range steps[0] {
		if i >= len(steps[1]) || steps[0][i] != steps[1][i] {
			t.Fatalf("step %d differs: %s", i, steps[0][i])
		}
	}
}

// life is a job's, from its first start to its finish.
type life struct {
	w       *world
	log     *slog.Logger
	records []rec
	splits  int
	account account
	gone    map[string]bool // the jobs that have left nothing, or what is their user's now
	aims    int             // counts the points that were aimed at, from a place of the seed's

	retention Retention
	from      string // what the next process starts from
	orphans   bool   // a job was cancelled before its first checkpoint: its unfinished output stays
}

type rec struct {
	Key string
	N   int
}

// tally is what the job emits: the how-manieth record of a key it was.
type tally = Pair[string, int64]

func newLife(t *testing.T, seed uint64) *life {
	l := &life{log: slog.New(slog.DiscardHandler), gone: map[string]bool{}}
	trace := func(string, ...any) {}
	if *oneSeed >= 0 {
		trace = t.Logf
		if *showLogs {
			l.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
	}
	l.w = newWorld(seed, trace)
	l.splits = 1 + l.w.rng.IntN(8)
	l.w.rare = []int{3, 30, 300, 3000}[l.w.rng.IntN(4)]
	l.w.slow, l.w.cancels = true, l.w.rng.IntN(4) == 0
	l.retention, l.from = []Retention{RetainOnCancel, DeleteOnCancel}[l.w.rng.IntN(3)/2], Latest
	l.aims = int(seed)
	for i := range 100 + l.w.rng.IntN(1000) {
		l.records = append(l.records, rec{string(rune('a' + l.w.rng.IntN(20))), i})
	}
	return l
}

// live starts the job again and again until it has finished.
func (l *life) live() error {
	kills := 1 + l.w.rng.IntN(6)
	for start := 0; ; start++ {
		if start >= kills {
			l.w.calm = true
		}
		if start > kills+3 {
			return errors.New("it doesn't finish though nothing is wrong any more")
		}
		finished, err := l.process()
		switch {
		case errors.Is(err, ErrCancelled) && l.retention == DeleteOnCancel:
			return errors.Join(l.check(false), l.checkGone())
		case errors.Is(err, run.ErrCancelled) && l.retention == DeleteOnCancel:
			return l.check(false)
		case errors.Is(err, run.ErrCancelled):
			err = l.goOn()
		case errors.Is(err, ErrCancelled):
			err = nil
		}
		if err != nil {
			return fmt.Errorf("start %d: %w", start, err)
		}
		if err := l.check(finished); err != nil {
			return fmt.Errorf("start %d: %w", start, err)
		}
		if finished {
			return nil
		}
		l.w.crash()
	}
}

// process is the life of one process. It ends with the job or with a kill.
func (l *life) process() (finished bool, err error) {
	w, pick := l.w, l.w.rng
	w.aim.fault, w.aim.point, _ = strings.Cut(points[l.aims%len(points)], " ")
	w.aim.nth = 1 + pick.IntN(1+pick.IntN(4)) // some points aren't reached so often
	l.aims += 7                               // has no factor in common with their number, so each gets its turn
	if w.anew {
		l.from, w.anew = w.stopped, false
	}
	settings := []string{
		"execution.checkpointing.dir=file:///ckpt",
		fmt.Sprintf("execution.checkpointing.interval=%d ms", 10+pick.IntN(60)),
		fmt.Sprintf("execution.checkpointing.min-pause=%d ms", pick.IntN(2)*pick.IntN(30)),
		fmt.Sprintf("execution.checkpointing.timeout=%d ms", 500+pick.IntN(20000)),
		fmt.Sprintf("execution.checkpointing.savepoint-timeout=%d ms", 500+pick.IntN(20000)),
		fmt.Sprintf("execution.checkpointing.num-retained=%d", 1+pick.IntN(3)),
		fmt.Sprintf("execution.checkpointing.tolerable-failed-checkpoints=%d", pick.IntN(4)),
		fmt.Sprintf("execution.checkpointing.data-inline-threshold=%d", pick.IntN(2)*pick.IntN(2000)),
		fmt.Sprintf("execution.checkpointing.prefer-checkpoint-for-recovery=%v", pick.IntN(2) == 0),
		fmt.Sprintf("parallelism.default=%d", 1+pick.IntN(4)),
		"restart-strategy.type=fixed-delay",
		"restart-strategy.fixed-delay.attempts=20",
		"pipeline.name=simulated",
		fmt.Sprintf("execution.checkpointing.max-concurrent-checkpoints=%d", 1+pick.IntN(3)),
		"execution.checkpointing.externalized-checkpoint-retention=" + string(l.retention),
	}
	if l.from != "" {
		settings = append(settings, "execution.state-recovery.path="+l.from)
	}
	l.from = Latest
	files := filesystem.Set{"file": w.files()}
	p, err := prepare(func(job *Job) error { return l.build(job, files) }, config.Layer{}, config.Assignments(settings))
	if err != nil {
		return false, err
	}
	return w.execute(p, environment{
		executor: w, files: files, random: w.rng.Uint64, log: l.log,
		encode: pick.IntN(2) == 0, batchMax: 1 << pick.IntN(11), sliceMax: 1 << pick.IntN(6), line: w.send,
	})
}

// goOn does what the user of a job does that was cancelled too early: it is started
// as a new one, from the newest checkpoint that is left, or the savepoint that it would
// have gone on from, or else as it was before.
func (l *life) goOn() error {
	runs, err := run.Open(l.w.disk, "/ckpt").All()
	if err != nil {
		return err
	}
	last := runs[0]
	l.gone[last.ID] = true
	dir := "/ckpt/" + last.ID
	kept := &snapshot.Directory{Files: l.w.disk, Path: dir, URI: "file://" + dir}
	found, err := kept.Latest(context.Background(), true)
	own := found.Dir
	if last.Savepoint.Checkpoint > 0 && (found.Checkpoint == nil || last.Savepoint.Checkpoint > found.Checkpoint.Number) {
		own = last.Savepoint.Path
	}
	l.from, l.orphans = cmp.Or(own, last.From.Path), own == ""
	l.w.hits["restart behind a cancellation"]++
	return err
}

// checkGone holds a job whose checkpoints were to go when it was cancelled to that.
func (l *life) checkGone() error {
	for point := range l.w.hits {
		if strings.HasPrefix(point, "error before") || strings.HasPrefix(point, "kill") {
			return nil // then some may be left
		}
	}
	all, err := l.w.disk.List("/ckpt")
	for _, e := range all {
		if e.Name != ".runs" && !l.gone[e.Name] {
			return fmt.Errorf("the cancelled job has left %s", e.Name)
		}
	}
	return err
}

// build is the job: two sources, keyed state of several kinds, a buffer that is
// list state, a side output, chains and partitions of all kinds, two sinks that
// hold each record once, one whose two subtasks hold each record both, and a ledger
// that holds the engine to what it restores of shared state.
func (l *life) build(job *Job, files filesystem.Set) error {
	n := len(l.records) / 2
	a := From(job, "a", slowly{l.records[:n], l.splits})
	b := FromSlice(job, "b", l.records[n:])
	checked := TryMap(Union(a, Rebalance(b)), "user", func(r rec) (rec, error) {
		if l.w.reach("user panic", 0, 2000) != nil {
			panic("injected panic")
		}
		return r, l.w.reach("user function", 0, 2000)
	})
	thirds := NewTag[third]("thirds")
	tallies := Process(KeyBy(checked, func(r rec) string { return r.Key }), "count", func(op *Op[string, tally]) Handler[rec] {
		count := state.NewValue[int64](op, "count")
		seen := state.NewMap[int, bool](op, "seen")
		last := state.NewList[int](op, "last")
		emitThird := thirds.Of(op)
		return Handler[rec]{Record: func(r rec) error {
			if _, twice := seen.Lookup(r.N); twice {
				return fmt.Errorf("record %v comes twice", r)
			}
			seen.Put(r.N, true)
			if last.Append(r.N); last.Len() > 3 {
				last.Set([]int{r.N})
			}
			count.Set(count.Get() + 1)
			if count.Get()%3 == 0 {
				emitThird(third{tally{op.Key(), count.Get()}})
			}
			op.Emit(tally{op.Key(), count.Get()})
			return nil
		}}
	})
	To(tallies, "direct", l.sink("/out/direct", files))
	batches := Operate(anyhow(l.w.rng, tallies), "batch", func(op *Out[[]tally]) Handler[tally] {
		held := state.NewSplit[tally](op, "held")
		flush := func() error {
			if held.Len() > 0 {
				op.Emit(slices.Collect(held.All()))
				held.Clear()
			}
			return nil
		}
		return Handler[tally]{End: flush, Record: func(v tally) error {
			if held.Append(v); held.Len() < 7 {
				return nil
			}
			return flush()
		}}
	}, Parallelism(1+l.w.rng.IntN(4)))
	To(Each(batches, "unpack", func(all []tally, emit func(tally)) error {
		for _, v := range all {
			emit(v)
		}
		return nil
	}), "batched", l.sink("/out/batched", files))
	copies := Map(anyhow(l.w.rng, Side(tallies, thirds)), "third", func(t third) tally { return t.Tally })
	To(Replicate(copies), "thirds", l.sink("/out/thirds", files), Parallelism(2))
	Operate(Replicate(tallies), "ledger", l.keep)
	return nil
}

// third is every third tally of a key, on a side output.
type third struct{ Tally tally }

// anyhow spreads a stream in any way that brings each record to one subtask.
func anyhow[T any](pick *rand.Rand, in Stream[T]) Stream[T] {
	turn := 0 // of all senders: one thing happens at a time
	views := []func(Stream[T]) Stream[T]{
		asItIs[T], Rebalance[T], Rescale[T], Shuffle[T], Global[T],
		func(in Stream[T]) Stream[T] {
			return PartitionBy(in, func(_ T, subtasks int) int { turn += 3; return turn % subtasks })
		},
	}
	return views[pick.IntN(len(views))](in)
}

// An account is what the operator "ledger" has found in a whole life.
type account struct {
	wrong  error // the first
	closed bool  // it has seen the end
}

func (a *account) fail(format string, args ...any) {
	if a.wrong == nil {
		a.wrong = fmt.Errorf(format, args...)
	}
}

// keep keeps a ledger: every subtask counts all tallies, in a broadcast, and enters
// its share of them into a union. So whenever the job is restored, the shares of all
// subtasks are what each of them has counted.
func (l *life) keep(op *Out[struct{}]) Handler[tally] {
	counts := state.NewBroadcast[string, int64](op, "counts")
	entries := state.NewUnion[tally](op, "entries")
	mine := func(v tally) bool { return int(v.Value)%op.Parallelism() == op.Subtask() }
	all := slices.SortedFunc(entries.All(), func(a, b tally) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value)) })
	entries.Clear()
	entered := map[string]int64{}
	for _, v := range all {
		if n := entered[v.Key]; v.Value != n+1 {
			l.account.fail("restored from checkpoint %d: %v comes after %d in the entries %v", op.RestoredCheckpoint(), v, n, all)
		}
		if entered[v.Key] = v.Value; mine(v) {
			entries.Append(v)
		}
	}
	if counted := maps.Collect(counts.All()); !maps.Equal(entered, counted) {
		l.account.fail("restored from checkpoint %d with the counts %v and the entries %v", op.RestoredCheckpoint(), counted, all)
	}
	return Handler[tally]{
		Record: func(v tally) error {
			if n := counts.Get(v.Key); v.Value != n+1 {
				l.account.fail("%v comes after %d", v, n)
			}
			if counts.Put(v.Key, v.Value); mine(v) {
				entries.Append(v)
			}
			return nil
		},
		End: func() error {
			l.account.closed = true
			if counted := maps.Collect(counts.All()); !maps.Equal(counted, l.wanted()) {
				l.account.fail("in the end the counts are %v", counted)
			}
			return nil
		},
	}
}

// wanted is how often each key comes.
func (l *life) wanted() map[string]int64 {
	want := map[string]int64{}
	for _, r := range l.records {
		want[r.Key]++
	}
	return want
}

func (l *life) sink(dir string, files filesystem.Set) file.Sink[tally] {
	return file.Sink[tally]{Dir: dir, FileSystems: files, RollBytes: 100, Format: func(dst []byte, v tally) []byte {
		return fmt.Appendf(dst, "%s %d\n", v.Key, v.Value)
	}}
}

// check holds the final files to the law.
func (l *life) check(finished bool) error {
	if l.account.wrong != nil || finished && !l.account.closed {
		return fmt.Errorf("ledger closed %v: %w", l.account.closed, l.account.wrong)
	}
	want := l.wanted()
	for _, o := range []struct {
		dir          string
		step, copies int  // every so manieth count is there so many times
		inOrder      bool // no count is final before those below it
	}{{"/out/direct", 1, 1, true}, {"/out/batched", 1, 1, false}, {"/out/thirds", 3, 2, false}} {
		got := map[string][]int{}
		entries, err := l.w.disk.List(o.dir)
		if err != nil && finished {
			return err
		}
		for _, e := range entries {
			switch {
			case strings.HasPrefix(e.Name, "part-"):
				if err := l.count(o.dir+"/"+e.Name, got); err != nil {
					return err
				}
			case finished && !l.excused(e.Name):
				return fmt.Errorf("left behind: %s/%s", o.dir, e.Name)
			}
		}
		for key, n := range want {
			slices.Sort(got[key])
			var all []int
			for c := o.step; c <= int(n); c += o.step {
				all = append(all, slices.Repeat([]int{c}, o.copies)...)
			}
			switch {
			case finished && !slices.Equal(got[key], all), !partOf(got[key], all),
				o.inOrder && !slices.Equal(got[key], all[:len(got[key])]):
				return fmt.Errorf("%s: key %s has the counts %v, of %v", o.dir, key, got[key], all)
			}
		}
	}
	if !finished && !l.w.anew {
		return nil
	}
	for point := range l.w.hits {
		if strings.HasPrefix(point, "error before") {
			return nil // files that couldn't be deleted may be left
		}
	}
	jobs, err := l.w.disk.List("/ckpt")
	for _, e := range jobs { // a crash while a run was begun may leave its empty directory
		if left, _ := l.w.disk.List("/ckpt/" + e.Name); e.Name != ".runs" && !l.gone[e.Name] && len(left) > 0 {
			return fmt.Errorf("the finished job has left %v in %s", left, e.Name)
		}
	}
	runs, wrong := run.Open(l.w.disk, "/ckpt").All()
	for _, r := range runs { // a crash may bring some of it back
		l.gone[r.ID] = true
	}
	return errors.Join(err, wrong)
}

// excused reports whether unfinished output may be left in the end: that of a job that
// was cancelled, and not gone on from, or whose removal a crash may have undone.
func (l *life) excused(name string) bool {
	for id := range l.gone {
		if strings.Contains(name, id) {
			return l.orphans || l.w.hits["crash of the machine"] > 0
		}
	}
	return false
}

// partOf reports whether sorted numbers are among others, each as often.
func partOf(some, all []int) bool {
	for _, n := range all {
		if len(some) > 0 && some[0] == n {
			some = some[1:]
		}
	}
	return len(some) == 0
}

func (l *life) count(path string, into map[string][]int) error {
	r, err := l.w.disk.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		key, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("%s: line %q", path, line)
		}
		into[key] = append(into[key], n)
	}
	return nil
}

// slowly is a source whose enumerator finds a split at a time, and saves where it
// is, and whose readers give a few records at a time.
type slowly struct {
	records []rec
	splits  int
}

type stretch struct{ Next, End int }

func (s slowly) Bounded() bool { return true }

func (s slowly) Enumerate(_ context.Context, e connector.Enumeration[stretch]) error {
	from := 0
	if at := e.Position(); at != nil {
		from = int(at[0])
	}
	for i := from; i < s.splits; i++ {
		e.Assign(stretch{i * len(s.records) / s.splits, (i + 1) * len(s.records) / s.splits})
		e.Save([]byte{byte(i + 1)})
	}
	return nil
}

func (s slowly) Open(context.Context, connector.Reading) (connector.Reader[rec, stretch], error) {
	return &slowReader{s, rand.New(rand.NewPCG(1, 1))}, nil
}

type slowReader struct {
	slowly
	rng *rand.Rand
}

func (r *slowReader) Read(_ context.Context, at *stretch, into *record.Batch[rec]) error {
	n := min(1+r.rng.IntN(9), at.End-at.Next)
	into.Values = append(into.Values, r.records[at.Next:at.Next+n]...)
	if at.Next += n; at.Next == at.End {
		return io.EOF
	}
	return nil
}

func (r *slowReader) Close() error { return nil }
