// Package graph is a job as a picture: from the operators that the user wrote
// (StreamGraph) to tasks (JobGraph) to subtasks and their attempts (ExecutionGraph).
package graph

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/twmb/murmur3"
)

// ID names an operator, and a task, whose id is that of its head operator. It is
// made from the operator's uid, or generated, as Flink does.
type ID [16]byte

// String returns 32 hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("%x", id[:]) }

// Subtask names one parallel copy of a task.
type Subtask struct {
	Task  ID
	Index int
}

// Attempt numbers the attempts to run a job within one process, from 1.
type Attempt uint64

// hash returns the murmur3 x64 128 hash of data, in the order in which Guava, and
// so Flink, writes its bytes.
func hash(data []byte) (id ID) {
	h1, h2 := murmur3.Sum128(data)
	binary.LittleEndian.PutUint64(id[:8], h1)
	binary.LittleEndian.PutUint64(id[8:], h2)
	return id
}

// named returns the id that a name stands for: 32 hexadecimal digits are one, all
// else is a uid.
func named(name string) (id ID) {
	if len(name) == hex.EncodedLen(len(id)) {
		if _, err := hex.Decode(id[:], []byte(name)); err == nil {
			return id
		}
	}
	return hash([]byte(name))
}

// identify returns the nodes' ids. A uid is hashed; where there is none, the id
// comes from the node's place in the graph: how many nodes were reached before
// it, breadth first from the sources, how many of its outputs could be chained,
// and the ids of its inputs. Nodes in or behind a cycle are never reached; without
// a uid they get the zero ID.
func (p *plan) identify() []ID {
	var (
		ids     = make([]ID, len(p.Nodes))
		queue   []int
		queued  = make([]bool, len(p.Nodes))
		reached = make([]bool, len(p.Nodes))
		count   uint32
	)
	push := func(node int) {
		if !queued[node] {
			queued[node] = true
			queue = append(queue, node)
		}
	}
	for node := range p.Nodes {
		if uid := p.Nodes[node].UID; uid != "" {
			ids[node] = hash([]byte(uid))
		}
		if len(p.in[node]) == 0 {
			push(node)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		node := queue[0]
		if !p.follows(node, reached) {
			queued[node] = false // it comes again with the input that is missing
			continue
		}
		if p.Nodes[node].UID == "" {
			ids[node] = p.generate(node, count, ids)
		}
		reached[node] = true
		count++
		for _, e := range p.out[node] {
			push(p.Edges[e].To)
		}
	}
	return ids
}

// follows reports whether all inputs of node have been reached.
func (p *plan) follows(node int, reached []bool) bool {
	for _, e := range p.in[node] {
		if !reached[p.Edges[e].From] {
			return false
		}
	}
	return true
}

// generate makes the id of the node that is reached after count others.
func (p *plan) generate(node int, count uint32, ids []ID) ID {
	data := binary.LittleEndian.AppendUint32(nil, count)
	for _, e := range p.out[node] {
		if p.chainable(p.Edges[e]) {
			data = binary.LittleEndian.AppendUint32(data, count)
		}
	}
	id := hash(data)
	for _, e := range p.in[node] {
		for i, b := range ids[p.Edges[e].From] {
			id[i] = id[i]*37 ^ b
		}
	}
	return id
}
