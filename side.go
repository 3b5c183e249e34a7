package weir

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/record"
)

// A Tag names a side output: a stream that an operator emits beside its main one,
// often of records of another type. An operator has as many as it likes. Process
// and Operate can emit to them:
//
//	late := weir.NewTag[Payment]("late")
//	totals := weir.Process(in, "totals", func(op *weir.Op[string, Total]) weir.Handler[Payment] {
//		emitLate := late.Of(op)
//		...
//	})
//	weir.Print(weir.Side(totals, late), "print late")
//
// Tags are told apart by their names, for each operator anew.
type Tag[T any] struct{ name string }

// NewTag returns the tag with a name.
func NewTag[T any](name string) Tag[T] { return Tag[T]{name} }

// sided is an *Out or an *Op.
type sided interface{ sides() *operator.Sides }

// Of returns the function that emits to the side output of an operator at work:
// op is the *Out or *Op that its constructor was given. The function may be called
// when op.Emit may. Where no Side looks at the tag the records go nowhere.
func (t Tag[T]) Of(op sided) (emit func(T)) { return operator.EmitTo[T](op.sides(), t.name) }

func (o *Out[O]) sides() *operator.Sides { return o.out.Sides() }

// Side is a view of a side output of the operators that a stream comes from. It
// is empty where an operator never emits to the tag. How the records of in are
// spread doesn't matter: those of the side output have views of their own.
func Side[T, S any](in Stream[T], tag Tag[S]) Stream[S] {
	out := Stream[S]{job: in.job}
	if tag.name == "" {
		in.job.mistake("side", "", errors.New("its tag has no name"))
	}
	records := recordType[S](in.job, "side", tag.name)
	for _, o := range in.from {
		n := &in.job.nodes[o.node].spec
		in.job.mistake("side", tag.name, declare[S](n, in.job.graph.Nodes[o.node].UID, tag.name, records))
		out.from = append(out.from, origin{node: o.node, side: tag.name, partition: graph.Auto, edge: operator.Rebalance[S]()})
	}
	return out
}

// declare notes that a side output of an operator is read.
func declare[S any](of *operator.Spec, uid, tag string, records record.Type) error {
	if of.Sides == nil {
		return fmt.Errorf("operator %q has no side outputs: Process and Operate can have them", uid)
	}
	if other := of.Sides[tag]; other != nil {
		if _, same := other.New().(*record.Batch[S]); !same {
			return fmt.Errorf("operator %q has another side output of that name, whose records aren't of type %T", uid, *new(S))
		}
	}
	of.Sides[tag] = records
	return nil
}

// withSides says that an operator can have side outputs.
func withSides[T any](s Stream[T]) Stream[T] {
	for _, o := range s.from {
		s.job.nodes[o.node].spec.Sides = map[string]record.Type{}
	}
	return s
}
