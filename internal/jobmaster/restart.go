package jobmaster

import (
	"fmt"
	"time"

	"github.com/weirstream/weir/internal/config"
)

// A Strategy decides whether a job that has failed is restarted, and when. It
// has neither clock nor dice.
type Strategy interface {
	// Failed takes in that the job has failed, and says how long to wait for the
	// restart, if there is one. Random is in [0, 1).
	Failed(now time.Time, random float64) (delay time.Duration, restart bool)
}

// Configured returns the strategy that the configuration asks for.
func Configured(c *config.Config) Strategy {
	switch kind := config.Get(c, config.RestartStrategy); kind {
	case "none":
		return Never{}
	case "fixed-delay":
		return &FixedDelay{
			Attempts: config.Get(c, config.FixedDelayAttempts),
			Delay:    config.Get(c, config.FixedDelay),
		}
	case "failure-rate":
		return &FailureRate{
			Max:      config.Get(c, config.FailureRateMax),
			Interval: config.Get(c, config.FailureRateInterval),
			Delay:    config.Get(c, config.FailureRateDelay),
		}
	case "exponential-delay":
		return &ExponentialDelay{
			Initial:    config.Get(c, config.ExponentialDelayInitial),
			Max:        config.Get(c, config.ExponentialDelayMax),
			Multiplier: config.Get(c, config.ExponentialDelayMultiplier),
			Reset:      config.Get(c, config.ExponentialDelayReset),
			Jitter:     config.Get(c, config.ExponentialDelayJitter),
			Attempts:   config.Get(c, config.ExponentialDelayAttempts),
		}
	default:
		panic(fmt.Sprintf("jobmaster: unknown restart strategy %q", kind))
	}
}

// Never doesn't restart.
type Never struct{}

// Failed implements Strategy.
func (Never) Failed(time.Time, float64) (time.Duration, bool) { return 0, false }

// FixedDelay restarts a number of times in all.
type FixedDelay struct {
	Attempts int
	Delay    time.Duration

	restarts int
}

// Failed implements Strategy.
func (s *FixedDelay) Failed(time.Time, float64) (time.Duration, bool) {
	s.restarts++
	return s.Delay, s.restarts <= s.Attempts
}

// FailureRate restarts as long as there aren't more than Max failures within any
// Interval.
type FailureRate struct {
	Max      int
	Interval time.Duration
	Delay    time.Duration

	failures []time.Time // the last ones, at most Max
}

// Failed implements Strategy.
func (s *FailureRate) Failed(now time.Time, _ float64) (time.Duration, bool) {
	if len(s.failures) == s.Max {
		if now.Sub(s.failures[0]) <= s.Interval {
			return 0, false
		}
		s.failures = s.failures[1:]
	}
	s.failures = append(s.failures, now)
	return s.Delay, true
}

// ExponentialDelay waits longer each time, until the job has run well for a while.
type ExponentialDelay struct {
	Initial, Max time.Duration
	Multiplier   float64
	Reset        time.Duration // for so long it must run
	Jitter       float64       // the share of the wait by which it varies, either way
	Attempts     int           // until a reset

	wait      time.Duration // the last one, jitter aside
	restarts  int           // since the reset
	restarted time.Time     // when the last restart began, or was to
}

// Failed implements Strategy.
func (s *ExponentialDelay) Failed(now time.Time, random float64) (time.Duration, bool) {
	if s.restarts == 0 || now.Sub(s.restarted) >= s.Reset {
		s.wait, s.restarts = s.Initial, 0
	} else {
		s.wait = time.Duration(min(float64(s.wait)*s.Multiplier, float64(s.Max)))
	}
	if s.restarts++; s.restarts > s.Attempts {
		return 0, false
	}
	delay := s.wait + time.Duration(float64(s.wait)*s.Jitter*(2*random-1))
	delay = min(delay, s.Max)
	s.restarted = now.Add(delay)
	return delay, true
}
