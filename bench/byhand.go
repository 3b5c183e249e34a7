package main

import "sync"

// A lane is a channel of slices, and one on which they come back.
type lane[T any] struct{ full, free chan []T }

const (
	sliceLen   = 1024
	laneSlices = 8
)

func newLane[T any]() lane[T] {
	l := lane[T]{make(chan []T, laneSlices), make(chan []T, laneSlices)}
	for range laneSlices {
		l.free <- make([]T, 0, sliceLen)
	}
	return l
}

// keyedSumByHand does what keyedSum does, as one would write it: p producers, p
// consumers, of which each owns a part of the keys. P is a power of two.
func keyedSumByHand(n, keys uint64, p int) (check uint64) {
	lanes := make([]lane[event], p)
	tallies := make([]tally, p)
	for i := range lanes {
		lanes[i] = newLane[event]()
	}
	var producers, consumers sync.WaitGroup
	for i := range uint64(p) {
		from, to := i*n/uint64(p), (i+1)*n/uint64(p)
		producers.Go(func() { produce(generator(keys), from, to, lanes) })
		consumers.Go(func() { consume(lanes[i], make(map[uint64]int64, keys/uint64(p)), tallies[i].add) })
	}
	producers.Wait()
	for _, l := range lanes {
		close(l.full)
	}
	consumers.Wait()
	for _, t := range tallies {
		check += t.check
	}
	return check
}

func produce(source func(n uint64) event, from, to uint64, lanes []lane[event]) {
	if len(lanes) == 1 {
		produceToOne(source, from, to, lanes[0])
		return
	}
	open := make([][]event, len(lanes))
	for i, l := range lanes {
		open[i] = <-l.free
	}
	for n := from; n < to; n++ {
		e := source(n)
		i := e.Key & uint64(len(lanes)-1)
		if open[i] = append(open[i], e); len(open[i]) == sliceLen {
			lanes[i].full <- open[i]
			open[i] = <-lanes[i].free
		}
	}
	for i, l := range lanes {
		l.full <- open[i]
	}
}

func produceToOne(source func(n uint64) event, from, to uint64, l lane[event]) {
	for from < to {
		events := (<-l.free)[:min(sliceLen, to-from)]
		for i := range events {
			events[i] = source(from + uint64(i))
		}
		from += uint64(len(events))
		l.full <- events
	}
}

func consume(l lane[event], sums map[uint64]int64, sink func(key uint64, sum int64)) {
	for events := range l.full {
		for _, e := range events {
			sum := sums[e.Key] + e.Value
			sums[e.Key] = sum
			sink(e.Key, sum)
		}
		l.free <- events[:0]
	}
}
