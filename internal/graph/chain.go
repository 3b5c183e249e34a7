package graph

import "strings"

// cutter cuts a plan into tasks. A node joins the task of its input where it may,
// and else becomes the head of a task of its own. Only heads have more than one
// input, so an edge lies within a task exactly when it doesn't lead to a head.
type cutter struct {
	*plan
	job JobGraph
	at  []position // of each node
}

// position is where a node has found its place: an operator of a task.
type position struct{ task, operator int }

// cut returns the plan's job graph.
func (p *plan) cut(ids []ID) *JobGraph {
	c := &cutter{plan: p, at: make([]position, len(p.Nodes))}
	for _, node := range p.order {
		c.place(node, ids[node])
	}
	for e := range p.Edges {
		c.connect(e)
	}
	for i := range c.job.Tasks {
		c.finish(&c.job.Tasks[i])
	}
	return &c.job
}

// place puts a node into a task.
func (c *cutter) place(node int, id ID) {
	n := c.Nodes[node]
	i, joins := c.host(node)
	if !joins {
		i = len(c.job.Tasks)
		c.job.Tasks = append(c.job.Tasks, Task{ID: id, Parallelism: n.Parallelism})
	}
	t := &c.job.Tasks[i]
	t.MaxParallelism = max(t.MaxParallelism, n.MaxParallelism)
	c.at[node] = position{i, len(t.Operators)}
	t.Operators = append(t.Operators, Operator{
		ID: id, UID: n.UID, Former: c.former[node], Name: n.Name, Node: node, Kind: n.Kind, Keyed: n.Keyed, Bounded: n.Bounded, Commits: n.Commits,
		Parallelism: n.Parallelism, Derived: n.MaxParallelism == 0,
	})
}

// host returns the task that a node joins, if there is one. Max parallelisms that
// were set and differ can't be in one task.
func (c *cutter) host(node int) (task int, joins bool) {
	if len(c.in[node]) != 1 {
		return 0, false
	}
	e := c.Edges[c.in[node][0]]
	task = c.at[e.From].task
	theirs, own := c.job.Tasks[task].MaxParallelism, c.Nodes[node].MaxParallelism
	return task, c.chainable(e) && (theirs == 0 || own == 0 || theirs == own)
}

// chainable reports whether the ends of e may run in one task, as far as can be
// told without knowing who else is in it.
func (p *plan) chainable(e Edge) bool {
	return p.chaining && e.Partition == Forward && len(p.in[e.To]) == 1 &&
		p.Nodes[e.From].Chaining != ChainNever && p.Nodes[e.To].Chaining == ChainAlways
}

// connect makes an edge a link within a task or an edge between two.
func (c *cutter) connect(edge int) {
	e, g := c.Edges[edge], &c.job
	from, to := c.at[e.From], c.at[e.To]
	sender := &g.Tasks[from.task].Operators[from.operator]
	if to.operator > 0 {
		sender.Chained = append(sender.Chained, Link{To: to.operator, Side: e.Side, Edge: edge})
		return
	}
	receiver := &g.Tasks[to.task]
	sender.Out = append(sender.Out, len(g.Edges))
	receiver.In = append(receiver.In, len(g.Edges))
	g.Edges = append(g.Edges, TaskEdge{
		From: from.task, To: to.task, Operator: from.operator,
		Input: e.Input, Side: e.Side, Partition: e.Partition, Edge: edge,
	})
}

// finish fills in what is known only when a task is whole.
func (c *cutter) finish(t *Task) {
	if t.MaxParallelism == 0 {
		t.MaxParallelism = derive(t.Parallelism)
	}
	for i := range t.Operators {
		t.Operators[i].MaxParallelism = t.MaxParallelism
	}
	t.Name = c.name(t, 0)
}

// name tells the part of a task that begins with an operator.
func (c *cutter) name(t *Task, operator int) string {
	o := t.Operators[operator]
	name := c.Nodes[o.Node].title()
	var rest []string
	for _, l := range o.Chained {
		rest = append(rest, c.name(t, l.To))
	}
	switch len(rest) {
	case 0:
		return name
	case 1:
		return name + " -> " + rest[0]
	}
	return name + " -> (" + strings.Join(rest, ", ") + ")"
}
