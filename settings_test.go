package weir

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/jobmaster"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/heap"
)

// source is any source, so that a job is one.
func source(job *Job) { FromSlice(job, "in", []int{1}) }

// settled prepares a job with settings in its code and on the command line.
func settled(t *testing.T, set func(*Job), assignments ...string) *plan {
	t.Helper()
	return must(prepare(func(job *Job) error {
		source(job)
		if set != nil {
			set(job)
		}
		return nil
	}, config.Layer{}, config.Assignments(assignments)))(t)
}

// given is what a job has been told of a key: the value of a setting that acts, and of
// another one what the log says that has no effect.
func (p *plan) given(key string) string {
	for _, e := range p.config.Effective() {
		if e.Key == key {
			return e.Value
		}
	}
	for _, note := range p.notes {
		if rest, ok := strings.CutPrefix(note, key+" = "); ok {
			value, _, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
			return value
		}
	}
	return ""
}

// TestEverySettingByCodeAndByKey gives each setting by the job's code, by its key, and
// by each older name, and looks for it in what the job is told, and, of those that act
// by the job master's settings, in these.
func TestEverySettingByCodeAndByKey(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		key, value string
		older      []string
		set        func(*Job)
		also       func(*Job) // what it can't be without
		acts       func(p *plan, s jobmaster.Settings) any
		want       any
	}{
		{key: "execution.checkpointing.interval", value: "7s", set: func(job *Job) { job.Checkpoints.Interval = 7 * time.Second },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Interval }, want: 7 * time.Second},
		{key: "execution.checkpointing.interval", value: "-1", set: func(job *Job) { job.Checkpoints.Interval = -1 },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Interval }, want: time.Duration(0)},
		{key: "execution.checkpointing.mode", value: "AT_LEAST_ONCE", set: func(job *Job) { job.Checkpoints.Mode = AtLeastOnce },
			acts: func(p *plan, _ jobmaster.Settings) any { return p.atLeastOnce() }, want: true},
		{key: "execution.checkpointing.timeout", value: "7s", set: func(job *Job) { job.Checkpoints.Timeout = 7 * time.Second },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Timeout }, want: 7 * time.Second},
		{key: "execution.checkpointing.min-pause", value: "7s", set: func(job *Job) { job.Checkpoints.MinPause = 7 * time.Second },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.MinPause }, want: 7 * time.Second},
		{key: "execution.checkpointing.max-concurrent-checkpoints", value: "7", set: func(job *Job) { job.Checkpoints.Concurrent = 7 },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Concurrent }, want: 7},
		{key: "execution.checkpointing.tolerable-failed-checkpoints", value: "7", set: func(job *Job) { job.Checkpoints.TolerableFailures = 7 },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Tolerable }, want: 7},
		{key: "execution.checkpointing.fail-on-checkpointing-errors", value: "false",
			set: func(job *Job) {
				job.Config = map[string]string{"execution.checkpointing.fail-on-checkpointing-errors": "false"}
			},
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Tolerable }, want: math.MaxInt},
		{key: "execution.checkpointing.externalized-checkpoint-retention", value: "RETAIN_ON_CANCELLATION", set: func(job *Job) { job.Checkpoints.Retention = RetainOnCancel },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.KeepCancelled }, want: true},
		{key: "execution.checkpointing.externalized-checkpoint-retention", value: "DELETE_ON_CANCELLATION", set: func(job *Job) { job.Checkpoints.Retention = DeleteOnCancel },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.KeepCancelled }, want: false},
		{key: "execution.checkpointing.externalized-checkpoint-retention", value: "NO_EXTERNALIZED_CHECKPOINTS", set: func(job *Job) { job.Checkpoints.Retention = NotExternalized },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.KeepCancelled }, want: false},
		{key: "execution.checkpointing.num-retained", value: "7", older: []string{"state.checkpoints.num-retained"}, set: func(job *Job) { job.Checkpoints.Retained = 7 },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Retained }, want: 7},
		{key: "execution.checkpointing.prefer-checkpoint-for-recovery", value: "false", set: func(job *Job) { job.Checkpoints.PreferSavepoint = true },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.FromSavepoints }, want: true},
		{key: "execution.checkpointing.recovery.fallback", value: "false", set: func(job *Job) { job.Checkpoints.NoFallback = true },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Fallback }, want: false},
		{key: "execution.checkpointing.storage", value: "filesystem", older: []string{"state.checkpoint-storage"}, set: func(job *Job) { job.Checkpoints.Storage = InFiles },
			also: func(job *Job) { job.Checkpoints.Dir = "/c" }},
		{key: "execution.checkpointing.storage", value: "jobmanager", older: []string{"state.checkpoint-storage"}, set: func(job *Job) { job.Checkpoints.Storage = InMemory }},
		{key: "execution.checkpointing.dir", value: "file:///c", older: []string{"state.checkpoints.dir", "state.backend.fs.checkpointdir"}, set: func(job *Job) { job.Checkpoints.Dir = "file:///c" }},
		{key: "execution.checkpointing.savepoint-dir", value: "file:///s", older: []string{"state.savepoints.dir", "savepoints.state.backend.fs.dir"}, set: func(job *Job) { job.Checkpoints.SavepointDir = "file:///s" }},
		{key: "execution.checkpointing.savepoint-timeout", value: "7s", set: func(job *Job) { job.Checkpoints.SavepointTimeout = 7 * time.Second },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Savepoint }, want: 7 * time.Second},
		{key: "execution.checkpointing.data-inline-threshold", value: "7", older: []string{"state.backend.fs.memory-threshold", "state.storage.fs.memory-threshold"}, set: func(job *Job) { job.Checkpoints.InlineBytes = 7 },
			acts: func(p *plan, _ jobmaster.Settings) any {
				return p.target(production(slog.Default()))(record.Barrier{Target: "/c"}).(snapshot.Target).Inline
			}, want: 7},
		{key: "execution.checkpointing.write-buffer-size", value: "7", older: []string{"state.backend.fs.write-buffer-size", "state.storage.fs.write-buffer-size"}, set: func(job *Job) { job.Checkpoints.BufferBytes = 7 }},
		{key: "execution.checkpointing.max-acknowledgement-size", value: "7", older: []string{"akka.framesize", "pekko.framesize"}, set: func(job *Job) { job.Checkpoints.AckBytes = 7 }},
		{key: "execution.checkpointing.checkpoints-after-tasks-finish", value: "false", older: []string{"execution.checkpointing.checkpoints-after-tasks-finish.enabled"}, set: func(job *Job) { job.Checkpoints.NotAfterTasksFinish = true },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.WhileAllRun }, want: true},
		{key: "execution.checkpointing.snapshot-compression", value: "true", set: func(job *Job) { job.Checkpoints.Compress = true }},
		{key: "execution.checkpointing.interval-during-backlog", value: "7s", set: func(job *Job) { job.Checkpoints.BacklogInterval = 7 * time.Second },
			also: func(job *Job) { job.Checkpoints.Interval = time.Second },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Backlog }, want: 7 * time.Second},
		{key: "execution.checkpointing.interval-during-backlog", value: "-1", set: func(job *Job) { job.Checkpoints.BacklogInterval = -1 },
			also: func(job *Job) { job.Checkpoints.Interval = time.Second },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Policy.Backlog }, want: time.Duration(0)},
		{key: "execution.checkpointing.incremental", value: "true", older: []string{"state.backend.incremental"}, set: func(job *Job) { job.Checkpoints.Incremental = true }},
		{key: "execution.state-recovery.from-local", value: "true", older: []string{"state.backend.local-recovery"}, set: func(job *Job) { job.Checkpoints.LocalRecovery = true }},
		{key: "execution.checkpointing.local-backup.dirs", value: "/a;/b", older: []string{"taskmanager.state.local.root-dirs"}, set: func(job *Job) { job.Checkpoints.LocalDirs = []string{"/a", "/b"} }},
		{key: "execution.state-recovery.path", value: "/c/chk-7", older: []string{"execution.savepoint.path"}, set: func(job *Job) { job.From = "/c/chk-7" }},
		{key: "execution.state-recovery.ignore-unclaimed-state", value: "true", older: []string{"execution.savepoint.ignore-unclaimed-state"}, set: func(job *Job) { job.AllowNonRestored = true },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Allowed.Drop }, want: true},
		{key: "execution.state-recovery.change-max-parallelism", value: "true", set: func(job *Job) { job.ChangeMaxParallelism = true },
			acts: func(_ *plan, s jobmaster.Settings) any { return s.Allowed.Rehash }, want: true},
		{key: "execution.state-recovery.claim-mode", value: "CLAIM", older: []string{"execution.savepoint-restore-mode"}, set: func(job *Job) { job.Claim = Claim },
			also: func(job *Job) { job.From, job.Checkpoints.Dir = "/c/chk-7", "/c" }},
		{key: "execution.buffer-timeout.interval", value: "7s", older: []string{"execution.buffer-timeout"}, set: func(job *Job) { job.BufferTimeout = 7 * time.Second }},
	} {
		t.Run(s.key+"="+s.value, func(t *testing.T) {
			also := func(job *Job) {
				if s.also != nil {
					s.also(job)
				}
			}
			seen := func(how string, p *plan) {
				if got := p.given(s.key); got != s.value {
					t.Errorf("%s: the job is told %q, want %q", how, got, s.value)
				}
				if s.acts == nil {
					return
				}
				settings := p.settings(production(slog.Default()), site{}, slog.Default(), nil)
				if got := s.acts(p, settings); got != s.want {
					t.Errorf("%s: %v acts, want %v", how, got, s.want)
				}
			}
			seen("code", settled(t, func(job *Job) { also(job); s.set(job) }))
			seen("key", settled(t, also, s.key+"="+s.value))
			for _, name := range s.older {
				p := settled(t, also, name+"="+s.value)
				seen(name, p)
				if !slices.Contains(p.notes, fmt.Sprintf("%s (-D #1) is an older name of %s", name, s.key)) {
					t.Errorf("%s isn't noted: %q", name, p.notes)
				}
			}
		})
	}
}

