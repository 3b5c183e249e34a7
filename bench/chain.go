package main

import (
	"context"

	"github.com/weirstream/weir"
)

const aLoop = "a loop through the same four function values"

// steps are the functions of the chain, the same for both sides.
type steps struct {
	source func(n uint64) event
	change func(event) event
	keep   func(event) bool
	sink   func(event) error
}

func newSteps() (s steps, t *tally) {
	t = &tally{}
	return steps{
		source: generator(1 << 20),
		change: func(e event) event { return event{e.Key, e.Value * 3} },
		keep:   func(e event) bool { return e.Key&3 != 0 },
		sink:   func(e event) error { t.add(e.Key, e.Value); return nil },
	}, t
}

// chain is a job of one chain: source, map, filter, sink.
func chain(n uint64) (uint64, error) {
	s, t := newSteps()
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		job.Parallelism = 1
		events := weir.From(job, "numbers", numbers{n, s.source})
		changed := weir.Map(events, "change", s.change)
		kept := weir.Filter(changed, "keep", s.keep)
		weir.Do(kept, "tally", s.sink)
		return nil
	})
	return t.check, err
}

// chainByHand does what chain does.
func chainByHand(n uint64) (uint64, error) {
	s, t := newSteps()
	err := s.loop(n)
	return t.check, err
}

func (s steps) loop(n uint64) error {
	for i := range n {
		if e := s.change(s.source(i)); s.keep(e) {
			if err := s.sink(e); err != nil {
				return err
			}
		}
	}
	return nil
}
