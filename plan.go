package weir

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
)

// plan is a job that has been built and found without mistakes.
type plan struct {
	*Job
	config *config.Config
	graph  *graph.JobGraph
	name   string
	notes  []string // for the log
}

// prepare builds a job and puts its settings together: those of the file, then
// what the code says, then what the command line says. The error joins all
// mistakes.
func prepare(build func(*Job) error, file, commandLine config.Layer) (*plan, error) {
	p := &plan{Job: &Job{}}
	failed := build(p.Job)
	code := p.layer()
	cfg, mistaken := config.Merge(file, code, commandLine)
	mistakes := append(p.errs, failed, mistaken, p.checkState(code, commandLine))
	if mistaken != nil {
		cfg, _ = config.Merge() // so that mistakes in the graph are found, too
	}
	p.config, p.notes = cfg, cfg.Notes()
	p.name = config.Get(cfg, config.JobName)
	if p.name == "" {
		p.name = filepath.Base(os.Args[0])
	}
	g, warnings, err := graph.Build(p.Job.graph, graph.Defaults{
		Parallelism:    config.Get(cfg, config.Parallelism),
		MaxParallelism: config.Get(cfg, config.MaxParallelism),
		Chaining:       config.Get(cfg, config.OperatorChaining),
		AutoUIDs:       config.Get(cfg, config.AutoGenerateUIDs),
	})
	p.graph, p.notes = g, append(p.notes, warnings...)
	if failed == nil || len(p.Job.graph.Nodes) > 0 { // else it gave up before there was a graph
		mistakes = append(mistakes, err)
	}
	if mistaken == nil {
		mistakes = append(mistakes, p.checkSources(), p.checkSinks())
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	return p, nil
}

// note says what was noticed while the job was prepared.
func (p *plan) note(log *slog.Logger) {
	for _, note := range p.notes {
		log.Warn(note)
	}
}

// layer returns the job's own settings.
func (j *Job) layer() (l config.Layer) {
	set := func(key, value string) { l.Set(key, value, "job code") }
	text := func(key, value string) {
		if value != "" {
			set(key, value)
		}
	}
	duration := func(key string, d time.Duration) {
		switch d {
		case 0:
		case none:
			set(key, "-1")
		default:
			set(key, d.String())
		}
	}
	number := func(key string, n int) {
		if n != 0 {
			set(key, strconv.Itoa(n))
		}
	}
	flag := func(key string, given bool, value string) {
		if given {
			set(key, value)
		}
	}
	c, r := j.Checkpoints, j.Restart
	text(config.JobName.Key(), j.Name)
	number(config.Parallelism.Key(), j.Parallelism)
	duration(config.CheckpointInterval.Key(), c.Interval)
	duration(config.CheckpointMinPause.Key(), c.MinPause)
	duration(config.CheckpointTimeout.Key(), c.Timeout)
	number(config.RetainedCheckpoints.Key(), c.Retained)
	number(config.TolerableFailedCheckpoints.Key(), c.TolerableFailures)
	text(config.CheckpointMode.Key(), string(c.Mode))
	text(config.CheckpointRetention.Key(), string(c.Retention))
	duration(config.BacklogInterval.Key(), c.BacklogInterval)
	number(config.ConcurrentCheckpoints.Key(), c.Concurrent)
	flag(config.CheckpointsAfterEnd.Key(), c.NotAfterTasksFinish, "false")
	text(config.CheckpointStorage.Key(), string(c.Storage))
	text(config.CheckpointDir.Key(), c.Dir)
	flag(config.CreateSubdir.Key(), c.NoSubdir, "false")
	number(config.InlineThreshold.Key(), c.InlineBytes)
	number(config.WriteBufferSize.Key(), c.BufferBytes)
	number(config.AcknowledgementSize.Key(), c.AckBytes)
	flag(config.SnapshotCompression.Key(), c.Compress, "true")
	flag(config.Incremental.Key(), c.Incremental, "true")
	text(config.SavepointDir.Key(), c.SavepointDir)
	duration(config.SavepointTimeout.Key(), c.SavepointTimeout)
	flag(config.RecoveryFallback.Key(), c.NoFallback, "false")
	flag(config.PreferCheckpoint.Key(), c.PreferSavepoint, "false")
	flag(config.LocalRecovery.Key(), c.LocalRecovery, "true")
	text(config.LocalRecoveryDirs.Key(), strings.Join(c.LocalDirs, ";"))
	duration(config.BufferTimeout.Key(), j.BufferTimeout)
	text(config.RestartStrategy.Key(), r.Strategy)
	number(config.FixedDelayAttempts.Key(), r.Attempts)
	duration(config.FixedDelay.Key(), r.Delay)
	text(config.RecoveryPath.Key(), j.From)
	flag(config.IgnoreUnclaimedState.Key(), j.AllowNonRestored, "true")
	flag(config.ChangeMaxParallelism.Key(), j.ChangeMaxParallelism, "true")
	text(config.ClaimMode.Key(), string(j.Claim))
	for _, key := range slices.Sorted(maps.Keys(j.Config)) {
		set(key, j.Config[key])
	}
	return l
}

// none is the duration that switches off what the configuration has switched on.
const none time.Duration = -1

// checkState refuses a kind of state backend in a layer above the file, where the job
// has a backend of its own.
func (p *plan) checkState(layers ...config.Layer) error {
	var mistakes []error
	for _, l := range layers {
		if said, ok := config.Given(l, config.StateBackend); ok && p.State != nil {
			mistakes = append(mistakes, fmt.Errorf("%s contradicts Job.State, which is a %T (job code)", said, p.State))
		}
	}
	return errors.Join(mistakes...)
}

// checkSources refuses a source that can't keep what checkpoints promise.
func (p *plan) checkSources() error {
	if config.Get(p.config, config.CheckpointInterval) == 0 {
		return nil
	}
	var mistakes []error
	for _, n := range p.Job.graph.Nodes {
		if n.Lossy && !n.AcceptLoss {
			mistakes = append(mistakes, fmt.Errorf("source %q at %s can't be read again: a restart loses what it had read since the checkpoint; if that is acceptable, say so by its option AcceptLoss, else take no checkpoints (%s)",
				n.UID, n.Where, config.CheckpointInterval.Key()))
		}
	}
	return errors.Join(mistakes...)
}

// checkSinks refuses a sink that would never show anything, or not the last of it.
func (p *plan) checkSinks() error {
	periodic, final := config.Get(p.config, config.CheckpointInterval) > 0, config.Get(p.config, config.CheckpointsAfterEnd)
	why := ""
	for _, n := range p.Job.graph.Nodes {
		switch {
		case n.Kind != graph.Source:
		case n.Bounded && !final:
			why = fmt.Sprintf("source %q ends, and %s allows none after that", n.UID, config.Describe(p.config, config.CheckpointsAfterEnd))
		case !n.Bounded && !periodic:
			why = fmt.Sprintf("source %q never ends and there are no checkpoints; set %s", n.UID, config.CheckpointInterval.Key())
		}
	}
	var mistakes []error
	for i, n := range p.Job.graph.Nodes {
		if why != "" && p.nodes[i].guarantee == connector.OnceExactly {
			mistakes = append(mistakes, fmt.Errorf("sink %q at %s writes each record exactly once, and so shows its output only with a checkpoint: %s",
				n.UID, n.Where, why))
		}
	}
	return errors.Join(mistakes...)
}

// checkPlaces refuses what lies where no file system reaches, and to start from a
// checkpoint that isn't one.
func (p *plan) checkPlaces(files filesystem.Set) error {
	var mistakes []error
	for _, o := range []config.Option[string]{config.CheckpointDir, config.SavepointDir} {
		if dir := config.Get(p.config, o); dir != "" {
			_, _, err := files.Resolve(dir)
			mistakes = append(mistakes, describe(p, o, err))
		}
	}
	if from := config.Get(p.config, config.RecoveryPath); from != "" && from != Latest {
		in, path, err := files.Resolve(from)
		if err == nil {
			_, _, err = snapshot.Load(in, path)
		}
		mistakes = append(mistakes, describe(p, config.RecoveryPath, err))
	}
	return errors.Join(mistakes...)
}

// describe says which setting an error is about.
func describe(p *plan, o config.Option[string], err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", config.Describe(p.config, o), err)
	}
	return err
}
