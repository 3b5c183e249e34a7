package align

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/record"
)

// TestWalk sends random streams of barriers and markers through an aligner,
// with barriers missing, aborts early and late, and channels that close, and
// holds it to its invariants. A failure prints its seed.
func TestWalk(t *testing.T) {
	for seed := range uint64(5000) {
		for _, counts := range []bool{false, true} {
			if err := walk(seed, counts); err != nil {
				t.Fatalf("seed %d, counting %v: %v", seed, counts, err)
			}
		}
	}
}

// model is what may be true of an aligner, kept the plain way.
type model struct {
	*Aligner
	held      []bool
	closed    []bool
	delivered []uint64 // the newest barrier of each channel
	newest    uint64   // completed or cancelled
	completed uint64
}

func walk(seed uint64, counts bool) error {
	var (
		rng     = rand.New(rand.NewPCG(seed, 0))
		n       = 1 + rng.IntN(4)
		streams = make([][]Event, n)
		m       = model{Aligner: New(n, counts), held: make([]bool, n), closed: make([]bool, n), delivered: make([]uint64, n)}
		last    = uint64(5 + rng.IntN(40))
	)
	for ch := range streams {
		streams[ch] = stream(rng, ch, last)
	}
	for slices.ContainsFunc(streams, func(s []Event) bool { return len(s) > 0 }) {
		ch := rng.IntN(n)
		switch {
		case rng.IntN(10) == 0:
			if err := m.step(Aborted{Checkpoint: uint64(rng.IntN(int(last)))}); err != nil {
				return err
			}
		case !slices.Contains(m.held, false):
			return fmt.Errorf("all channels are held")
		case m.held[ch] || len(streams[ch]) == 0:
		default:
			e := streams[ch][0]
			streams[ch] = streams[ch][1:]
			if err := m.step(e); err != nil {
				return fmt.Errorf("%+v: %w", e, err)
			}
		}
		if stuck(&m, streams) {
			return fmt.Errorf("stuck with held channels %v", m.held)
		}
	}
	if slices.Contains(m.held, true) {
		return fmt.Errorf("the last barrier has come everywhere and channels are held: %v", m.held)
	}
	if m.completed != last && slices.Contains(m.closed, false) {
		return fmt.Errorf("%d didn't complete; the last one that did is %d", last, m.completed)
	}
	return nil
}

// stuck says that what is left to be read is behind held channels.
func stuck(m *model, streams [][]Event) bool {
	left := false
	for ch, s := range streams {
		if len(s) > 0 && !m.held[ch] {
			return false
		}
		left = left || len(s) > 0
	}
	return left
}

// stream is what comes on a channel: barriers with gaps, some as markers, some
// late, and the last one for sure; or the end before it.
func stream(rng *rand.Rand, ch int, last uint64) (s []Event) {
	for n := uint64(1); n < last; n++ {
		switch rng.IntN(12) {
		case 0, 1:
			s = append(s, Cancelled{Channel: ch, Checkpoint: n})
		case 2:
		case 3:
			s = append(s, Barrier{ch, record.Barrier{Checkpoint: n + 1}}, Barrier{ch, record.Barrier{Checkpoint: n}})
			n++
		case 4:
			if rng.IntN(10) == 0 {
				return append(s, Closed{Channel: ch})
			}
		default:
			s = append(s, Barrier{ch, record.Barrier{Checkpoint: n}})
		}
	}
	return append(s, Barrier{ch, record.Barrier{Checkpoint: last}})
}

func (m *model) step(e Event) error {
	switch e := e.(type) {
	case Barrier:
		m.delivered[e.Channel] = max(m.delivered[e.Channel], e.Barrier.Checkpoint)
	case Closed:
		m.closed[e.Channel] = true
	}
	for _, action := range m.Step(e) {
		switch a := action.(type) {
		case Hold:
			b, ok := e.(Barrier)
			if m.counts || !ok || b.Channel != a.Channel || b.Barrier.Checkpoint <= m.newest || m.held[a.Channel] {
				return fmt.Errorf("channel %d is held for nothing", a.Channel)
			}
			m.held[a.Channel] = true
		case Release:
			if !slices.Contains(m.held, true) {
				return fmt.Errorf("released with nothing held")
			}
			clear(m.held)
		case Complete:
			if err := m.complete(a.Barrier.Checkpoint); err != nil {
				return err
			}
			m.completed = a.Barrier.Checkpoint
		case Cancel:
			if a.Checkpoint <= m.newest {
				return fmt.Errorf("cancelled %d after %d", a.Checkpoint, m.newest)
			}
			m.newest = a.Checkpoint
		}
	}
	return nil
}

// complete holds a snapshot to exactly once: each channel has been read up to
// its barrier, and no further.
func (m *model) complete(n uint64) error {
	if n <= m.newest {
		return fmt.Errorf("completed %d after %d", n, m.newest)
	}
	m.newest = n
	for ch, d := range m.delivered {
		if d != n && !m.closed[ch] {
			return fmt.Errorf("completed %d with channel %d at %d", n, ch, d)
		}
	}
	return nil
}
