package operator

import (
	"context"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// Keyed is a Transform with keyed state. It is always the head of its chain,
// since its input is hashed.
type Keyed[K comparable, I, O any] struct {
	Transform[I, O]
	Keys *state.Keyspace[K]
}

// Start puts the operator into its subtask: it loads its state.
func (k *Keyed[K, I, O]) Start(c *Context, out *Output[O]) (Operator, error) {
	if _, err := k.Transform.Start(c, out); err != nil {
		return k, err
	}
	k.Keys.Seal()
	if err := k.Keys.Err(); err != nil || c.Restored == nil {
		return k, err
	}
	dropped, err := k.Keys.Restore(c, c.Restored.Keyed, c.Origin, c.DropUnclaimed)
	for _, name := range dropped {
		c.Logger.Warn("state dropped: the operator doesn't declare it any more", "state", name)
	}
	return k, err
}

// Freeze implements Operator.
func (k *Keyed[K, I, O]) Freeze(record.Barrier) (Part, error) {
	return &part{ended: k.ended, lists: k.c.Lists().Freeze(), keyed: k.Keys.Freeze()}, nil
}

// Err implements Operator.
func (k *Keyed[K, I, O]) Err() error {
	if err := k.Keys.Err(); err != nil {
		return err
	}
	return k.Transform.Err()
}

// part is the frozen state of an operator that has more than Whole can hold.
type part struct {
	ended bool
	lists []state.FrozenList
	keyed frozen // nil if it has no keyed state
}

// frozen is a state.Frozen.
type frozen interface {
	Capture(budget int) (done bool)
	Write(ctx context.Context, to state.Target) (state.Handle, error)
	Drop()
}

func (p *part) Capture(budget int) bool { return p.keyed == nil || p.keyed.Capture(budget) }

func (p *part) Drop() {
	if p.keyed != nil {
		p.keyed.Drop()
	}
}

func (p *part) Write(ctx context.Context, to state.Target) (s snapshot.State, err error) {
	s.Ended = p.ended
	for _, l := range p.lists {
		written, err := writeList(ctx, to, l)
		if err != nil {
			return s, err
		}
		s.Lists = append(s.Lists, written)
	}
	if p.keyed == nil {
		return s, nil
	}
	h, err := p.keyed.Write(ctx, to)
	if err == nil {
		s.Keyed = []state.Handle{h}
	}
	return s, err
}
