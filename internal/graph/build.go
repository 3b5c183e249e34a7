package graph

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Defaults are the job's settings for nodes that have none of their own.
type Defaults struct {
	Parallelism    int  // 0: 1
	MaxParallelism int  // 0: derived from the parallelism
	Chaining       bool // false: every node is a task of its own
	AutoUIDs       bool // false: a node without a uid is an error
}

// most is the largest parallelism there is: the number of key groups fits in 16 bits.
const most = 32768

// Build turns what the user wrote into tasks. Its error joins all mistakes that
// there are; the strings are warnings. The same graph and defaults always give
// the same job graph.
func Build(s StreamGraph, d Defaults) (*JobGraph, []string, error) {
	p := newPlan(s, d)
	ids := p.identify()
	mistakes := slices.Concat(p.mistakes(), distinct(p.Nodes, ids), p.remember(ids))
	var warnings []string
	if nameless := p.nameless(); len(nameless) > 0 && d.AutoUIDs {
		warnings = append(warnings, fmt.Sprintf("no uid: %s; their ids come from the job's shape, so a change of the job can part them from their state",
			strings.Join(nameless, ", ")))
	} else {
		for _, place := range nameless {
			mistakes = append(mistakes, fmt.Errorf("operator %s has no uid, and generating one is switched off", place))
		}
	}
	if len(mistakes) > 0 {
		return nil, warnings, errors.Join(mistakes...)
	}
	return p.cut(ids), warnings, nil
}

// plan is a stream graph on its way to a job graph: every name, parallelism and
// partition is filled in. A max parallelism of 0 is still to be derived.
type plan struct {
	StreamGraph
	chaining bool
	in, out  [][]int // each node's edges
	former   [][]ID  // each node's ids of earlier days
	order    []int   // the nodes in topological order: the user's, where that is one
	cycle    []int   // nodes that lead to each other in a circle; then order means nothing
}

func newPlan(s StreamGraph, d Defaults) *plan {
	p := &plan{
		StreamGraph: StreamGraph{slices.Clone(s.Nodes), slices.Clone(s.Edges)},
		chaining:    d.Chaining,
		in:          make([][]int, len(s.Nodes)),
		out:         make([][]int, len(s.Nodes)),
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Name = cmp.Or(n.Name, n.UID, n.Kind.String())
		n.Parallelism = cmp.Or(n.Parallelism, d.Parallelism, 1)
		n.MaxParallelism = cmp.Or(n.MaxParallelism, d.MaxParallelism)
	}
	for i := range p.Edges {
		e := &p.Edges[i]
		if e.Partition == Auto {
			e.Partition = Rebalance
			if p.Nodes[e.From].Parallelism == p.Nodes[e.To].Parallelism {
				e.Partition = Forward
			}
		}
		p.out[e.From] = append(p.out[e.From], i)
		p.in[e.To] = append(p.in[e.To], i)
	}
	p.sort()
	return p
}

// sort sets order, each node after its inputs, and cycle.
func (p *plan) sort() {
	var (
		seen   = make([]bool, len(p.Nodes))
		placed = make([]bool, len(p.Nodes))
		path   []int
		visit  func(node int)
	)
	visit = func(node int) {
		if seen[node] {
			if !placed[node] {
				p.cycle = slices.Clone(path[slices.Index(path, node):])
			}
			return
		}
		seen[node] = true
		path = append(path, node)
		for _, e := range p.in[node] {
			visit(p.Edges[e].From)
		}
		path = path[:len(path)-1]
		placed[node] = true
		p.order = append(p.order, node)
	}
	for node := range p.Nodes {
		visit(node)
	}
}

// mistakes returns everything that is wrong with the nodes and edges, uids aside.
func (p *plan) mistakes() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	sources := 0
	for i, n := range p.Nodes {
		switch {
		case n.Kind == Source:
			sources++
			if len(p.in[i]) > 0 {
				wrong("source %s has an input", n.place())
			}
		case len(p.in[i]) == 0:
			wrong("%s %s has no input", n.Kind, n.place())
		}
		if n.Kind == Sink && len(p.out[i]) > 0 {
			wrong("sink %s has an output", n.place())
		}
		switch {
		case n.Parallelism < 1 || n.Parallelism > most:
			wrong("parallelism of %s: %d is not in 1..%d", n.place(), n.Parallelism, most)
		case n.MaxParallelism < 0 || n.MaxParallelism > most:
			wrong("max parallelism of %s: %d is not in 1..%d", n.place(), n.MaxParallelism, most)
		case n.MaxParallelism > 0 && n.Parallelism > n.MaxParallelism:
			wrong("parallelism of %s: %d exceeds the max parallelism %d", n.place(), n.Parallelism, n.MaxParallelism)
		}
	}
	for _, e := range p.Edges {
		if from, to := p.Nodes[e.From], p.Nodes[e.To]; e.Partition == Forward && from.Parallelism != to.Parallelism {
			wrong("forward from %s to %s: parallelisms %d and %d differ", from.place(), to.place(), from.Parallelism, to.Parallelism)
		}
	}
	if sources == 0 {
		wrong("the job has no source")
	}
	if len(p.cycle) > 0 {
		var places []string
		for _, node := range slices.Backward(p.cycle) {
			places = append(places, p.Nodes[node].place())
		}
		wrong("operators feed each other in a circle: %s", strings.Join(places, " -> "))
	}
	return errs
}

// nameless returns the places of the nodes without a uid.
func (p *plan) nameless() (places []string) {
	for _, n := range p.Nodes {
		if n.UID == "" {
			places = append(places, n.place())
		}
	}
	return places
}

// distinct returns an error for each node that has the id of an earlier one.
func distinct(nodes []Node, ids []ID) (errs []error) {
	first := map[ID]Node{{}: {}}
	for i, n := range nodes {
		switch other, taken := first[ids[i]]; {
		case !taken:
			first[ids[i]] = n
		case ids[i] == ID{}: // never reached, which is a mistake of its own
		case n.UID == other.UID:
			errs = append(errs, fmt.Errorf("uid %q is given twice: to %s and to %s", n.UID, other.place(), n.place()))
		default:
			errs = append(errs, fmt.Errorf("%s and %s happen to have the same id, %s: change a uid", other.place(), n.place(), ids[i]))
		}
	}
	return errs
}

// remember sets former, and returns an error for each name of earlier days that is no
// node's alone.
func (p *plan) remember(ids []ID) (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	present, claimed := map[ID]Node{}, map[ID]Node{}
	for i, n := range p.Nodes {
		present[ids[i]] = n
	}
	p.former = make([][]ID, len(p.Nodes))
	for i, n := range p.Nodes {
		for _, name := range n.Former {
			id := named(name)
			now, taken := present[id]
			first, again := claimed[id]
			switch {
			case name == "":
				wrong("a former uid of %s is empty", n.place())
			case id == ids[i]:
				wrong("former uid %q of %s is its present one", name, n.place())
			case taken:
				wrong("former uid %q of %s is the present one of %s", name, n.place(), now.place())
			case again:
				wrong("former uid %q is given twice: to %s and to %s", name, first.place(), n.place())
			default:
				claimed[id] = n
				p.former[i] = append(p.former[i], id)
			}
		}
	}
	return errs
}

// derive returns the max parallelism of an operator for which none was set.
func derive(parallelism int) int {
	return min(max(1<<bits.Len(uint(parallelism+parallelism/2-1)), 128), most)
}