// Fields that say what holds anyway, or what can't be on its own, set their keys, too.
func TestFieldsSetTheirKeys(t *testing.T) {
	t.Parallel()
	for want, said := range map[string]func() (string, bool){
		`execution.checkpointing.create-subdir = "false" (job code)`: func() (string, bool) {
			return config.Given((&Job{Checkpoints: Checkpoints{NoSubdir: true}}).layer(), config.CreateSubdir)
		},
		`execution.state-recovery.claim-mode = "NO_CLAIM" (job code)`: func() (string, bool) {
			return config.Given((&Job{Claim: NoClaim}).layer(), config.ClaimMode)
		},
	} {
		if got, ok := said(); !ok || got != want {
			t.Errorf("the code says %q, want %q", got, want)
		}
	}
	if got, ok := config.Given((&Job{}).layer(), config.CreateSubdir); ok {
		t.Errorf("a job without settings says %s", got)
	}
}

// Settings that aren't built yet are accepted, and the log says plainly that they
// don't act.
func TestSettingsThatDoNotActYetAreInTheLog(t *testing.T) {
	t.Parallel()
	r, log := launch(t, t.Context(), func(job *Job) error {
		source(job)
		job.Checkpoints.Incremental, job.Checkpoints.LocalRecovery, job.Checkpoints.LocalDirs = true, true, []string{"/a"}
		job.Config = map[string]string{"state.backend.async": "false"}
		return nil
	})
	if err := wait(t, r); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"execution.checkpointing.incremental", "execution.state-recovery.from-local", "execution.checkpointing.local-backup.dirs", "state.backend.async"} {
		said := false
		for line := range strings.Lines(log.String()) {
			said = said || strings.Contains(line, "WARN") && strings.Contains(line, key) && strings.Contains(line, "has no effect yet")
		}
		if !said {
			t.Errorf("nothing is said of %s", key)
		}
	}
}

