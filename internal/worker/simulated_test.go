package worker

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirstream/weir/internal/executor"
)

// simulated is an executor that does one thing at a time, in an order drawn from
// a seed. Its clock stands still while there is anything to do, but for one step
// in hurry, if that is set.
type simulated struct {
	hurry  int
	random *rand.Rand
	now    time.Time
	loops  []*simulatedLoop
	work   []func()
	timers []*simulatedTimer
	reach  func(point string) error
}

type simulatedLoop struct {
	name  string
	step  func() executor.Progress
	awake bool
}

type simulatedTimer struct {
	at time.Time
	f  func()
}

func newSimulated(seed uint64) *simulated {
	return &simulated{random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1000, 0)}
}

func (s *simulated) Now() time.Time { return s.now }

func (s *simulated) After(d time.Duration, f func()) (cancel func()) {
	t := &simulatedTimer{s.now.Add(d), f}
	s.timers = append(s.timers, t)
	return func() { s.timers = slices.DeleteFunc(s.timers, func(o *simulatedTimer) bool { return o == t }) }
}

func (s *simulated) Go(_ string, work func()) { s.work = append(s.work, work) }

func (s *simulated) Loop(name string, step func() executor.Progress) (wake func()) {
	l := &simulatedLoop{name, step, true}
	s.loops = append(s.loops, l)
	return func() { l.awake = true }
}

func (s *simulated) Reach(point string) error {
	if s.reach == nil {
		return nil
	}
	return s.reach(point)
}

// settle does whatever can be done before the clock moves.
func (s *simulated) settle() {
	for s.step() {
	}
}

// until goes on, the clock too, until done.
func (s *simulated) until(done func() bool) bool {
	for range 1_000_000 {
		switch {
		case done():
			return true
		case s.hurry > 0 && len(s.timers) > 0 && s.random.IntN(s.hurry) == 0:
			s.tick()
		case s.step():
		case len(s.timers) == 0:
			return false
		default:
			s.tick()
		}
	}
	return false
}

// step does one thing, if there is any.
func (s *simulated) step() bool {
	var awake []*simulatedLoop
	for _, l := range s.loops {
		if l.awake {
			awake = append(awake, l)
		}
	}
	if len(awake)+len(s.work) == 0 {
		return false
	}
	i := s.random.IntN(len(awake) + len(s.work))
	if i < len(s.work) {
		work := s.work[i]
		s.work = slices.Delete(s.work, i, i+1)
		work()
		return true
	}
	l := awake[i-len(s.work)]
	l.awake = false
	switch l.step() {
	case executor.Worked:
		l.awake = true
	case executor.Closed:
		s.loops = slices.DeleteFunc(s.loops, func(o *simulatedLoop) bool { return o == l })
	}
	return true
}

func (s *simulated) tick() {
	next := slices.MinFunc(s.timers, func(a, b *simulatedTimer) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	s.timers = slices.DeleteFunc(s.timers, func(o *simulatedTimer) bool { return o == next })
	s.now = next.at
	next.f()
}
