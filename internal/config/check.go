package config

import (
	"fmt"
	"math"
)

// derive gives values to settings that follow from others while nobody sets them.
func (c *Config) derive() {
	if _, given := c.settings[RestartStrategy.key]; !given && Get(c, CheckpointInterval) > 0 {
		derived(c, RestartStrategy, "exponential-delay", "exponential-delay", "since checkpointing is on")
	}
	fail, given := c.settings[failOnCheckpointingErrors.key]
	if _, numberGiven := c.settings[TolerableFailedCheckpoints.key]; given && !numberGiven {
		tolerable, text := math.MaxInt, infinite
		if fail.value == true {
			tolerable, text = 0, "0"
		}
		derived(c, TolerableFailedCheckpoints, tolerable, text, "from "+fail.String())
	}
}

func derived[T any](c *Config, option Option[T], value T, text, origin string) {
	c.settings[option.key] = setting{key: option.key, text: text, origin: origin, value: value}
}

// contradictions finds settings that are each fine alone and don't go together.
func (m *merger) contradictions() {
	c := m.config
	complain := func(first *declaration, how string, second *declaration) {
		if !m.wrong[first.key] && !m.wrong[second.key] {
			m.problems = append(m.problems, fmt.Errorf("%v %s %v", c.effective(first), how, c.effective(second)))
		}
	}
	if Get(c, ExponentialDelayInitial) > Get(c, ExponentialDelayMax) {
		complain(ExponentialDelayInitial.declaration, "is longer than", ExponentialDelayMax.declaration)
	}
	if most := Get(c, MaxParallelism); most > 0 && Get(c, Parallelism) > most {
		complain(Parallelism.declaration, "is more than", MaxParallelism.declaration)
	}
	if during := Get(c, intervalDuringBacklog); during > 0 && during < Get(c, CheckpointInterval) {
		complain(intervalDuringBacklog.declaration, "is neither 0 nor at least", CheckpointInterval.declaration)
	}
	switch storage, directory := Get(c, checkpointStorage), Get(c, CheckpointDir); {
	case storage == "filesystem" && directory == "":
		complain(checkpointStorage.declaration, "needs", CheckpointDir.declaration)
	case storage == "jobmanager" && directory != "":
		complain(checkpointStorage.declaration, "contradicts", CheckpointDir.declaration)
	}
}
