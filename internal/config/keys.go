package config

import "time"

// The settings that the engine reads.
var (
	CheckpointInterval         = option[time.Duration]("execution.checkpointing.interval") // 0: no checkpoints
	CheckpointTimeout          = option[time.Duration]("execution.checkpointing.timeout")
	SavepointTimeout           = option[time.Duration]("execution.checkpointing.savepoint-timeout")
	SavepointDir               = option[string]("execution.checkpointing.savepoint-dir")
	CheckpointMinPause         = option[time.Duration]("execution.checkpointing.min-pause")
	CheckpointDir              = option[string]("execution.checkpointing.dir") // empty: in memory
	CheckpointMode             = option[string]("execution.checkpointing.mode")
	CheckpointRetention        = option[string]("execution.checkpointing.externalized-checkpoint-retention")
	ConcurrentCheckpoints      = option[int]("execution.checkpointing.max-concurrent-checkpoints")
	CheckpointsAfterEnd        = option[bool]("execution.checkpointing.checkpoints-after-tasks-finish")
	TolerableFailedCheckpoints = option[int]("execution.checkpointing.tolerable-failed-checkpoints")
	RetainedCheckpoints        = option[int]("execution.checkpointing.num-retained")
	InlineThreshold            = option[int64]("execution.checkpointing.data-inline-threshold")
	RecoveryFallback           = option[bool]("execution.checkpointing.recovery.fallback")
	BacklogInterval            = option[time.Duration]("execution.checkpointing.interval-during-backlog") // 0: none then
	PreferCheckpoint           = option[bool]("execution.checkpointing.prefer-checkpoint-for-recovery")
	CheckpointHistory          = option[int]("web.checkpoints.history")
	CheckpointStorage          = option[string]("execution.checkpointing.storage") // empty: as CheckpointDir says
	CreateSubdir               = option[bool]("execution.checkpointing.create-subdir")
	WriteBufferSize            = option[int64]("execution.checkpointing.write-buffer-size")
	AcknowledgementSize        = option[int64]("execution.checkpointing.max-acknowledgement-size")
	SnapshotCompression        = option[bool]("execution.checkpointing.snapshot-compression")
	Incremental                = option[bool]("execution.checkpointing.incremental")

	RecoveryPath         = option[string]("execution.state-recovery.path") // empty: from the beginning
	IgnoreUnclaimedState = option[bool]("execution.state-recovery.ignore-unclaimed-state")
	ChangeMaxParallelism = option[bool]("execution.state-recovery.change-max-parallelism")
	ClaimMode            = option[string]("execution.state-recovery.claim-mode")
	LocalRecovery        = option[bool]("execution.state-recovery.from-local")
	LocalRecoveryDirs    = option[[]string]("execution.checkpointing.local-backup.dirs")

	JobName           = option[string]("pipeline.name")
	Parallelism       = option[int]("parallelism.default")
	MaxParallelism    = option[int]("pipeline.max-parallelism") // 0: from the parallelism
	AutoGenerateUIDs  = option[bool]("pipeline.auto-generate-uids")
	OperatorChaining  = option[bool]("pipeline.operator-chaining.enabled")
	BufferTimeout     = option[time.Duration]("execution.buffer-timeout.interval")
	StateBackend      = option[string]("state.backend.type")
	CancellationLimit = option[time.Duration]("task.cancellation.timeout") // 0: for ever

	RestartStrategy            = option[string]("restart-strategy.type") // none, fixed-delay, failure-rate or exponential-delay
	FixedDelayAttempts         = option[int]("restart-strategy.fixed-delay.attempts")
	FixedDelay                 = option[time.Duration]("restart-strategy.fixed-delay.delay")
	FailureRateMax             = option[int]("restart-strategy.failure-rate.max-failures-per-interval")
	FailureRateInterval        = option[time.Duration]("restart-strategy.failure-rate.failure-rate-interval")
	FailureRateDelay           = option[time.Duration]("restart-strategy.failure-rate.delay")
	ExponentialDelayInitial    = option[time.Duration]("restart-strategy.exponential-delay.initial-backoff")
	ExponentialDelayMax        = option[time.Duration]("restart-strategy.exponential-delay.max-backoff")
	ExponentialDelayMultiplier = option[float64]("restart-strategy.exponential-delay.backoff-multiplier")
	ExponentialDelayReset      = option[time.Duration]("restart-strategy.exponential-delay.reset-backoff-threshold")
	ExponentialDelayJitter     = option[float64]("restart-strategy.exponential-delay.jitter-factor")
	ExponentialDelayAttempts   = option[int]("restart-strategy.exponential-delay.attempts-before-reset-backoff")

	failOnCheckpointingErrors = option[bool]("execution.checkpointing.fail-on-checkpointing-errors")
	unaligned                 = option[bool]("execution.checkpointing.unaligned.enabled")
	duringRecovery            = option[bool]("execution.checkpointing.during-recovery.enabled")
	recoverOutput             = option[bool]("execution.checkpointing.unaligned.recover-output-on-downstream.enabled")
)

// section is a group of settings that docs/configuration.md shows under one heading.
type section struct {
	title        string
	declarations []declaration
}

const (
	mb = int64(1) << 20

	maxSubtasks = 32768 // also the most key groups
)

var (
	anyDuration = duration{}
	tick        = duration{min: 10 * time.Millisecond}
	positive    = duration{min: time.Millisecond}
	count       = integer{min: 1}
	port        = integer{max: 65535}
	share       = number{max: 1}

	restartStrategies = choice{
		values: []string{"none", "fixed-delay", "failure-rate", "exponential-delay"},
		also: map[string]string{
			"disable": "none", "off": "none",
			"fixeddelay": "fixed-delay", "failurerate": "failure-rate", "exponentialdelay": "exponential-delay",
		},
	}
	stateBackends = choice{
		values: []string{"hashmap", "rocksdb", "forst", "lsm"},
		also:   map[string]string{"jobmanager": "hashmap", "filesystem": "hashmap"},
	}
)

