package weir

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weirstream/weir/internal/graph"
)

// info is a job as -info shows it: the operators that the user wrote, and the
// tasks that they are chained into. Its JSON is stable: fields may be added, none
// changes or goes. Every list is there, if only empty.
//
//	{
//	  "job": "wordcount",
//	  "guarantee": "exactly once",                    in words
//	  "streamGraph": {
//	    "nodes": [{
//	      "id": "cbc357ccb763df2852fee8c4fc7d55f2",   32 hexadecimal digits, from the uid
//	      "uid": "lines",                             empty where the id was generated
//	      "name": "lines",
//	      "kind": "source",                           or "operator" or "sink"
//	      "parallelism": 4,
//	      "maxParallelism": 128,                      the number of key groups
//	      "where": "/home/me/main.go:48"              the call that made it
//	    }],
//	    "edges": [{
//	      "from": "cbc3…", "to": "0f1e…",             ids of nodes
//	      "input": 0,                                 which input of "to"
//	      "side": "",                                 the tag of a side output
//	      "partition": "hash"                         "forward", "rebalance", …
//	    }]
//	  },
//	  "jobGraph": {
//	    "tasks": [{
//	      "id": "cbc3…",                              of its first operator
//	      "name": "Source: lines -> split",
//	      "parallelism": 4,
//	      "maxParallelism": 128,
//	      "operators": ["cbc3…", "77aa…"]             ids of nodes, in the order of the chain
//	    }],
//	    "edges": [{…}]                                as above; "from" and "to" are ids of tasks
//	  }
//	}
type info struct {
	Job       string `json:"job"`
	Guarantee string `json:"guarantee"`
	Stream    struct {
		Nodes []nodeInfo `json:"nodes"`
		Edges []edgeInfo `json:"edges"`
	} `json:"streamGraph"`
	Chained struct {
		Tasks []taskInfo `json:"tasks"`
		Edges []edgeInfo `json:"edges"`
	} `json:"jobGraph"`
}

type nodeInfo struct {
	ID             string `json:"id"`
	UID            string `json:"uid"`
	Name           string `json:"name"`
	Kind           string `json:"kind"`
	Parallelism    int    `json:"parallelism"`
	MaxParallelism int    `json:"maxParallelism"`
	Where          string `json:"where"`
}

type edgeInfo struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Input     int    `json:"input"`
	Side      string `json:"side"`
	Partition string `json:"partition"`
}

type taskInfo struct {
	ID             string   `json:"id"`
	Name           string   `json:"name"`
	Parallelism    int      `json:"parallelism"`
	MaxParallelism int      `json:"maxParallelism"`
	Operators      []string `json:"operators"`
}

// info shows the job.
func (p *plan) info() info {
	i := info{Job: p.name, Guarantee: p.guarantee()}
	i.Stream.Nodes = make([]nodeInfo, len(p.Job.graph.Nodes))
	i.Stream.Edges = make([]edgeInfo, len(p.Job.graph.Edges))
	i.Chained.Tasks, i.Chained.Edges = []taskInfo{}, []edgeInfo{}
	for _, t := range p.graph.Tasks {
		task := taskInfo{ID: t.ID.String(), Name: t.Name, Parallelism: t.Parallelism, MaxParallelism: t.MaxParallelism}
		for _, op := range t.Operators {
			task.Operators = append(task.Operators, op.ID.String())
			i.Stream.Nodes[op.Node] = nodeInfo{
				ID: op.ID.String(), UID: op.UID, Name: op.Name, Kind: op.Kind.String(),
				Parallelism: op.Parallelism, MaxParallelism: op.MaxParallelism, Where: p.Job.graph.Nodes[op.Node].Where,
			}
			for _, l := range op.Chained {
				i.Stream.Edges[l.Edge] = p.edge(l.Edge, op.ID, t.Operators[l.To].ID, graph.Forward)
			}
		}
		i.Chained.Tasks = append(i.Chained.Tasks, task)
	}
	for _, e := range p.graph.Edges {
		from, to := p.graph.Tasks[e.From], p.graph.Tasks[e.To]
		i.Stream.Edges[e.Edge] = p.edge(e.Edge, from.Operators[e.Operator].ID, to.ID, e.Partition)
		i.Chained.Edges = append(i.Chained.Edges, p.edge(e.Edge, from.ID, to.ID, e.Partition))
	}
	return i
}

// edge shows an edge of the stream graph between what has the given ids.
func (p *plan) edge(e int, from, to graph.ID, by graph.Partition) edgeInfo {
	edge := p.Job.graph.Edges[e]
	return edgeInfo{From: from.String(), To: to.String(), Input: edge.Input, Side: edge.Side, Partition: by.String()}
}

// printJSON writes the JSON form.
func (i info) printJSON(to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	return e.Encode(i)
}

// printText writes the form for people, who know operators and tasks by name.
func (i info) printText(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Job %q\nGuarantee: %s\n\nStream graph\n", i.Job, i.Guarantee)
	name := map[string]string{}
	for _, n := range i.Stream.Nodes {
		name[n.ID] = n.Name
	}
	for _, n := range i.Stream.Nodes {
		fmt.Fprintf(w, "  %s\t%s\tparallelism %d of at most %d\t%s\t%s\n", n.Kind, n.Name, n.Parallelism, n.MaxParallelism, inputs(i.Stream.Edges, n.ID, name), n.Where)
	}
	fmt.Fprintf(w, "\nJob graph\n")
	for _, t := range i.Chained.Tasks {
		name[t.ID] = t.Name
	}
	for _, t := range i.Chained.Tasks {
		fmt.Fprintf(w, "  %s\tparallelism %d of at most %d\t%s\n", t.Name, t.Parallelism, t.MaxParallelism, inputs(i.Chained.Edges, t.ID, name))
	}
	return w.Flush()
}

// inputs says where the records of an operator or a task come from.
func inputs(edges []edgeInfo, to string, name map[string]string) string {
	var all []string
	for _, e := range edges {
		if e.To == to {
			all = append(all, e.Partition+" from "+name[e.From])
		}
	}
	return strings.Join(all, ", ")
}
