package weir

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

// TestEveryVerb puts each verb and each view into one job.
func TestEveryVerb(t *testing.T) {
	t.Parallel()
	b := newBoard()
	var all []Pair[string, int64]
	err := Run(t.Context(), func(job *Job) error {
		n := Map(FromSlice(job, "slice", []int{1, 2, 3, 4}), "map", func(n int) int { return 10 * n })
		m := From(job, "from", count(b, "from", 5).let(5))
		n = TryMap(n, "try map", func(n int) (int, error) { return n + 1, nil })
		n = Filter(n, "filter", func(n int) bool { return n != 21 })
		n = Each(n, "each", func(n int, emit func(int)) error { emit(n); emit(-n); return nil })
		n = FlatMap(n, "flat map", func(n int) iter.Seq[int] { return slices.Values([]int{n, 1000 * n}) })
		u := Union(n, Rebalance(m), Shuffle(m))
		u = Operate(u, "operate", func(op *Out[int]) Handler[int] {
			return Handler[int]{
				Record: func(n int) error { op.Emit(n); return nil },
				End:    func() error { op.Emit(7); return nil },
			}
		})
		Print(Filter(u, "none", func(int) bool { return false }), "print")
		Do(u, "do", func(n int) error { b.say("do %d", n); return nil })
		parity := KeyBy(u, func(n int) string { return map[bool]string{true: "even", false: "odd"}[n%2 == 0] })
		Collect(Count(parity, "count"), "collect", &all)
		To(Reduce(parity, "reduce", func(a, b int) int { return a + b }), "to", newLedger[Pair[string, int]](b, "to"))
		To(Fold(parity, "fold", func(most string, n int) string { return max(most, fmt.Sprint(n)) }), "folded", newLedger[Pair[string, string]](b, "folded"))
		To(Process(parity, "process", func(op *Op[string, string]) Handler[int] {
			biggest := state.NewReducing(op, "biggest", func(a, b int) int { return max(a, b) })
			return Handler[int]{Record: func(n int) error {
				biggest.Add(n)
				op.Emit(fmt.Sprintf("%s %d", op.Key(), biggest.Get()))
				return nil
			}}
		}), "processed", newLedger[string](b, "processed"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "do", b.all("do "), []string{"11", "-11", "11000", "-11000", "31", "-31", "31000", "-31000", "41", "-41", "41000", "-41000",
		"0", "1", "2", "3", "4", "0", "1", "2", "3", "4", "7"})
	var counts []Pair[string, int64]
	for n := range int64(12) {
		counts = append(counts, Pair[string, int64]{"even", n + 1})
	}
	for n := range int64(11) {
		counts = append(counts, Pair[string, int64]{"odd", n + 1})
	}
	same(t, "collect", all, counts)
	if n := len(b.all("to: ")); n != 23 {
		t.Errorf("reduce emits %d records", n)
	}
	if b.times("to: {even 12}") == 0 || b.times("to: {odd 15}") == 0 {
		t.Errorf("reduce emits %q", b.all("to: "))
	}
	if b.times("folded: {even 41000}") == 0 || b.times("folded: {odd 7}") == 0 {
		t.Errorf("fold emits %q", b.all("folded: "))
	}
	if b.times("processed: even 41000") == 0 || b.times("processed: odd 41") == 0 {
		t.Errorf("process emits %q", b.all("processed: "))
	}
}

// TestOptionsShapeTheJob looks at what becomes of the options, and of the job's
// settings, in the job graph.
func TestOptionsShapeTheJob(t *testing.T) {
	t.Parallel()
	p := must(prepare(func(job *Job) error {
		job.Parallelism = 2
		in := FromSlice(job, "in", []int{1})
		a := Map(in, "a", double, Name("The first"))
		b := Map(a, "b", double, StartChain())
		c := Map(b, "c", double, NoChain())
		d := Map(c, "d", double, Parallelism(3), MaxParallelism(30))
		Count(KeyBy(d, double), "e")
		return nil
	}, config.Layer{}, config.Layer{}))(t)
	var got []string
	for _, task := range p.graph.Tasks {
		var uids []string
		for _, op := range task.Operators {
			uids = append(uids, op.UID)
		}
		got = append(got, fmt.Sprintf("%s %d/%d %s", task.Name, task.Parallelism, task.Operators[0].MaxParallelism, strings.Join(uids, ",")))
	}
	want := []string{"Source: in -> The first 2/128 in,a", "b 2/128 b", "c 2/128 c", "d 3/30 d", "e 2/128 e"}
	if !slices.Equal(got, want) {
		t.Errorf("tasks %q\nwant  %q", got, want)
	}
	var edges []string
	for _, e := range p.graph.Edges {
		edges = append(edges, e.Partition.String())
	}
	if want := []string{"forward", "forward", "rebalance", "hash"}; !slices.Equal(edges, want) {
		t.Errorf("edges %q, want %q", edges, want)
	}
}

func double(n int) int { return 2 * n }

// TestViewsSpreadRecords counts what each subtask gets.
func TestViewsSpreadRecords(t *testing.T) {
	t.Parallel()
	const records = 4000
	for name, view := range map[string]func(Stream[int]) Stream[int]{"rebalance": Rebalance[int], "shuffle": Shuffle[int]} {
		b := newBoard()
		err := Run(t.Context(), func(job *Job) error {
			job.Parallelism = 4
			one := FromSlice(job, "in", upToInt(records), Parallelism(1))
			two := FromSlice(job, "more", upToInt(records), Parallelism(1))
			Operate(view(Union(one, two)), "get", func(op *Out[int]) Handler[int] {
				n := 0
				return Handler[int]{
					Record: func(int) error { n++; return nil },
					End:    func() error { b.say("%d", n); return nil },
				}
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var total int
		for _, text := range b.all("") {
			var n int
			fmt.Sscan(text, &n)
			if total += n; n < records/2-records/8 || n > records/2+records/8 {
				t.Errorf("%s: a subtask gets %d records", name, n)
			}
		}
		if total != 2*records {
			t.Errorf("%s: %d records arrive", name, total)
		}
	}
}

func upToInt(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

type hidden struct {
	Seen   int
	unseen int //lint:ignore U1000 it is what is wrong
}

// strange is a source and a sink whose splits and committables can't be stored.
type strange struct {
	connector.AtLeastOnce
}

func (strange) Enumerate(context.Context, connector.Enumeration[hidden]) error { return nil }
func (strange) Open(context.Context, connector.Reading) (connector.Reader[int, hidden], error) {
	return nil, nil
}

type strangeSink struct{ connector.AtLeastOnce }

func (strangeSink) Open(context.Context, connector.Writing) (connector.Writer[int, any], error) {
	return nil, nil
}

// TestMistakesAreRefusedWithTheReason builds jobs that can't be right. Nothing of
// them is started.
func TestMistakesAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	type float struct{ F float64 }
	ints := func(job *Job) Stream[int] { return FromSlice(job, "in", []int{1}) }
	for name, test := range map[string]struct {
		build func(*Job) error
		want  []string
	}{
		"float in a key":       {func(j *Job) error { Count(KeyBy(ints(j), func(int) float { return float{} }), "c"); return nil }, []string{"key by at ", "api_test.go:", ": float.F: float64 is no key"}},
		"time as a key":        {func(j *Job) error { Count(KeyBy(ints(j), func(int) time.Time { return time.Time{} }), "c"); return nil }, []string{"time.Time"}},
		"interface as a key":   {func(j *Job) error { Count(KeyBy(ints(j), func(int) any { return 1 }), "c"); return nil }, []string{"interface"}},
		"pointer in a key":     {func(j *Job) error { Count(KeyBy(ints(j), func(int) [2]*int { return [2]*int{} }), "c"); return nil }, []string{"*int", "this process only"}},
		"unexported in a key":  {func(j *Job) error { Count(KeyBy(ints(j), func(int) hidden { return hidden{} }), "c"); return nil }, []string{"unseen"}},
		"unexported field":     {func(j *Job) error { Map(ints(j), "m", func(int) hidden { return hidden{} }); return nil }, []string{`map "m" at `, "api_test.go:", "unseen"}},
		"interface in a field": {func(j *Job) error { FromSlice(j, "in", []struct{ V any }{}); return nil }, []string{`"in"`, "V", "interface"}},
		"error as a record":    {func(j *Job) error { Map(ints(j), "m", func(int) error { return nil }); return nil }, []string{`"m"`, "interface"}},
		"function":             {func(j *Job) error { Map(ints(j), "m", func(int) func() { return nil }); return nil }, []string{`"m"`, "func"}},
		"splits":               {func(j *Job) error { From(j, "s", strange{}); return nil }, []string{`from "s"`, "splits", "unseen"}},
		"committables":         {func(j *Job) error { To(ints(j), "s", strangeSink{}); return nil }, []string{`to "s"`, "committables", "interface"}},
		"settings of ends": {func(j *Job) error {
			To(From(j, "s", file.Source{Path: "s3://bucket/in", Match: "["}), "t", file.Sink[string]{Dir: "s3://bucket/out"})
			return nil
		}, []string{`from "s" at `, `s3://bucket/in": no file system for scheme "s3"; known: file`, `match files with "["`, `to "t" at `, `s3://bucket/out"`, "no Format"}},
		"nil": {func(j *Job) error {
			in := From(j, "from", connector.Source[int, int](nil))
			Map[int, int](in, "map", nil)
			TryMap[int, int](in, "try map", nil)
			Filter(in, "filter", nil)
			Each[int, int](in, "each", nil)
			FlatMap[int, int](in, "flat map", nil)
			Do(PartitionBy(in, nil), "do", nil)
			Operate[int, int](in, "operate", nil)
			keyed := KeyBy[int](in, nil)
			Process[int, int, int](keyed, "process", nil)
			Reduce(keyed, "reduce", nil)
			Fold[int, int, int](keyed, "fold", nil)
			Collect(in, "collect", nil)
			To(in, "to", connector.Sink[int, int](nil))
			return nil
		}, []string{
			`from "from" at `, "api_test.go:", ": the source is nil", `try map "try map" at`, `filter "filter"`, `each "each"`,
			`flat map "flat map"`, `do "do"`, "partition by at ", `operate "operate"`, "the constructor is nil", "key by at ",
			`process "process"`, `reduce "reduce"`, `fold "fold"`, `collect "collect"`, "the slice is nil", `to "to"`, "the sink is nil",
		}},
		"no uid": {func(j *Job) error { j.Config = strict; Map(ints(j), "", double); return nil }, []string{"map", "api_test.go:", "no uid"}},
		"no uid in a chain, without chains": {func(j *Job) error {
			j.Config = map[string]string{"pipeline.auto-generate-uids": "false", "pipeline.operator-chaining.enabled": "false"}
			Map(ints(j), "", double)
			return nil
		}, []string{"map", "no uid"}},
		"no source":         {func(*Job) error { return nil }, []string{"no source"}},
		"parallelism":       {func(j *Job) error { Map(ints(j), "m", double, Parallelism(-1)); return nil }, []string{`"m"`, "-1"}},
		"max parallelism":   {func(j *Job) error { Map(ints(j), "m", double, MaxParallelism(40000)); return nil }, []string{`"m"`, "40000", "32768"}},
		"more than the max": {func(j *Job) error { Map(ints(j), "m", double, Parallelism(9), MaxParallelism(8)); return nil }, []string{`"m"`, "9", "8"}},
		"another job":       {func(j *Job) error { Union(ints(j), ints(new(Job))); return nil }, []string{"union at ", "no stream of this job"}},
		"no duration":       {func(j *Job) error { ints(j); j.Checkpoints.Interval = time.Millisecond; return nil }, []string{"execution.checkpointing.interval", "1ms"}},
		"negative":          {func(j *Job) error { ints(j); j.Checkpoints.Retained = -1; return nil }, []string{"execution.checkpointing.num-retained", "-1"}},
		"no strategy":       {func(j *Job) error { ints(j); j.Restart.Strategy = "hope"; return nil }, []string{"restart-strategy.type", "hope", "fixed-delay"}},
		"set twice": {func(j *Job) error {
			ints(j)
			j.Parallelism, j.Config = 2, map[string]string{"parallelism.default": "3"}
			return nil
		}, []string{"parallelism.default", "second time"}},
		"unknown key":       {func(j *Job) error { ints(j); j.Config = map[string]string{"paralelism.default": "3"}; return nil }, []string{"paralelism.default", "parallelism.default"}},
		"scheme":            {func(j *Job) error { ints(j); j.Checkpoints.Dir = "gopher://hole"; return nil }, []string{"gopher", "file"}},
		"latest of nowhere": {func(j *Job) error { ints(j); j.From = Latest; return nil }, []string{"latest", "execution.checkpointing.dir"}},
		"the builder's own": {func(j *Job) error { ints(j); return errors.New("no input given") }, []string{"no input given"}},
		"several": {func(j *Job) error {
			Count(KeyBy(Map(ints(j), "twice", func(int) hidden { return hidden{} }), func(hidden) float64 { return 0 }), "twice", Parallelism(-3))
			j.Restart.Strategy = "hope"
			return errors.New("and more")
		}, []string{"unseen", "float64", `"twice"`, "-3", "hope", "and more"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), test.build)
			wants(t, err, test.want...)
		})
	}
}

var strict = map[string]string{"pipeline.auto-generate-uids": "false"}

// TestDuplicateUIDNamesBothPlaces wants the two lines of this file.
func TestDuplicateUIDNamesBothPlaces(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), func(job *Job) error {
		in := FromSlice(job, "in", []int{1})
		Map(in, "same", double)
		Map(in, "same", double)
		return nil
	})
	wants(t, err, `"same"`)
	if places := regexp.MustCompile(`api_test\.go:\d+`).FindAllString(fmt.Sprint(err), -1); len(places) != 2 || places[0] == places[1] {
		t.Errorf("%v names the places %q", err, places)
	}
}

// TestEmptyUIDGetsAGeneratedIDAndAWarning builds the same job twice: the ids are
// the same, so that state is found again.
func TestEmptyUIDGetsAGeneratedIDAndAWarning(t *testing.T) {
	t.Parallel()
	var ids []graph.ID
	for range 2 {
		p := must(prepare(func(job *Job) error {
			Do(Map(FromSlice(job, "in", []int{1}), "", double), "do", func(int) error { return nil })
			return nil
		}, config.Layer{}, config.Layer{}))(t)
		if len(p.notes) != 1 || !strings.Contains(p.notes[0], "no uid") || !strings.Contains(p.notes[0], "map") || !strings.Contains(p.notes[0], "api_test.go:") {
			t.Errorf("the notes are %q", p.notes)
		}
		ids = append(ids, p.graph.Tasks[0].Operators[1].ID)
	}
	if ids[0] != ids[1] || ids[0] == (graph.ID{}) {
		t.Errorf("the ids are %v", ids)
	}
}

// TestStateThatCannotBeStoredIsRefused declares state of types that are ruled
// out. That shows when a constructor is called: before any record is read, and
// whatever the restart strategy says, only once.
func TestStateThatCannotBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		construct func(*Op[int, int])
		want      []string
	}{
		"value of an interface":     {func(op *Op[int, int]) { state.NewValue[error](op, "s") }, []string{`"s"`, "interface"}},
		"list of unexported fields": {func(op *Op[int, int]) { state.NewList[hidden](op, "s") }, []string{`"s"`, "unseen"}},
		"map with keys of floats":   {func(op *Op[int, int]) { state.NewMap[float64, int](op, "s") }, []string{`"s"`, "float64"}},
		"split of functions":        {func(op *Op[int, int]) { state.NewSplit[func()](op, "s") }, []string{`"s"`, "func"}},
		"declared twice":            {func(op *Op[int, int]) { state.NewValue[int](op, "s"); state.NewList[int](op, "s") }, []string{`"s"`, "twice"}},
		"without a name":            {func(op *Op[int, int]) { state.NewValue[int](op, "") }, []string{"name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard()
			err := soon(t, "the end", func() error {
				return Run(context.Background(), func(job *Job) error {
					job.Checkpoints.Interval = time.Minute // so that the job is restarted for ever
					Process(KeyBy(From(job, "in", count(b, "in", 10).let(10)), double), "stateful", func(op *Op[int, int]) Handler[int] {
						b.say("construct")
						test.construct(op)
						return Handler[int]{Record: func(int) error { return nil }}
					})
					return nil
				})
			})
			wants(t, err, append(test.want, `"stateful"`)...)
			if n, read := b.times("construct"), b.all("in reads"); n != 1 || len(read) > 0 {
				t.Errorf("%d attempts, and %q were read", n, read)
			}
		})
	}
}

// TestStateDeclaredTooLateIsRefused declares state in a handler.
func TestStateDeclaredTooLateIsRefused(t *testing.T) {
	t.Parallel()
	err := soon(t, "the end", func() error {
		return Run(context.Background(), func(job *Job) error {
			job.Checkpoints.Interval = time.Minute
			Process(KeyBy(FromSlice(job, "in", []int{1}), double), "late", func(op *Op[int, int]) Handler[int] {
				return Handler[int]{Record: func(int) error { state.NewValue[int](op, "s"); return nil }}
			})
			return nil
		})
	})
	wants(t, err, `"late"`, `"s"`, "too late")
}

// TestKeyedStateWithoutAKeyDoesNotCompile compiles a program that declares some.
func TestKeyedStateWithoutAKeyDoesNotCompile(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "vet", "./testdata/wrong/keyless").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "*weir.Out[int] of op does not match state.Keyed[K]") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHandlerWithoutRecordIsRefused leaves out what a handler can't be without.
func TestHandlerWithoutRecordIsRefused(t *testing.T) {
	t.Parallel()
	none := Handler[int]{End: func() error { return nil }}
	for name, build := range map[string]func(Stream[int]){
		"process": func(in Stream[int]) {
			Process(KeyBy(in, double), "mute", func(*Op[int, int]) Handler[int] { return none })
		},
		"operate": func(in Stream[int]) { Operate(in, "mute", func(*Out[int]) Handler[int] { return none }) },
	} {
		err := soon(t, "the end", func() error {
			return Run(context.Background(), func(job *Job) error {
				job.Checkpoints.Interval = time.Minute
				build(FromSlice(job, "in", []int{1}))
				return nil
			})
		})
		if wants(t, err, `"mute"`, "Record"); strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEmitOutsideOfAHandlerIsRefused emits when nobody is there to take it.
func TestEmitOutsideOfAHandlerIsRefused(t *testing.T) {
	t.Parallel()
	b := newBoard()
	var emit func(int)
	for name, construct := range map[string]func(op *Out[int]) Handler[int]{
		"in the constructor": func(op *Out[int]) Handler[int] {
			op.Emit(1)
			return Handler[int]{Record: func(int) error { return nil }}
		},
		"of another operator": func(op *Out[int]) Handler[int] {
			return Handler[int]{Record: func(int) error { emit(1); return nil }}
		},
	} {
		err := Run(t.Context(), func(job *Job) error {
			in := Each(FromSlice(job, "in", []int{1}), "each", func(n int, e func(int)) error { emit = e; e(n); return nil })
			Do(Operate(in, "op", construct, StartChain()), "do", func(n int) error { b.say("%d", n); return nil })
			return nil
		})
		t.Log(name)
		wants(t, err, `"op"`, "emit outside of a handler")
	}
	if got := b.all(""); len(got) > 0 {
		t.Errorf("%q come through", got)
	}
}

// TestConfigurationHasTheLastWord puts a setting into all layers.
func TestConfigurationHasTheLastWord(t *testing.T) {
	t.Parallel()
	build := func(job *Job) error {
		job.Name = "of the code"
		job.Checkpoints = Checkpoints{Interval: time.Second, Retained: 3}
		job.Restart = Restart{Strategy: "fixed-delay", Attempts: 7}
		job.Config = map[string]string{"restart-strategy.fixed-delay.delay": "5 s"}
		FromSlice(job, "in", []int{1})
		return nil
	}
	p := must(prepare(build, config.Assignments([]string{"execution.checkpointing.interval=1 h", "execution.checkpointing.timeout=1 min"}),
		config.Assignments([]string{"execution.checkpointing.num-retained=5"})))(t)
	s := p.settings(production(slog.New(slog.DiscardHandler)), site{}, nil, nil)
	if s.JobName != "of the code" || s.Policy.Interval != time.Second || s.Policy.Timeout != time.Minute || s.Policy.Retained != 5 {
		t.Errorf("%+v", s.Policy)
	}
	if got := fmt.Sprintf("%+v", s.Strategy); !strings.Contains(got, "Attempts:7 Delay:5s") {
		t.Error(got)
	}
}
