package operator

import "fmt"

// A Side is where a side output leads: what Open is given in next for an edge
// that carries one.
type Side struct {
	Tag      string
	Receiver any // a Receiver[S]
}

// To returns what Open is given for an edge that carries the side output of tag,
// or the main output if tag is empty.
func To(tag string, receiver any) any {
	if tag == "" {
		return receiver
	}
	return Side{tag, receiver}
}

// Sides are the side outputs of an operator in one subtask: an Output for each
// tag. They take records while the main one does, at the same times.
type Sides struct {
	c       *Context
	main    *moment
	next    []Side
	outputs []tagged
}

// tagged is a side output whose type is forgotten.
type tagged struct {
	tag  string
	emit any // a func(S)
	output
}

type output interface {
	begin(timed bool)
	end()
}

// EmitTo returns the function that emits to a side output. It is the same one
// whenever it is asked for, so that records keep their order. What nobody reads
// goes nowhere. A tag that is in use with another type fails the operator.
func EmitTo[S any](s *Sides, tag string) func(S) {
	for _, o := range s.outputs {
		if emit, ok := o.emit.(func(S)); ok && o.tag == tag {
			return emit
		} else if o.tag == tag {
			return refuse[S](s, tag)
		}
	}
	out := &Output[S]{chain: s.c.Chain, full: s.c.batchSize()}
	for _, n := range s.next {
		if receive, ok := n.Receiver.(Receiver[S]); ok && n.Tag == tag {
			out.next = append(out.next, receive)
		} else if n.Tag == tag {
			return refuse[S](s, tag)
		}
	}
	emit := func(v S) {
		out.at = s.main.at
		out.Emit(v)
	}
	if s.outputs = append(s.outputs, tagged{tag, emit, out}); s.main.open {
		out.begin(s.main.timed)
	}
	return emit
}

func refuse[S any](s *Sides, tag string) func(S) {
	s.c.Chain.Fail(s.c.Name, fmt.Errorf("side output %q: it emits records of type %T, and there is a tag of that name with another type", tag, *new(S)))
	return func(S) {}
}
