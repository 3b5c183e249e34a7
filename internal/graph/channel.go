package graph

// A Channel leads from one subtask to another. Both ends know it by the same
// value.
type Channel struct {
	Edge     int // index of the edge in the job graph
	From, To Subtask
	Index    int // its place among the inputs of To, from 0
}

// Inputs returns the channels that lead to s, in the order of their Index: edge
// by edge, each by the sender's index.
func (g *JobGraph) Inputs(s Subtask) (in []Channel) {
	for _, e := range g.Task(s.Task).In {
		from := g.Tasks[g.Edges[e].From].ID
		first, end := g.senders(e, s.Index)
		for i := first; i < end; i++ {
			in = append(in, Channel{e, Subtask{from, i}, s, len(in)})
		}
	}
	return in
}

// Outputs returns the channels that lead away from s: edge by edge, each by the
// receiver's index.
func (g *JobGraph) Outputs(s Subtask) (out []Channel) {
	for e, edge := range g.Edges {
		if g.Tasks[edge.From].ID != s.Task {
			continue
		}
		to := g.Tasks[edge.To].ID
		first, end := g.receivers(e, s.Index)
		for i := first; i < end; i++ {
			out = append(out, Channel{e, s, Subtask{to, i}, g.index(e, s.Index, i)})
		}
	}
	return out
}

// index returns the place of the channel of an edge between two subtasks among
// the receiver's inputs.
func (g *JobGraph) index(edge, from, to int) int {
	n := 0
	for _, e := range g.Tasks[g.Edges[edge].To].In {
		first, end := g.senders(e, to)
		if e == edge {
			return n + from - first
		}
		n += end - first
	}
	panic("graph: an edge that its receiver doesn't know")
}

// senders returns the subtasks, without end, from which an edge has channels to
// one subtask of its receiver: all of them, or those near to it. Near is what it
// is in Flink: with 5 senders and 2 receivers, 0 and 1 send to 0, and 2 to 4 to 1;
// with 2 and 5, 0 sends to 0 to 2, and 1 to 3 and 4.
func (g *JobGraph) senders(edge, to int) (first, end int) {
	e := g.Edges[edge]
	n, m := g.Tasks[e.From].Parallelism, g.Tasks[e.To].Parallelism
	switch {
	case !e.Partition.near():
		return 0, n
	case n < m:
		return to * n / m, to*n/m + 1
	}
	return to * n / m, (to + 1) * n / m
}

// receivers is the other side of senders.
func (g *JobGraph) receivers(edge, from int) (first, end int) {
	e := g.Edges[edge]
	n, m := g.Tasks[e.From].Parallelism, g.Tasks[e.To].Parallelism
	switch {
	case !e.Partition.near():
		return 0, m
	case n < m:
		return ceil(from*m, n), ceil((from+1)*m, n)
	}
	return ceil((from+1)*m, n) - 1, ceil((from+1)*m, n)
}

func ceil(a, b int) int { return (a + b - 1) / b }
