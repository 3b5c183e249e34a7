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
		from := &g.Tasks[g.Edges[e].From]
		for i := range from.Parallelism {
			if g.Edges[e].connects(i, s.Index) {
				in = append(in, Channel{e, Subtask{from.ID, i}, s, len(in)})
			}
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
		for i := range g.Tasks[edge.To].Parallelism {
			if edge.connects(s.Index, i) {
				to := Subtask{g.Tasks[edge.To].ID, i}
				out = append(out, Channel{e, s, to, g.index(e, s.Index)})
			}
		}
	}
	return out
}

// connects reports whether there is a channel between two subtasks of the edge's tasks.
func (e TaskEdge) connects(from, to int) bool { return e.Partition != Forward || from == to }

// index returns the place of the channel of an edge that comes from the subtask
// with the given index among the receiver's inputs.
func (g *JobGraph) index(edge, from int) int {
	n := 0
	for _, e := range g.Tasks[g.Edges[edge].To].In {
		switch forward := g.Edges[e].Partition == Forward; {
		case e == edge && forward:
			return n
		case e == edge:
			return n + from
		case forward:
			n++
		default:
			n += g.Tasks[g.Edges[e].From].Parallelism
		}
	}
	panic("graph: an edge that its receiver doesn't know")
}
