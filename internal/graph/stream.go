package graph

import (
	"fmt"
	"strings"
)

// StreamGraph is the job as the user wrote it.
type StreamGraph struct {
	Nodes []Node // in the order in which the user wrote them
	Edges []Edge // so too
}

// A Node is an operator that the user wrote. A zero field leaves the choice to
// the job's defaults.
type Node struct {
	UID            string // empty: the id is generated
	Name           string // empty: the uid
	Kind           Kind
	Keyed          bool // has a key, and so key groups
	Bounded        bool // a source that ends
	Lossy          bool // a source that can't be read again
	AcceptLoss     bool // the user knows that
	Commits        bool // a sink with a committer
	Parallelism    int
	MaxParallelism int
	Chaining       Chaining
	Former         []string // uids that it had before, or ids, as 32 hexadecimal digits
	Where          string   // file and line of the user's call
}

// An Edge carries records from one node to another. Several edges into the same
// input are a union.
type Edge struct {
	From, To  int    // indices of nodes
	Input     int    // which input of To, from 0
	Side      string // the tag of a side output, empty for the main one
	Partition Partition
}

// Kind says where in a stream a node stands.
type Kind int

// Kinds of nodes.
const (
	Transform Kind = iota // has inputs and may have outputs
	Source                // has no input
	Sink                  // has no output
)

func (k Kind) String() string { return [...]string{"operator", "source", "sink"}[k] }

// Chaining says whether a node may run in one task with its neighbours.
type Chaining int

// Ways of chaining.
const (
	ChainAlways Chaining = iota // with its input and its outputs
	ChainHead                   // with its outputs only: a chain starts here
	ChainNever                  // with nobody
)

// Partition says which subtask of the receiver gets a record.
type Partition int

// Partitions. Their numbers are written nowhere.
const (
	Auto      Partition = iota // Forward between equal parallelisms, else Rebalance
	Forward                    // the one with the sender's index
	Hash                       // the one that owns the record's key
	Rebalance                  // one after the other
	Shuffle                    // any
	Rescale                    // one after the other of those near the sender
	Global                     // the first
	Broadcast                  // all
	Custom                     // the one that the user's function says
)

func (p Partition) String() string {
	return [...]string{"auto", "forward", "hash", "rebalance", "shuffle", "rescale", "global", "broadcast", "custom"}[p]
}

// near reports whether a subtask sends to a few receivers only. Otherwise it has
// a channel to each, which brings at least its barriers and its end.
func (p Partition) near() bool { return p == Forward || p == Rescale }

// String returns a line for each node, with what was set and where its records
// come from.
func (s StreamGraph) String() string {
	var b strings.Builder
	for i, n := range s.Nodes {
		fmt.Fprintf(&b, "%d. %s", i+1, n.title())
		if n.Parallelism != 0 {
			fmt.Fprintf(&b, "  p=%d", n.Parallelism)
		}
		if n.MaxParallelism != 0 {
			fmt.Fprintf(&b, "  max=%d", n.MaxParallelism)
		}
		for _, e := range s.Edges {
			if e.To == i {
				fmt.Fprintf(&b, "  <- %s %s", output(e.From, e.Side), e.Partition)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// output names what an edge carries, for String: the sender's number and the
// side output's tag.
func output(from int, side string) string {
	if side == "" {
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d/%s", from+1, side)
}

// title is the node's name with its kind, as Flink shows it.
func (n Node) title() string {
	switch n.Kind {
	case Source:
		return "Source: " + n.Name
	case Sink:
		return "Sink: " + n.Name
	}
	return n.Name
}

// place names the node and where it was written, for messages.
func (n Node) place() string {
	if n.Where == "" {
		return fmt.Sprintf("%q", n.Name)
	}
	return fmt.Sprintf("%q at %s", n.Name, n.Where)
}