var sections = []section{
	{"Checkpoints", []declaration{
		{key: "execution.checkpointing.interval", kind: duration{min: 10 * time.Millisecond, off: true}, meaning: "The time from one checkpoint to the next. Without it there are no checkpoints."},
		{key: "execution.checkpointing.interval-during-backlog", kind: duration{off: true}, meaning: "The interval while a source says that it is catching up, if it is to be another: longer, or 0 for no checkpoints then."},
		{key: "execution.checkpointing.mode", kind: oneOf("EXACTLY_ONCE", "AT_LEAST_ONCE"), otherwise: "EXACTLY_ONCE", meaning: "What records count in a checkpoint: each exactly once, or at least once and without waiting for barriers."},
		{key: "execution.checkpointing.timeout", kind: tick, otherwise: "10 min", meaning: "How long a checkpoint may take before it is given up."},
		{key: "execution.checkpointing.min-pause", kind: duration{max: 365 * 24 * time.Hour}, otherwise: "0 ms", meaning: "The least time from the end of one checkpoint to the start of the next periodic one."},
		{key: "execution.checkpointing.max-concurrent-checkpoints", kind: count, otherwise: "1", meaning: "How many checkpoints may be under way at once. With a pause between them it is one."},
		{key: "execution.checkpointing.tolerable-failed-checkpoints", kind: integer{}, otherwise: "0", meaning: "How many checkpoints in a row may fail before the job fails."},
		{key: "execution.checkpointing.fail-on-checkpointing-errors", kind: boolean{}, meaning: "The older form of the previous setting: true tolerates no failed checkpoint, false any number. The number wins where both are set."},
		{key: "execution.checkpointing.externalized-checkpoint-retention", kind: oneOf("NO_EXTERNALIZED_CHECKPOINTS", "RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"), otherwise: "NO_EXTERNALIZED_CHECKPOINTS", meaning: "Whether the checkpoints of a job that is cancelled are kept. Those of a job that fails or is suspended always are."},
		{key: "execution.checkpointing.num-retained", kind: count, otherwise: "1", old: []string{"state.checkpoints.num-retained"}, meaning: "How many completed checkpoints are kept."},
		{key: "execution.checkpointing.dir", kind: text{}, old: []string{"state.checkpoints.dir", "state.backend.fs.checkpointdir"}, meaning: "The directory of checkpoints. Without it they are kept in memory, and lost with the process."},
		{key: "execution.checkpointing.create-subdir", kind: boolean{}, otherwise: "true", old: []string{"state.checkpoints.create-subdir"}, meaning: "Whether a job's checkpoints go into a directory of their own, named by the job's id. Without, the checkpoint directory is one job's: with another's checkpoints in it, it is refused."},
		{key: "execution.checkpointing.storage", kind: oneOf("jobmanager", "filesystem"), old: []string{"state.checkpoint-storage"}, meaning: "Where checkpoints are kept: in memory or in the checkpoint directory. Without it the directory decides, and it may not say otherwise."},
		{key: "execution.checkpointing.data-inline-threshold", kind: size{max: mb}, otherwise: "20 kb", old: []string{"state.backend.fs.memory-threshold", "state.storage.fs.memory-threshold"}, meaning: "State smaller than this is written into the checkpoint's metadata rather than into a file."},
		{key: "execution.checkpointing.write-buffer-size", kind: size{}, otherwise: "4096", old: []string{"state.backend.fs.write-buffer-size", "state.storage.fs.write-buffer-size"}, meaning: "How much is written to a checkpoint's file at once; data-inline-threshold, if that is more."},
		{key: "execution.checkpointing.max-acknowledgement-size", kind: size{min: 1}, otherwise: "10 mb", old: []string{"akka.framesize", "pekko.framesize"}, meaning: "How much a subtask may say of its part of a checkpoint. It counts where checkpoints are kept in memory, which take at most 5 mb of one state, too."},
		{key: "execution.checkpointing.incremental", kind: boolean{}, otherwise: "false", use: later, old: []string{"state.backend.incremental"}, meaning: "Whether a checkpoint writes only what has changed since the one before."},
		{key: "execution.checkpointing.checkpoints-after-tasks-finish", kind: boolean{}, otherwise: "true", old: []string{"execution.checkpointing.checkpoints-after-tasks-finish.enabled"}, meaning: "Whether checkpoints go on when parts of the job have ended. When false there is no final checkpoint either."},
		{key: "execution.checkpointing.snapshot-compression", kind: boolean{}, otherwise: "false", meaning: "Whether keyed state is compressed, with zstd, in checkpoints and savepoints."},
		{key: "execution.checkpointing.cleaner.parallel-mode", kind: boolean{}, otherwise: "true", use: later, old: []string{"state.checkpoint.cleaner.parallel-mode"}, meaning: "Whether the files of an old checkpoint are deleted in parallel."},
		{key: "execution.checkpointing.recovery.fallback", kind: boolean{}, otherwise: "true", meaning: "Whether an older retained checkpoint is taken when the latest is damaged. When false, the job fails and names the damaged file."},
		{key: "execution.checkpointing.prefer-checkpoint-for-recovery", kind: boolean{}, otherwise: "true", meaning: "Whether a restart passes over the job's own savepoints that are newer than its latest checkpoint. When false, outputs are committed for a savepoint, too, and it must not be deleted before there is a newer checkpoint."},
		{key: "pipeline.sources.pause-until-first-checkpoint", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether sources wait for the first checkpoint."},
	}},
	{"Unaligned checkpoints", []declaration{
		{key: "execution.checkpointing.unaligned.enabled", kind: boolean{}, otherwise: "false", use: later, old: []string{"execution.checkpointing.unaligned"}, meaning: "Whether barriers overtake the records between subtasks, which become part of the checkpoint."},
		{key: "execution.checkpointing.aligned-checkpoint-timeout", kind: anyDuration, otherwise: "0 ms", use: later, old: []string{"execution.checkpointing.alignment-timeout"}, meaning: "How long barriers wait for each other before they start to overtake; 0 means not at all."},
		{key: "execution.checkpointing.unaligned.forced", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether barriers overtake also where the job has a loop."},
		{key: "execution.checkpointing.unaligned.interruptible-timers.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether barriers are let through between the timers that one watermark fires."},
		{key: "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file", kind: count, otherwise: "5", use: later, meaning: "How many subtasks write their records in flight into one file."},
		{key: "execution.checkpointing.unaligned.recover-output-on-downstream.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether records in flight on the writer's side are restored on the reader's."},
		{key: "execution.checkpointing.during-recovery.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether checkpoints are made while records in flight are still being restored."},
	}},
	{"Merging of checkpoint files", []declaration{
		{key: "execution.checkpointing.file-merging.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether several subtasks write into one file."},
		{key: "execution.checkpointing.file-merging.across-checkpoint-boundary", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether a file may serve several checkpoints."},
		{key: "execution.checkpointing.file-merging.max-file-size", kind: size{}, otherwise: "32 mb", use: later, meaning: "The size at which a shared file ends."},
		{key: "execution.checkpointing.file-merging.max-space-amplification", kind: number{}, otherwise: "2.0", use: later, meaning: "How many times larger than what is still in use the files may be; below 1, as large as they get."},
		{key: "execution.checkpointing.file-merging.pool-blocking", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether a subtask waits for a shared file to become free."},
		{key: "execution.checkpointing.file-merging.max-subtasks-per-file", kind: count, otherwise: "4", use: later, meaning: "How many subtasks share a file."},
	}},
	{"Regional checkpoints", []declaration{
		{key: "execution.checkpointing.region.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether a checkpoint completes when parts of the job that are independent of the others fail to take theirs."},
		{key: "execution.checkpointing.region.max-failure-ratio", kind: share, otherwise: "0.3", use: later, meaning: "The share of the regions that may fail."},
		{key: "execution.checkpointing.region.max-consecutive-failures", kind: count, otherwise: "2", use: later, meaning: "How many times in a row a region may fail."},
	}},
	{"Savepoints, restore and recovery", []declaration{
		{key: "execution.checkpointing.savepoint-dir", kind: text{}, old: []string{"state.savepoints.dir", "savepoints.state.backend.fs.dir"}, meaning: "Where savepoints go when a command names no directory."},
		{key: "execution.checkpointing.savepoint-timeout", kind: tick, otherwise: "1 h", meaning: "How long a savepoint may take before it is given up."},
		{key: "execution.state-recovery.path", kind: text{}, old: []string{"execution.savepoint.path"}, meaning: "The checkpoint or savepoint from which a new job starts, as the flag -s gives it."},
		{key: "execution.state-recovery.ignore-unclaimed-state", kind: boolean{}, otherwise: "false", old: []string{"execution.savepoint.ignore-unclaimed-state"}, meaning: "Whether state that no operator of the job asks for is dropped at the start, as the flag -n says."},
		{key: "execution.state-recovery.change-max-parallelism", kind: boolean{}, otherwise: "false", meaning: "Whether keyed state is read into another number of key groups, where one is set: every subtask then reads all of it, and hashes all keys anew."},
		{key: "execution.state-recovery.claim-mode", kind: oneOf("NO_CLAIM", "CLAIM", "LEGACY"), otherwise: "NO_CLAIM", old: []string{"execution.savepoint-restore-mode"}, meaning: "Whether the snapshot from which the job starts becomes one of its checkpoints, and is deleted as these are, as the flag -claimMode gives it. LEGACY acts like NO_CLAIM."},
		{key: "execution.state-recovery.without-channel-state.checkpoint-id", kind: integer{off: true}, otherwise: "-1", use: later, old: []string{"execution.checkpointing.recover-without-channel-state.checkpoint-id"}, meaning: "The checkpoint from which records in flight are not restored."},
		{key: "execution.state-recovery.from-local", kind: boolean{}, otherwise: "false", use: later, old: []string{"state.backend.local-recovery"}, meaning: "Whether a restart reads a copy of the state on the worker's disk."},
		{key: "execution.checkpointing.local-backup.enabled", kind: boolean{}, use: later, meaning: "Whether such copies are written; without it, as the previous setting says."},
		{key: "execution.checkpointing.local-backup.dirs", kind: list{}, use: later, old: []string{"taskmanager.state.local.root-dirs"}, meaning: "Where such copies are written."},
	}},
	{"The job", []declaration{
		{key: "pipeline.name", kind: text{}, meaning: "The job's name, unless its code gives one. Without either it is the program's."},
		{key: "parallelism.default", kind: integer{min: 1, max: maxSubtasks}, otherwise: "1", meaning: "The parallelism of operators that don't set their own, as the flag -p gives it."},
		{key: "pipeline.max-parallelism", kind: integer{min: 1, max: maxSubtasks, off: true}, otherwise: "-1", meaning: "The number of key groups, and so the most subtasks that the job can ever have; -1 takes it from the parallelism."},
		{key: "pipeline.auto-generate-uids", kind: boolean{}, otherwise: "true", meaning: "Whether an operator without a uid gets one that is derived from its place in the job, rather than being refused."},
		{key: "pipeline.operator-chaining.enabled", kind: boolean{}, otherwise: "true", old: []string{"pipeline.operator-chaining"}, meaning: "Whether operators that can follow each other in one subtask do."},
		{key: "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether operators of different maximum parallelism are chained."},
		{key: "pipeline.auto-watermark-interval", kind: anyDuration, otherwise: "200 ms", use: later, meaning: "The time from one watermark of a source to the next."},
		{key: "pipeline.watermark-alignment.allow-unaligned-source-splits", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether sources whose splits can't be paused take part in the alignment of watermarks."},
		{key: "pipeline.object-reuse", kind: boolean{}, otherwise: "false", use: nothing, meaning: "Chained operators hand records on without a copy."},
		{key: "execution.buffer-timeout.interval", kind: anyDuration, otherwise: "100 ms", old: []string{"execution.buffer-timeout"}, meaning: "How long a record may wait in a batch that isn't full; 0 sends each at once."},
		{key: "execution.buffer-timeout.enabled", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether batches are sent before they are full at all."},
		{key: "sink.committer.retries", kind: integer{}, otherwise: "10", use: later, meaning: "How many times a commit that a sink asks to try again is tried again."},
		{key: "task.cancellation.timeout", kind: anyDuration, otherwise: "3 min", meaning: "How long a function may ignore that its task was cancelled before the process ends; 0 waits for ever."},
		{key: "task.cancellation.interval", kind: anyDuration, otherwise: "30 s", use: nothing, meaning: "A goroutine can't be interrupted, so it isn't told again and again."},
	}},
	{"Restart after a failure", []declaration{
		{key: "restart-strategy.type", kind: restartStrategies, otherwise: "none", old: []string{"restart-strategy"}, meaning: "How a job is restarted. Unset, it is none without checkpoints and exponential-delay with them."},
		{key: "restart-strategy.fixed-delay.attempts", kind: integer{infinite: true}, otherwise: "1", meaning: "How many restarts there are in all."},
		{key: "restart-strategy.fixed-delay.delay", kind: anyDuration, otherwise: "1 s", meaning: "How long a restart waits."},
		{key: "restart-strategy.failure-rate.max-failures-per-interval", kind: count, otherwise: "1", meaning: "How many failures within the interval are followed by a restart."},
		{key: "restart-strategy.failure-rate.failure-rate-interval", kind: positive, otherwise: "1 min", meaning: "The interval in which failures are counted."},
		{key: "restart-strategy.failure-rate.delay", kind: anyDuration, otherwise: "1 s", meaning: "How long a restart waits."},
		{key: "restart-strategy.exponential-delay.initial-backoff", kind: positive, otherwise: "1 s", meaning: "How long the first restart waits."},
		{key: "restart-strategy.exponential-delay.max-backoff", kind: positive, otherwise: "1 min", meaning: "The longest that a restart waits."},
		{key: "restart-strategy.exponential-delay.backoff-multiplier", kind: number{min: 1}, otherwise: "1.5", meaning: "How many times longer than the one before a restart waits."},
		{key: "restart-strategy.exponential-delay.reset-backoff-threshold", kind: positive, otherwise: "1 h", meaning: "How long a job must run for the next restart to count as the first again."},
		{key: "restart-strategy.exponential-delay.jitter-factor", kind: share, otherwise: "0.1", meaning: "The share of the wait by which it is varied at random, so that jobs don't restart together."},
		{key: "restart-strategy.exponential-delay.attempts-before-reset-backoff", kind: integer{min: 1, infinite: true}, otherwise: "infinite", meaning: "How many restarts there are before the job fails, counted anew after a reset."},
		{key: "jobmanager.execution.failover-strategy", kind: oneOf("region", "full"), otherwise: "region", use: later, meaning: "Whether a failure restarts only the tasks that are connected with the failed one. For now the whole job restarts."},
	}},
	{"State backends", []declaration{
		{key: "state.backend.type", kind: stateBackends, otherwise: "hashmap", use: refused, old: []string{"state.backend"}, meaning: "Where state is kept while the job runs, unless the job's code has a backend of its own. The older values jobmanager and filesystem mean hashmap, with that storage of checkpoints."},
		{key: "state.backend.async", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether snapshots are written beside the stream."},
		{key: "state.backend.rocksdb.localdir", kind: text{}, use: later, old: []string{"state.backend.rocksdb.checkpointdir"}, meaning: "The directory of the state on the worker's disk."},
		{key: "state.backend.rocksdb.timer-service.factory", kind: oneOf("ROCKSDB", "HEAP"), otherwise: "ROCKSDB", use: later, meaning: "Where timers are kept."},
		{key: "state.backend.rocksdb.checkpoint.transfer.thread.num", kind: count, otherwise: "4", use: later, meaning: "How many files are moved at once to and from checkpoints."},
		{key: "state.backend.rocksdb.memory.managed", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether the size of the worker bounds caches and write buffers."},
		{key: "state.backend.rocksdb.memory.fixed-per-slot", kind: size{}, use: later, meaning: "The memory of caches and write buffers for a slot."},
		{key: "state.backend.rocksdb.memory.fixed-per-tm", kind: size{}, use: later, meaning: "The memory of caches and write buffers for a worker."},
		{key: "state.backend.rocksdb.memory.write-buffer-ratio", kind: share, otherwise: "0.5", use: later, meaning: "The share of that memory for write buffers."},
		{key: "state.backend.rocksdb.memory.high-prio-pool-ratio", kind: share, otherwise: "0.1", use: later, meaning: "The share of that memory for indexes and filters."},
		{key: "state.backend.rocksdb.predefined-options", kind: oneOf("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"), otherwise: "DEFAULT", use: later, meaning: "A set of options for a kind of disk."},
		{key: "state.backend.rocksdb.compaction.style", kind: oneOf("LEVEL", "UNIVERSAL", "FIFO", "NONE"), otherwise: "LEVEL", use: later, meaning: "How files are merged."},
		{key: "state.backend.rocksdb.writebuffer.size", kind: size{}, otherwise: "64 mb", use: later, meaning: "The size of a write buffer."},
		{key: "state.backend.rocksdb.writebuffer.count", kind: count, otherwise: "2", use: later, meaning: "How many write buffers there may be."},
		{key: "state.backend.rocksdb.block.cache-size", kind: size{}, otherwise: "8 mb", use: later, meaning: "The size of the cache of blocks."},
		{key: "state.backend.rocksdb.block.blocksize", kind: size{}, otherwise: "4 kb", use: later, meaning: "The size of a block."},
		{key: "state.backend.rocksdb.thread.num", kind: count, otherwise: "2", use: later, meaning: "How many goroutines flush and merge files."},
		{key: "state.backend.rocksdb.use-bloom-filter", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether files have a Bloom filter."},
		{key: "state.backend.rocksdb.use-ingest-db-restore-mode", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether a restore at another parallelism takes whole files over."},
		{key: "state.backend.rocksdb.compaction.filter.query-time-after-num-entries", kind: integer{}, otherwise: "1000", use: later, meaning: "After how many entries a merge that drops expired state looks at the clock."},
		{key: "state.backend.rocksdb.compaction.filter.periodic-compaction-time", kind: anyDuration, otherwise: "30 d", use: later, meaning: "The age at which a file is merged so that its expired state goes."},
		{key: "state.backend.rocksdb.restore-overlap-fraction-threshold", kind: share, otherwise: "0.0", use: later, meaning: "How much of a file must be of use for a restore to start from it."},
		{key: "state.backend.rocksdb.write-batch-size", kind: size{}, otherwise: "2 mb", use: later, meaning: "How much a restore writes at once."},
		{key: "state.backend.forst.primary-dir", kind: text{}, otherwise: "checkpoint-dir", use: later, meaning: "Where the files of state live."},
		{key: "state.backend.forst.local-dir", kind: text{}, use: later, meaning: "The directory of files on the worker's disk."},
		{key: "state.backend.forst.cache.dir", kind: text{}, use: later, meaning: "The directory of the file cache."},
		{key: "state.backend.forst.cache.size-based-limit", kind: size{}, otherwise: "0", use: later, meaning: "How large the file cache may grow; 0 is unbounded."},
		{key: "state.backend.forst.cache.reserve-size", kind: size{}, otherwise: "256 mb", use: later, meaning: "How much of the disk the file cache leaves free."},
		{key: "state.backend.forst.executor.read-io-parallelism", kind: count, otherwise: "3", use: later, meaning: "How many reads are under way at once."},
		{key: "state.backend.forst.memory.managed", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether the size of the worker bounds caches and write buffers."},
		{key: "state.changelog.enabled", kind: boolean{}, otherwise: "false", use: later, old: []string{"state.backend.changelog.enabled"}, meaning: "Whether changes of state are written continuously, so that checkpoints are short."},
		{key: "state.changelog.storage", kind: oneOf("memory", "filesystem"), otherwise: "memory", use: later, old: []string{"state.backend.changelog.storage"}, meaning: "Where the changes are written."},
		{key: "state.changelog.periodic-materialize.enabled", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether state is written whole from time to time."},
		{key: "state.changelog.periodic-materialize.interval", kind: positive, otherwise: "10 min", use: later, old: []string{"state.backend.changelog.periodic-materialize.interval"}, meaning: "How often state is written whole."},
		{key: "state.changelog.max-failures-allowed", kind: integer{}, otherwise: "3", use: later, old: []string{"state.backend.changelog.max-failures-allowed"}, meaning: "How many times in a row writing it whole may fail."},
		{key: "state.changelog.dstl.dfs.base-path", kind: text{}, use: later, meaning: "The directory of the changes."},
		{key: "state.changelog.dstl.dfs.batch.persist-delay", kind: anyDuration, otherwise: "10 ms", use: later, meaning: "How long changes are collected before they are written."},
		{key: "state.changelog.dstl.dfs.batch.persist-size-threshold", kind: size{}, otherwise: "10 mb", use: later, meaning: "How many changes are collected before they are written."},
		{key: "state.changelog.dstl.dfs.preemptive-persist-threshold", kind: size{}, otherwise: "5 mb", use: later, meaning: "How many changes a subtask writes without waiting for a checkpoint."},
		{key: "state.changelog.dstl.dfs.upload.max-in-flight", kind: size{}, otherwise: "100 mb", use: later, meaning: "How many changes may be on their way to storage."},
		{key: "state.changelog.dstl.dfs.upload.timeout", kind: positive, otherwise: "1 s", use: later, meaning: "How long one attempt to write changes may take."},
		{key: "state.changelog.dstl.dfs.upload.max-attempts", kind: count, otherwise: "3", use: later, meaning: "How many attempts there are."},
		{key: "state.changelog.dstl.dfs.upload.num-threads", kind: count, otherwise: "5", use: later, meaning: "How many writes are under way at once."},
		{key: "state.latency-track.keyed-state-enabled", kind: boolean{}, otherwise: "false", use: later, old: []string{"state.backend.latency-track.keyed-state-enabled"}, meaning: "How long access to state takes is measured."},
		{key: "state.latency-track.sample-interval", kind: count, otherwise: "100", use: later, old: []string{"state.backend.latency-track.sample-interval"}, meaning: "One access in this many is measured."},
		{key: "state.latency-track.history-size", kind: count, otherwise: "128", use: later, old: []string{"state.backend.latency-track.history-size"}, meaning: "How many measurements are kept."},
		{key: "state.size-track.keyed-state-enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "How large keys and values are is measured."},
		{key: "state.size-track.sample-interval", kind: count, otherwise: "100", use: later, meaning: "One access in this many is measured."},
		{key: "state.size-track.history-size", kind: count, otherwise: "128", use: later, meaning: "How many measurements are kept."},
	}},
	{"High availability", []declaration{
		{key: "high-availability.type", kind: oneOf("NONE", "ZOOKEEPER", "KUBERNETES"), otherwise: "NONE", use: refused, old: []string{"high-availability"}, meaning: "What elects the leader and remembers the latest checkpoint when a JobManager is lost."},
		{key: "high-availability.storageDir", kind: text{}, use: later, old: []string{"high-availability.zookeeper.storageDir"}, meaning: "The directory of what a new leader needs."},
		{key: "high-availability.cluster-id", kind: text{}, otherwise: "/default", use: later, old: []string{"high-availability.zookeeper.path.namespace"}, meaning: "Tells clusters that share the service apart."},
		{key: "high-availability.zookeeper.quorum", kind: text{}, use: later, meaning: "The addresses of ZooKeeper."},
		{key: "high-availability.zookeeper.path.root", kind: text{}, otherwise: "/flink", use: later, meaning: "The path below which everything is kept in ZooKeeper."},
		{key: "high-availability.jobmanager.port", kind: text{}, otherwise: "0", use: later, meaning: "The ports on which a leader is reached."},
		{key: "job-result-store.storage-path", kind: text{}, use: later, meaning: "The directory of the results of ended jobs."},
	}},
	{"REST and web", []declaration{
		{key: "rest.port", kind: port, otherwise: "8081", use: later, old: []string{"web.port", "jobmanager.web.port"}, meaning: "The port of the REST interface and the web pages."},
		{key: "rest.bind-port", kind: text{}, otherwise: "8081", use: later, meaning: "The ports to listen on, of which the first free one is taken: 50100-50200,50300."},
		{key: "rest.address", kind: text{}, use: later, meaning: "The address at which commands find the REST interface."},
		{key: "rest.bind-address", kind: text{}, use: later, meaning: "The address to listen on."},
		{key: "rest.path", kind: text{}, use: later, meaning: "The path of the REST interface at its address."},
		{key: "rest.url-prefix", kind: text{}, otherwise: "/", use: later, meaning: "The path below which all REST paths lie."},
		{key: "rest.async.store-duration", kind: positive, otherwise: "5 min", use: later, meaning: "How long the result of an operation can be asked for."},
		{key: "rest.cache.checkpoint-statistics.size", kind: count, otherwise: "1000", use: later, meaning: "How many answers about checkpoints are kept."},
		{key: "rest.cache.checkpoint-statistics.timeout", kind: anyDuration, otherwise: "3 s", use: later, meaning: "How long they are kept."},
		{key: "rest.client.max-content-length", kind: size{min: 1}, otherwise: "104857600", use: later, meaning: "The longest answer that a command takes."},
		{key: "rest.server.max-content-length", kind: size{min: 1}, otherwise: "104857600", use: later, meaning: "The longest request that is taken."},
		{key: "rest.connection-timeout", kind: positive, otherwise: "15 s", use: later, meaning: "How long a command waits for a connection."},
		{key: "rest.idleness-timeout", kind: positive, otherwise: "5 min", use: later, meaning: "How long an idle connection stays open."},
		{key: "rest.await-leader-timeout", kind: anyDuration, otherwise: "30 s", use: later, meaning: "How long a command waits for a leader."},
		{key: "rest.retry.max-attempts", kind: integer{}, otherwise: "20", use: later, meaning: "How many times a command tries again."},
		{key: "rest.retry.delay", kind: anyDuration, otherwise: "3 s", use: later, meaning: "How long it waits before it tries again."},
		{key: "rest.flamegraph.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether flame graphs can be asked for."},
		{key: "rest.flamegraph.num-samples", kind: count, otherwise: "100", use: later, meaning: "How many samples make a flame graph."},
		{key: "rest.flamegraph.delay-between-samples", kind: positive, otherwise: "50 ms", use: later, meaning: "The time from one sample to the next."},
		{key: "rest.flamegraph.refresh-interval", kind: positive, otherwise: "1 min", use: later, meaning: "How old a flame graph may become."},
		{key: "rest.flamegraph.stack-depth", kind: count, otherwise: "100", use: later, meaning: "How deep its stacks are."},
		{key: "rest.flamegraph.cleanup-interval", kind: positive, otherwise: "10 min", use: later, meaning: "How long a flame graph that nobody asks for is kept."},
		{key: "rest.profiling.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether profiles can be asked for."},
		{key: "web.refresh-interval", kind: positive, otherwise: "3 s", use: later, old: []string{"jobmanager.web.refresh-interval"}, meaning: "How often the web pages ask for news."},
		{key: "web.checkpoints.history", kind: integer{}, otherwise: "10", old: []string{"jobmanager.web.checkpoints.history"}, meaning: "How many of the last checkpoints are remembered with their details."},
		{key: "web.submit.enable", kind: boolean{}, otherwise: "true", use: later, old: []string{"jobmanager.web.submit.enable"}, meaning: "Whether jobs can be started through the web pages."},
		{key: "web.cancel.enable", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether jobs can be cancelled through the web pages."},
		{key: "web.rescale.enable", kind: boolean{}, otherwise: "true", use: later, meaning: "Whether jobs can be rescaled through the web pages."},
		{key: "web.upload.dir", kind: text{}, use: later, old: []string{"jobmanager.web.upload.dir"}, meaning: "The directory of uploaded programs."},
		{key: "web.tmpdir", kind: text{}, use: later, old: []string{"jobmanager.web.tmpdir"}, meaning: "The directory of temporary files."},
		{key: "web.timeout", kind: positive, otherwise: "10 min", use: later, meaning: "How long a request may wait for its answer."},
		{key: "web.history", kind: integer{}, otherwise: "5", use: later, old: []string{"jobmanager.web.history"}, meaning: "How many ended jobs the web pages show."},
		{key: "web.exception-history-size", kind: count, otherwise: "16", use: later, meaning: "How many failures of a job are kept."},
		{key: "web.access-control-allow-origin", kind: text{}, otherwise: "*", use: later, old: []string{"jobmanager.web.access-control-allow-origin"}, meaning: "The sites whose pages may use the REST interface."},
		{key: "web.adaptive-scheduler.rescale-history.size", kind: integer{}, otherwise: "0", use: later, meaning: "How many changes of parallelism are kept."},
		{key: "web.backpressure.*", kind: anything{}, use: nothing, meaning: "Back-pressure is measured, not sampled."},
	}},
	{"Commands", []declaration{
		{key: "client.timeout", kind: positive, otherwise: "1 min", use: later, meaning: "How long a command waits for its result."},
		{key: "client.retry-period", kind: positive, otherwise: "2 s", use: later, meaning: "How often it asks for the result."},
		{key: "execution.attached", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether the command that starts a job stays until it ends."},
		{key: "execution.shutdown-on-attached-exit", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether the job is cancelled when that command is interrupted."},
		{key: "execution.target", kind: text{}, use: later, meaning: "Where jobs run: in the program's own process, or on a cluster."},
	}},
	{"JobManager and TaskManagers", []declaration{
		{key: "jobmanager.rpc.address", kind: text{}, use: nothing, meaning: "Workers find the JobManager by its REST address."},
		{key: "jobmanager.rpc.port", kind: port, otherwise: "6123", use: nothing, meaning: "Workers find the JobManager by its REST port."},
		{key: "jobmanager.bind-host", kind: text{}, use: nothing, meaning: "See rest.bind-address."},
		{key: "taskmanager.bind-host", kind: text{}, use: nothing, meaning: "See rest.bind-address."},
		{key: "taskmanager.host", kind: text{}, use: nothing, meaning: "A worker finds its own address."},
		{key: "taskmanager.numberOfTaskSlots", kind: count, otherwise: "1", use: later, meaning: "How many subtasks of one task a worker takes."},
		{key: "taskmanager.resource-id", kind: text{}, use: later, meaning: "The worker's name."},
		{key: "taskmanager.registration.timeout", kind: anyDuration, otherwise: "5 min", use: later, meaning: "How long a worker looks for a JobManager before it ends."},
		{key: "taskmanager.slot.timeout", kind: anyDuration, otherwise: "10 s", use: later, meaning: "How long a slot that was promised to a job waits for its subtask."},
		{key: "slot.request.timeout", kind: anyDuration, otherwise: "5 min", use: later, meaning: "How long a job waits for slots."},
		{key: "slot.idle.timeout", kind: anyDuration, otherwise: "50 s", use: later, meaning: "How long a job keeps a slot that it doesn't use."},
		{key: "heartbeat.interval", kind: positive, otherwise: "10 s", use: later, meaning: "The time from one sign of life to the next."},
		{key: "heartbeat.timeout", kind: positive, otherwise: "50 s", use: later, meaning: "How long without a sign of life until a process counts as lost."},
		{key: "heartbeat.rpc-failure-threshold", kind: integer{off: true}, otherwise: "2", use: later, meaning: "How many calls in a row may fail until a process counts as lost."},
		{key: "jobmanager.scheduler", kind: choice{[]string{"Default", "Adaptive", "AdaptiveBatch"}, map[string]string{"ng": "Default"}}, otherwise: "Default", use: later, meaning: "What decides a job's parallelism: its code, or the slots that there are."},
		{key: "scheduler-mode", kind: oneOf("REACTIVE"), use: later, meaning: "Makes a job use all slots that there are."},
		{key: "jobmanager.adaptive-scheduler.submission.resource-wait-timeout", kind: duration{off: true}, otherwise: "5 min", use: later, meaning: "How long a new job waits for the slots that it would like."},
		{key: "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout", kind: anyDuration, otherwise: "10 s", use: later, meaning: "How long it waits for more when there are enough to start."},
		{key: "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling", kind: anyDuration, otherwise: "30 s", use: later, meaning: "The least time from one change of parallelism to the next."},
		{key: "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", kind: anyDuration, otherwise: "1 min", use: later, meaning: "How long slots must stay the same before the parallelism follows."},
		{key: "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures", kind: count, otherwise: "2", use: later, meaning: "After how many failed checkpoints the parallelism changes without one."},
		{key: "jobmanager.adaptive-scheduler.rescale-trigger.max-delay", kind: anyDuration, use: later, meaning: "How long a change of parallelism waits for a checkpoint."},
		{key: "jobmanager.archive.*", kind: anything{}, use: nothing, meaning: "There is no history server."},
		{key: "historyserver.*", kind: anything{}, use: nothing, meaning: "There is no history server."},
		{key: "blob.*", kind: anything{}, use: nothing, meaning: "There are no JAR files to hand out."},
		{key: "akka.*", kind: anything{}, use: nothing, meaning: "Processes talk over HTTP."},
		{key: "pekko.*", kind: anything{}, use: nothing, meaning: "Processes talk over HTTP."},
	}},
	{"Memory and buffers", []declaration{
		{key: "taskmanager.memory.process.size", kind: size{}, use: nothing, meaning: "Go's memory isn't divided in advance; the limit is GOMEMLIMIT."},
		{key: "taskmanager.memory.flink.size", kind: size{}, use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.managed.size", kind: size{}, use: nothing, old: []string{"taskmanager.memory.size"}, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.framework.heap.size", kind: size{}, otherwise: "128 mb", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.framework.off-heap.size", kind: size{}, otherwise: "128 mb", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.task.heap.size", kind: size{}, use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.task.off-heap.size", kind: size{}, otherwise: "0", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.jvm-metaspace.size", kind: size{}, otherwise: "256 mb", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.jvm-overhead.min", kind: size{}, otherwise: "192 mb", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.jvm-overhead.max", kind: size{}, otherwise: "1 gb", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.jvm-overhead.fraction", kind: share, otherwise: "0.1", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.managed.fraction", kind: share, otherwise: "0.4", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.managed.consumer-weights", kind: text{}, otherwise: "OPERATOR:70,STATE_BACKEND:70,PYTHON:30", use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.memory.network.fraction", kind: share, otherwise: "0.1", use: nothing, old: []string{"taskmanager.network.memory.fraction"}, meaning: "Channels are bounded one by one."},
		{key: "taskmanager.memory.network.min", kind: size{}, otherwise: "64 mb", use: nothing, old: []string{"taskmanager.network.memory.min"}, meaning: "Channels are bounded one by one."},
		{key: "taskmanager.memory.network.max", kind: size{infinite: true}, otherwise: "infinite", use: nothing, old: []string{"taskmanager.network.memory.max"}, meaning: "Channels are bounded one by one."},
		{key: "taskmanager.memory.segment-size", kind: size{min: 1}, otherwise: "32 kb", use: nothing, meaning: "Batches grow with the traffic."},
		{key: "taskmanager.memory.min-segment-size", kind: size{min: 1}, otherwise: "256", use: nothing, meaning: "Batches grow with the traffic."},
		{key: "jobmanager.memory.*", kind: anything{}, use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "jobmanager.heap.size", kind: size{}, use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "jobmanager.heap.mb", kind: size{}, use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.heap.size", kind: size{}, use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.heap.mb", kind: size{}, use: nothing, meaning: "Go's memory isn't divided in advance."},
		{key: "taskmanager.network.memory.read-buffer.required-per-gate.max", kind: integer{}, use: nothing, meaning: "Channels are bounded one by one."},
		{key: "taskmanager.network.memory.buffers-per-channel", kind: integer{}, otherwise: "2", use: nothing, meaning: "Channels are bounded one by one."},
		{key: "taskmanager.network.memory.floating-buffers-per-gate", kind: integer{}, otherwise: "8", use: nothing, meaning: "Channels are bounded one by one."},
		{key: "taskmanager.network.memory.buffer-debloat.enabled", kind: boolean{}, otherwise: "false", use: later, meaning: "Whether channels are bounded by the time that their records take."},
		{key: "taskmanager.network.memory.buffer-debloat.period", kind: positive, otherwise: "200 ms", use: later, meaning: "How often that bound is computed."},
		{key: "taskmanager.network.memory.buffer-debloat.target", kind: positive, otherwise: "1 s", use: later, meaning: "The time that the records in a channel should take."},
		{key: "taskmanager.network.memory.buffer-debloat.samples", kind: count, otherwise: "20", use: later, meaning: "How many measurements are averaged."},
		{key: "taskmanager.network.memory.buffer-debloat.threshold-percentages", kind: integer{max: 100}, otherwise: "25", use: later, meaning: "Changes of the bound below this share are left."},
		{key: "io.tmp.dirs", kind: text{}, use: nothing, meaning: "Temporary files go where the environment says."},
	}},
	{"Metrics", []declaration{
		{key: "metrics.fetcher.update-interval", kind: anyDuration, otherwise: "10 s", use: later, meaning: "How often the metrics of workers are fetched."},
		{key: "metrics.job.status.enable", kind: list{}, otherwise: "CURRENT_TIME", use: later, meaning: "Which metrics of a job's states there are: STATE, CURRENT_TIME, TOTAL_TIME."},
		{key: "metrics.latency.interval", kind: anyDuration, otherwise: "0", use: later, meaning: "How often sources send a marker that measures latency; 0 is never."},
		{key: "metrics.scope.jm", kind: text{}, otherwise: "<host>.jobmanager", use: later, meaning: "The names of the metrics of a JobManager."},
		{key: "metrics.scope.jm-job", kind: text{}, otherwise: "<host>.jobmanager.<job_name>", use: later, meaning: "The names of the metrics of a job on the JobManager."},
		{key: "metrics.scope.tm", kind: text{}, otherwise: "<host>.taskmanager.<tm_id>", use: later, meaning: "The names of the metrics of a TaskManager."},
		{key: "metrics.scope.tm-job", kind: text{}, otherwise: "<host>.taskmanager.<tm_id>.<job_name>", use: later, meaning: "The names of the metrics of a job on a TaskManager."},
		{key: "metrics.scope.task", kind: text{}, otherwise: "<host>.taskmanager.<tm_id>.<job_name>.<task_name>.<subtask_index>", use: later, meaning: "The names of the metrics of a subtask."},
		{key: "metrics.scope.operator", kind: text{}, otherwise: "<host>.taskmanager.<tm_id>.<job_name>.<operator_name>.<subtask_index>", use: later, meaning: "The names of the metrics of a operator."},
		{key: "metrics.reporters", kind: text{}, use: later, meaning: "Which of the reporters are used."},
		{key: "metrics.reporter.*", kind: anything{}, use: later, meaning: "Where metrics are sent."},
	}},
	{"Java and its surroundings", []declaration{
		{key: "env.*", kind: anything{}, use: nothing, meaning: "There is no JVM to start."},
		{key: "classloader.*", kind: anything{}, use: nothing, meaning: "There are no classes to load."},
		{key: "pipeline.jars", kind: anything{}, use: nothing, meaning: "A job is one program."},
		{key: "pipeline.classpaths", kind: anything{}, use: nothing, meaning: "A job is one program."},
		{key: "security.*", kind: anything{}, use: nothing, meaning: "There is no Kerberos login."},
		{key: "zookeeper.sasl.*", kind: anything{}, use: nothing, meaning: "There is no Kerberos login."},
		{key: "kubernetes.*", kind: anything{}, use: nothing, meaning: "Kubernetes starts processes from its own manifests."},
		{key: "yarn.*", kind: anything{}, use: nothing, meaning: "There is no YARN."},
		{key: "python.*", kind: anything{}, use: nothing, meaning: "There is no Python worker."},
		{key: "table.*", kind: anything{}, use: nothing, meaning: "There is no Table API."},
		{key: "sql-client.*", kind: anything{}, use: nothing, meaning: "There is no SQL client."},
		{key: "sql-gateway.*", kind: anything{}, use: nothing, meaning: "There is no SQL gateway."},
	}},
}
