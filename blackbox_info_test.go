package weir_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// shown is what -info -json has promised.
type shown struct {
	Job         string
	Guarantee   string
	StreamGraph struct {
		Nodes []shownNode
		Edges []shownEdge
	}
	JobGraph struct {
		Tasks []shownTask
		Edges []shownEdge
	}
}

type shownNode struct {
	ID, UID, Name, Kind         string
	Parallelism, MaxParallelism int
	Where                       string
}

type shownTask struct {
	ID, Name                    string
	Parallelism, MaxParallelism int
	Operators                   []string
}

type shownEdge struct {
	From, To  string
	Input     int
	Side      string
	Partition string
}

func TestInfoShowsTheJobAsJSON(t *testing.T) {
	t.Parallel()
	p := start(t, wordcount(t), "-info", "-json", "-output", "out", "-p", "2", "-D", "execution.checkpointing.interval=1s").exits(0)
	var got shown
	d := json.NewDecoder(strings.NewReader(p.out.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		p.fatal("%v", err)
	}
	if got.Job != "wordcount" || got.Guarantee != "exactly once" {
		p.fatal("job %q, guarantee %q", got.Job, got.Guarantee)
	}
	id := map[string]string{}
	for i, want := range []string{"source lines", "operator split", "operator count", "sink output"} {
		n := got.StreamGraph.Nodes[i]
		if n.Kind+" "+n.UID != want || n.Name != n.UID || n.Parallelism != 2 || n.MaxParallelism != 128 || !strings.Contains(n.Where, "main.go:") || len(n.ID) != 32 {
			t.Errorf("node %d is %+v", i, n)
		}
		id[n.UID] = n.ID
	}
	for i, want := range []shownEdge{
		{id["lines"], id["split"], 0, "", "forward"},
		{id["split"], id["count"], 0, "", "hash"},
		{id["count"], id["output"], 0, "", "forward"},
	} {
		if e := got.StreamGraph.Edges[i]; e != want {
			t.Errorf("edge %d is %+v, want %+v", i, e, want)
		}
	}
	for i, want := range []shownTask{
		{id["lines"], "Source: lines -> split", 2, 128, []string{id["lines"], id["split"]}},
		{id["count"], "count -> Sink: output", 2, 128, []string{id["count"], id["output"]}},
	} {
		task := got.JobGraph.Tasks[i]
		if task.ID != want.ID || task.Name != want.Name || task.Parallelism != 2 || strings.Join(task.Operators, " ") != strings.Join(want.Operators, " ") {
			t.Errorf("task %d is %+v, want %+v", i, task, want)
		}
	}
	if e := got.JobGraph.Edges; len(e) != 1 || e[0] != (shownEdge{id["lines"], id["count"], 0, "", "hash"}) {
		t.Errorf("edges between tasks are %+v", e)
	}
}

func TestInfoShowsTheJobAsText(t *testing.T) {
	t.Parallel()
	p := start(t, wordcount(t), "-info", "-output", "out", "-p", "3").exits(0)
	rest := p.out.String()
	for _, part := range []string{`"wordcount"`, "none", "Stream graph", "source", "lines", "parallelism 3", "main.go:", "count", "hash from split",
		"Job graph", "Source: lines -> split", "count -> Sink: output", "hash from Source: lines -> split"} {
		at := strings.Index(rest, part)
		if at < 0 {
			p.fatal("no %q, or too early", part)
		}
		rest = rest[at+len(part):]
	}
}

// What -info shows isn't started: it makes no directory and reads nothing.
func TestInfoStartsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, checkpoints := filepath.Join(dir, "out"), filepath.Join(dir, "checkpoints")
	p := start(t, wordcount(t), "-info", "-input", dir, "-output", out,
		"-D", "execution.checkpointing.interval=1s", "-D", "execution.checkpointing.dir=file://"+checkpoints).exits(0)
	absent(t, out)
	absent(t, checkpoints)
	if log := p.log.String(); log != "" {
		p.fatal("more than the job is shown")
	}
}

func TestMistakesAreReportedInsteadOfInfo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, want []string
	}{
		{[]string{"-info", "-job", "wrong"}, []string{`"same"`, "float64", "and the builder's own"}},
		{[]string{"-info", "-D", "a.b=c"}, []string{"a.b"}},
		{[]string{"-info=perhaps"}, []string{"perhaps"}},
		{[]string{"-json"}, []string{"-info"}},
	} {
		p := start(t, probe(t), test.args...).exits(2).logs(test.want...)
		if strings.Contains(p.out.String(), "graph") {
			p.fatal("shows a job that has mistakes")
		}
	}
}

func TestProgramWithAJSONFlagOfItsOwn(t *testing.T) {
	t.Parallel()
	p := startWith(t, "TAKE=json", greedy(t), "-json", "mine", "-info", "-infoJSON").exits(0)
	if !strings.Contains(p.out.String(), `-json is "mine"`) || !strings.Contains(p.out.String(), `"streamGraph"`) {
		p.fatal("the flags are mixed up")
	}
}
