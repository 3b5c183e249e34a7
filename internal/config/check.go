package config

import (
	"fmt"
	"math"
	"strings"
)

// derive gives values to settings that follow from others while nobody sets them.
func (c *Config) derive() {
	if _, given := c.settings[RestartStrategy.key]; !given && Get(c, CheckpointInterval) > 0 {
		derived(c, RestartStrategy, "exponential-delay", "exponential-delay", "since checkpointing is on")
	}
	if _, given := c.settings[BacklogInterval.key]; !given && Get(c, CheckpointInterval) > 0 {
		interval := c.effective(CheckpointInterval.declaration)
		derived(c, BacklogInterval, Get(c, CheckpointInterval), interval.text, "as "+CheckpointInterval.key)
	}
	fail, given := c.settings[failOnCheckpointingErrors.key]
	if _, numberGiven := c.settings[TolerableFailedCheckpoints.key]; given && !numberGiven {
		tolerable, text := math.MaxInt, infinite
		if fail.value == true {
			tolerable, text = 0, "0"
		}
		derived(c, TolerableFailedCheckpoints, tolerable, text, "from "+fail.String())
	}
	backend, storage := c.effective(StateBackend.declaration), c.impliedStorage()
	if _, given := c.settings[CheckpointStorage.key]; !given && storage != "" {
		derived(c, CheckpointStorage, storage, storage, "from "+backend.String())
	}
}

// impliedStorage is the storage of checkpoints that an older name of a state backend
// stands for, empty if the backend has a name of today.
func (c *Config) impliedStorage() string {
	name := strings.ToLower(c.settings[StateBackend.key].text)
	if _, older := stateBackends.also[name]; older {
		return name
	}
	return ""
}

func derived[T any](c *Config, option Option[T], value T, text, origin string) {
	c.settings[option.key] = setting{key: option.key, text: text, origin: origin, value: value}
}

// latest is the path that stands for the newest run in the checkpoint directory.
const latest = "latest"

// contradictions finds settings that are each fine alone and don't go together.
func (m *merger) contradictions() {
	c := m.config
	refuse := func(together bool, first *declaration, how string, second *declaration) {
		if together && !m.wrong[first.key] && !m.wrong[second.key] {
			m.problems = append(m.problems, fmt.Errorf("%v %s %v", c.effective(first), how, c.effective(second)))
		}
	}
	refuse(Get(c, ExponentialDelayInitial) > Get(c, ExponentialDelayMax), ExponentialDelayInitial.declaration, "is longer than", ExponentialDelayMax.declaration)
	most := Get(c, MaxParallelism)
	refuse(most > 0 && Get(c, Parallelism) > most, Parallelism.declaration, "is more than", MaxParallelism.declaration)

	interval, during := Get(c, CheckpointInterval), Get(c, BacklogInterval)
	refuse(during > 0 && interval == 0, BacklogInterval.declaration, "needs", CheckpointInterval.declaration)
	refuse(during > 0 && during < interval, BacklogInterval.declaration, "is neither 0 nor at least", CheckpointInterval.declaration)

	storage, implied := Get(c, CheckpointStorage), c.impliedStorage()
	refuse(implied != "" && implied != storage, StateBackend.declaration, "means another storage than", CheckpointStorage.declaration)
	inMemory := Get(c, CheckpointDir) == ""
	refuse(storage == "filesystem" && inMemory, CheckpointStorage.declaration, "needs", CheckpointDir.declaration)
	refuse(storage == "jobmanager" && !inMemory, CheckpointStorage.declaration, "contradicts", CheckpointDir.declaration)
	refuse(!Get(c, CreateSubdir) && inMemory, CreateSubdir.declaration, "needs", CheckpointDir.declaration)

	path := Get(c, RecoveryPath)
	refuse(path == latest && inMemory, RecoveryPath.declaration, "needs", CheckpointDir.declaration)
	claim := Get(c, ClaimMode) == "CLAIM"
	refuse(claim && path == "", ClaimMode.declaration, "needs", RecoveryPath.declaration)
	refuse(claim && inMemory, ClaimMode.declaration, "would have what the job starts from deleted for checkpoints that go with the process, and needs", CheckpointDir.declaration)

	refuse(Get(c, unaligned) && Get(c, CheckpointMode) == "AT_LEAST_ONCE", unaligned.declaration, "contradicts", CheckpointMode.declaration)
	refuse(Get(c, unaligned) && Get(c, ConcurrentCheckpoints) > 1, unaligned.declaration, "contradicts", ConcurrentCheckpoints.declaration)
	refuse(Get(c, duringRecovery) && !Get(c, recoverOutput), duringRecovery.declaration, "needs", recoverOutput.declaration)
}

// noteCombinations says which settings have no effect beside others.
func (m *merger) noteCombinations() {
	c := m.config
	if Get(c, CheckpointRetention) != CheckpointRetention.otherwise && Get(c, CheckpointDir) == "" {
		c.note("%s has no effect without %s: checkpoints in memory go with the process", Describe(c, CheckpointRetention), Describe(c, CheckpointDir))
	}
	if Get(c, ClaimMode) == "LEGACY" {
		c.note("%s acts like NO_CLAIM: nothing of what the job starts from is deleted, or needed once the job has completed a checkpoint", Describe(c, ClaimMode))
	}
	if Get(c, ConcurrentCheckpoints) > 1 && Get(c, CheckpointMinPause) > 0 {
		c.note("%s has no effect: %s leaves room for one checkpoint at a time", Describe(c, ConcurrentCheckpoints), Describe(c, CheckpointMinPause))
	}
}