// A policy for checkpoints that can't outlive the process is warned of.
func TestRetentionWithoutADirectoryIsWarnedOf(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		r, log := launch(t, t.Context(), func(job *Job) error {
			source(job)
			job.Checkpoints.Retention, job.Checkpoints.Dir = RetainOnCancel, dir
			return nil
		})
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(log.String(), "externalized-checkpoint-retention"); warned != (dir == "") {
			t.Errorf("directory %q: warned %v", dir, warned)
		}
	}
}

// counting is a state backend that says when it opens a store.
type counting struct {
	heap.Backend
	*board
}

func (c counting) Open(ctx context.Context) (state.Store, error) {
	c.say("open")
	return c.Backend.Open(ctx)
}

// A backend of one's own is a value; the kinds that the configuration knows are those
// that there are, and a kind in the file gives way to the job's own.
func TestStateBackends(t *testing.T) {
	t.Parallel()
	b := newBoard()
	build := func(job *Job) error {
		job.State = counting{board: b}
		Count(KeyBy(FromSlice(job, "in", []int{1, 2}), double), "count")
		return nil
	}
	var file config.Layer
	file.Set("state.backend", "filesystem", "config.yaml:1")
	file.Set("execution.checkpointing.dir", t.TempDir(), "config.yaml:2")
	p := must(prepare(build, file, config.Layer{}))(t)
	if r := must(p.start(t.Context(), production(slog.New(slog.DiscardHandler))))(t); wait(t, r) != nil || b.times("open") != 1 {
		t.Errorf("the job's own backend was opened %d times: %v", b.times("open"), r.Wait())
	}
	_, err := prepare(build, config.Layer{}, config.Assignments([]string{"state.backend=hashmap"}))
	wants(t, err, `state.backend = "hashmap" (-D #1) contradicts Job.State`, "weir.counting", "(job code)")
	for _, kind := range []string{"rocksdb", "forst", "lsm"} {
		_, err := prepare(func(job *Job) error { source(job); return nil }, config.Layer{}, config.Assignments([]string{"state.backend.type=" + kind}))
		wants(t, err, "state.backend.type", kind, "(-D #1)", "isn't built yet", "hashmap")
	}
}

// Mistakes about places are found at the start, also the one where no savepoint has
// been asked for yet.
func TestPlacesThatNoFileSystemReaches(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), func(job *Job) error {
		source(job)
		job.Checkpoints.Dir, job.Checkpoints.SavepointDir, job.From = "gopher://c", "ftp://s", "nfs://f"
		return nil
	})
	wants(t, err, "execution.checkpointing.dir", "gopher", "execution.checkpointing.savepoint-dir", "ftp", "execution.state-recovery.path", "nfs", "(job code)")
}
