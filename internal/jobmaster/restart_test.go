package jobmaster

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/config"
)

const middle = 0.5 // the random number that makes no jitter

// TestStrategies fails a job at the given seconds and expects the given waits.
func TestStrategies(t *testing.T) {
	for _, test := range []struct {
		name     string
		strategy Strategy
		random   float64
		at       []float64
		want     string
	}{
		{"never", Never{}, middle, []float64{0}, "no"},
		{"fixed delay counts for ever", &FixedDelay{Attempts: 2, Delay: time.Second}, middle, []float64{0, 1e6, 2e6}, "1s 1s no"},
		{"one failure a minute", &FailureRate{Max: 1, Interval: time.Minute, Delay: time.Second}, middle, []float64{0, 61, 121}, "1s 1s no"},
		{"three failures a minute", &FailureRate{Max: 3, Interval: time.Minute, Delay: time.Second}, middle,
			[]float64{0, 20, 40, 61, 81, 100}, "1s 1s 1s 1s 1s no"},
		{"waits grow to the longest", &ExponentialDelay{Initial: time.Second, Max: 3 * time.Second, Multiplier: 1.5, Reset: time.Hour, Attempts: math.MaxInt}, middle,
			[]float64{0, 10, 20, 30, 40}, "1s 1.5s 2.25s 3s 3s"},
		{"an hour without failure resets", &ExponentialDelay{Initial: time.Second, Max: time.Minute, Multiplier: 2, Reset: time.Hour, Attempts: math.MaxInt}, middle,
			[]float64{0, 10, 3611.9, 7215.9}, "1s 2s 4s 1s"},
		{"only so many in a row", &ExponentialDelay{Initial: time.Second, Max: time.Minute, Multiplier: 2, Reset: time.Hour, Attempts: 2}, middle,
			[]float64{0, 10, 20}, "1s 2s no"},
		{"jitter shortens", &ExponentialDelay{Initial: 10 * time.Second, Max: time.Minute, Multiplier: 2, Reset: time.Hour, Jitter: 0.1, Attempts: 9}, 0,
			[]float64{0, 100}, "9s 18s"},
		{"jitter never exceeds the longest", &ExponentialDelay{Initial: 10 * time.Second, Max: 10 * time.Second, Multiplier: 2, Reset: time.Hour, Jitter: 0.1, Attempts: 9}, 0.99,
			[]float64{0, 100}, "10s 10s"},
	} {
		var got []string
		for _, s := range test.at {
			delay, restart := test.strategy.Failed(time.Unix(0, 0).Add(time.Duration(s*float64(time.Second))), test.random)
			if restart {
				got = append(got, delay.String())
			} else {
				got = append(got, "no")
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %v, want %s", test.name, got, test.want)
		}
	}
}

// Unset, it is none without checkpoints and exponential delay with them.
func TestStrategyFollowsTheConfiguration(t *testing.T) {
	for settings, want := range map[string]string{
		"":                                    "jobmaster.Never",
		"execution.checkpointing.interval=1s": "*jobmaster.ExponentialDelay",
		"restart-strategy.type=fixed-delay":   "*jobmaster.FixedDelay",
		"restart-strategy.type=failure-rate":  "*jobmaster.FailureRate",
	} {
		c, err := config.Merge(config.Assignments(strings.Fields(settings)))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%T", Configured(c)); got != want {
			t.Errorf("%q: got %s, want %s", settings, got, want)
		}
	}
}
