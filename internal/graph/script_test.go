package graph

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata print into them")

// TestScripts runs the scripts in testdata. A script is a row of blocks: a job,
// an operator a line, then a line of dashes, and what comes of it: tasks,
// warnings, mistakes. An operator is
//
//	source|sink|<verb> <uid or -> [after <uid>[/<side>][:<partition>],...] [as <label>] [p=N] [max=N] [head|never] [keyed] [formerly=<uid or id>]
//
// A line "defaults" sets what holds for the whole job, and "show" asks for more than
// the tasks: the stream graph, the operators' ids, the channels.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, string(script))
			if *rewrite {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if got != string(script) {
				t.Errorf("got:\n%s", got)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// run returns script with what came of its jobs.
func run(t *testing.T, script string) string {
	blocks := strings.Split(strings.TrimSpace(script), "\n\n")
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "\n----")
		j := parse(t, text)
		blocks[i] = text + "\n----\n" + strings.Join(j.lines(), "\n")
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

// job is one block of a script.
type job struct {
	StreamGraph
	Defaults
	show string
}

func parse(t *testing.T, text string) job {
	j := job{Defaults: Defaults{Parallelism: 1, Chaining: true, AutoUIDs: true}}
	labels := map[string]int{}
	var after [][]string
	line := 0
	for _, s := range strings.Split(text, "\n") {
		if strings.HasPrefix(s, "#") {
			continue
		}
		line++
		words := strings.Fields(s)
		switch words[0] {
		case "defaults":
			j.defaults(t, words[1:])
			continue
		case "show":
			j.show = words[1]
			continue
		}
		n := Node{Name: words[0], Where: fmt.Sprintf("job.go:%d", line)}
		if uid := words[1]; uid != "-" {
			n.UID, n.Name = uid, uid
			labels[uid] = len(j.Nodes)
		}
		switch words[0] {
		case "source":
			n.Kind = Source
		case "sink":
			n.Kind = Sink
		}
		var inputs []string
		for w := words[2:]; len(w) > 0; w = w[1:] {
			switch key, value, _ := strings.Cut(w[0], "="); key {
			case "after":
				inputs, w = strings.Split(w[1], ","), w[1:]
			case "as":
				labels[w[1]], w = len(j.Nodes), w[1:]
			case "p":
				n.Parallelism = number(t, value)
			case "max":
				n.MaxParallelism = number(t, value)
			case "head":
				n.Chaining = ChainHead
			case "never":
				n.Chaining = ChainNever
			case "keyed":
				n.Keyed = true
			case "formerly":
				n.Former = append(n.Former, value)
			default:
				t.Fatalf("unknown word %q in %q", w[0], s)
			}
		}
		after = append(after, inputs)
		j.Nodes = append(j.Nodes, n)
	}
	for to, inputs := range after {
		for _, in := range inputs {
			in, partition, _ := strings.Cut(in, ":")
			from, side, _ := strings.Cut(in, "/")
			node, known := labels[from]
			if !known {
				t.Fatalf("unknown input %q", from)
			}
			j.Edges = append(j.Edges, Edge{From: node, To: to, Side: side, Partition: partitions[partition]})
		}
	}
	return j
}

var partitions = map[string]Partition{"forward": Forward, "hash": Hash, "rebalance": Rebalance, "shuffle": Shuffle,
	"rescale": Rescale, "global": Global, "broadcast": Broadcast, "custom": Custom}

func (j *job) defaults(t *testing.T, words []string) {
	for _, w := range words {
		switch key, value, _ := strings.Cut(w, "="); key {
		case "p":
			j.Parallelism = number(t, value)
		case "max":
			j.MaxParallelism = number(t, value)
		case "unchained":
			j.Chaining = false
		case "uids":
			j.AutoUIDs = false
		default:
			t.Fatalf("unknown default %q", w)
		}
	}
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// lines builds the job and says what comes of it.
func (j job) lines() (out []string) {
	g, warnings, err := Build(j.StreamGraph, j.Defaults)
	for _, w := range warnings {
		out = append(out, "warning: "+w)
	}
	if err != nil {
		for _, e := range strings.Split(err.Error(), "\n") {
			out = append(out, "mistake: "+e)
		}
		return out
	}
	switch j.show {
	case "stream":
		return append(out, split(j.StreamGraph)...)
	case "ids":
		for _, t := range g.Tasks {
			for _, o := range t.Operators {
				line := fmt.Sprint(o.ID, " ", o.Name)
				for _, id := range o.Former {
					line += fmt.Sprint(", formerly ", id)
				}
				out = append(out, line)
			}
		}
		return out
	}
	out = append(out, split(g)...)
	if j.show == "channels" {
		for _, s := range g.Subtasks() {
			for _, c := range g.Inputs(s) {
				out = append(out, fmt.Sprintf("%s/%d input %d: %s/%d", g.Task(s.Task).Name, s.Index, c.Index, g.Task(c.From.Task).Name, c.From.Index))
			}
		}
	}
	return out
}

func split(s fmt.Stringer) []string {
	return strings.Split(strings.TrimSpace(s.String()), "\n")
}
