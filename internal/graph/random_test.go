package graph

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestRandom builds random jobs and holds what comes of them to what must be true
// of any. A failure prints its seed.
func TestRandom(t *testing.T) {
	for seed := range uint64(2000) {
		s, d := anyJob(rand.New(rand.NewPCG(seed, 0)))
		if err := check(s, d); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, s)
		}
	}
}

// anyJob returns a job without mistakes, its operators written in any order.
func anyJob(rng *rand.Rand) (StreamGraph, Defaults) {
	var (
		s = StreamGraph{Nodes: make([]Node, 1+rng.IntN(12))}
		d = Defaults{Parallelism: 1 + rng.IntN(2), Chaining: rng.IntN(8) > 0, AutoUIDs: true}
		// The i-th node of a topological order stands at place[i].
		place = rng.Perm(len(s.Nodes))
	)
	for i, to := range place {
		n := Node{Name: fmt.Sprint("node ", i), Chaining: Chaining(max(0, rng.IntN(6)-3))}
		if rng.IntN(3) > 0 {
			n.UID = fmt.Sprint("uid ", i)
		}
		if rng.IntN(4) == 0 {
			n.Parallelism = 1 + rng.IntN(9)
		}
		if rng.IntN(4) == 0 {
			n.MaxParallelism = 9 + rng.IntN(2)
		}
		inputs := 0
		if i > 0 {
			inputs = max(0, rng.IntN(5)-1)
		}
		if inputs == 0 {
			n.Kind = Source
		}
		s.Nodes[to] = n
		for range min(inputs, 2) {
			e := Edge{From: place[rng.IntN(i)], To: to, Partition: Partition(rng.IntN(int(Custom) + 1))}
			if e.Partition == Forward {
				e.Partition = Auto
			}
			if rng.IntN(5) == 0 {
				e.Side = "late"
			}
			s.Edges = append(s.Edges, e)
		}
	}
	rng.Shuffle(len(s.Edges), func(i, j int) { s.Edges[i], s.Edges[j] = s.Edges[j], s.Edges[i] })
	return s, d
}

func check(s StreamGraph, d Defaults) error {
	before := StreamGraph{slices.Clone(s.Nodes), slices.Clone(s.Edges)}
	g, _, err := Build(s, d)
	if err != nil {
		return err
	}
	if again, _, _ := Build(s, d); !reflect.DeepEqual(g, again) {
		return fmt.Errorf("built again it is another:\n%s\n%s", g, again)
	}
	if !reflect.DeepEqual(s, before) {
		return fmt.Errorf("the stream graph has changed")
	}
	if err := checkTasks(s, g); err != nil {
		return fmt.Errorf("%w\n%s", err, g)
	}
	if err := checkChannels(g); err != nil {
		return fmt.Errorf("%w\n%s", err, g)
	}
	return nil
}

// checkTasks: every node is in one task, every edge in a chain or between tasks,
// and whatever feeds something comes before it.
func checkTasks(s StreamGraph, g *JobGraph) error {
	var (
		nodes = make([]int, len(s.Nodes))
		edges = make([]int, len(s.Edges))
	)
	for _, t := range g.Tasks {
		if t.ID != t.Operators[0].ID || t.Parallelism > t.MaxParallelism {
			return fmt.Errorf("task %q isn't like its head", t.Name)
		}
		fed := make([]int, len(t.Operators))
		fed[0] = 1
		for i, o := range t.Operators {
			n := s.Nodes[o.Node]
			nodes[o.Node]++
			if fed[i] != 1 {
				return fmt.Errorf("%q is fed %d times in its chain", o.Name, fed[i])
			}
			if o.Parallelism != t.Parallelism || o.MaxParallelism != t.MaxParallelism {
				return fmt.Errorf("%q is another than its task", o.Name)
			}
			if n.MaxParallelism > 0 && n.MaxParallelism != o.MaxParallelism {
				return fmt.Errorf("max parallelism of %q: %d became %d", o.Name, n.MaxParallelism, o.MaxParallelism)
			}
			for _, l := range o.Chained {
				edges[l.Edge]++
				if e := s.Edges[l.Edge]; e.From != o.Node || e.To != t.Operators[l.To].Node || l.To <= i {
					return fmt.Errorf("%q isn't linked as it was", o.Name)
				}
				fed[l.To]++
			}
		}
	}
	for i, te := range g.Edges {
		edges[te.Edge]++
		from, to := g.Tasks[te.From], g.Tasks[te.To]
		e, sender := s.Edges[te.Edge], from.Operators[te.Operator]
		if e.From != sender.Node || e.To != to.Operators[0].Node || !slices.Contains(sender.Out, i) || !slices.Contains(to.In, i) {
			return fmt.Errorf("edge %d doesn't connect what it did", i)
		}
		if te.From >= te.To {
			return fmt.Errorf("%q comes before %q, which feeds it", to.Name, from.Name)
		}
	}
	for _, count := range slices.Concat(nodes, edges) {
		if count != 1 {
			return fmt.Errorf("nodes %v and edges %v should each be there once", nodes, edges)
		}
	}
	return nil
}

// checkChannels: what one end calls an output, the other calls an input, an
// input's index is its place, and each subtask is on each edge of its task.
func checkChannels(g *JobGraph) error {
	type end struct {
		edge int
		of   Subtask
	}
	var (
		open  = map[Channel]bool{}
		ends  = map[end]bool{}
		count int
	)
	for _, s := range g.Subtasks() {
		for _, c := range g.Outputs(s) {
			if c.From != s || open[c] {
				return fmt.Errorf("%v isn't an output of its own", c)
			}
			open[c], ends[end{c.Edge, s}] = true, true
		}
	}
	for _, s := range g.Subtasks() {
		for i, c := range g.Inputs(s) {
			if c.To != s || c.Index != i || !open[c] {
				return fmt.Errorf("%v is no output", c)
			}
			ends[end{c.Edge, s}] = true
			count++
		}
	}
	for i, e := range g.Edges {
		for _, t := range []Task{g.Tasks[e.From], g.Tasks[e.To]} {
			for subtask := range t.Parallelism {
				if !ends[end{i, Subtask{t.ID, subtask}}] {
					return fmt.Errorf("subtask %d of %q isn't on edge %d", subtask, t.Name, i)
				}
			}
		}
	}
	if count != len(open) {
		return fmt.Errorf("%d outputs and %d inputs", len(open), count)
	}
	return nil
}
