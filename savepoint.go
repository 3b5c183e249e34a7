package weir

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/jobmaster"
	"github.com/weirstream/weir/internal/snapshot"
)

// errNoSavepointDir says that it isn't known where a savepoint is to go.
var errNoSavepointDir = errors.New("no directory is given, and " + config.SavepointDir.Key() + " names none")

// Savepoint takes a savepoint in a new directory below dir, a URI, or, if that is
// empty, below the one that execution.checkpointing.savepoint-dir names. It returns
// the new directory's URI, from which any number of jobs can be started (Job.From,
// -s). The directory holds everything that they need, and nothing but its user ever
// deletes it. The job goes on; its outputs commit nothing for a savepoint, unless
// execution.checkpointing.prefer-checkpoint-for-recovery is false. Then it is what
// the job's restarts go on from until there is a newer checkpoint, and it has to stay
// so long.
//
// When ctx ends, Savepoint gives up waiting, but the savepoint goes on. It is an
// error while the job isn't running, and when an attempt to run it fails meanwhile.
func (r *Running) Savepoint(ctx context.Context, dir string) (uri string, err error) {
	place, err := r.place(dir)
	if err != nil {
		return "", fmt.Errorf("savepoint of job %q: %w", r.plan.name, err)
	}
	a := r.ask(ctx, place)
	if a.Err != nil {
		return "", fmt.Errorf("savepoint of job %q: %w", r.plan.name, a.Err)
	}
	return a.Dir, nil
}

// Checkpoint takes a checkpoint now, whatever the interval and the pause, and
// returns its number and the URI of its directory, which is empty where checkpoints
// are kept in memory. It is the job's like any other, and goes when newer ones take
// its place. Full says that it must refer to no file of an older one, as today none
// does. When ctx ends, Checkpoint gives up waiting, but the checkpoint goes on.
func (r *Running) Checkpoint(ctx context.Context, full bool) (number uint64, uri string, err error) {
	a := r.ask(ctx, nil)
	if a.Err != nil {
		return 0, "", fmt.Errorf("checkpoint of job %q: %w", r.plan.name, a.Err)
	}
	return a.Checkpoint, a.Dir, nil
}

// Stop is how a job is to be stopped.
type Stop struct {
	// Dir is a URI: the savepoint goes into a new directory below it. Empty: below
	// the one that execution.checkpointing.savepoint-dir names.
	Dir string
	// Drain ends the input first, as if the sources had nothing more, so that
	// operators give out what they hold back. It is for a job that doesn't go on:
	// one that starts from the savepoint can't take back what they gave out.
	Drain bool
}

// Stop takes a savepoint after which the job takes no more records, commits
// everything up to there, and ends the job well: it has FINISHED. It returns the
// savepoint's URI, from which a new job goes on where this one has stopped.
//
// If the savepoint fails, so does Stop, and the job goes on. An error that names a
// savepoint says that it is stored and that the job, after a failure, goes on all the
// same. When ctx ends, Stop gives up waiting, but the job is still being stopped.
func (r *Running) Stop(ctx context.Context, s Stop) (uri string, err error) {
	place, err := r.place(s.Dir)
	if err != nil {
		return "", fmt.Errorf("stop job %q: %w", r.plan.name, err)
	}
	a := r.wait(ctx, func(then func(jobmaster.Answer)) { r.master.Stop(place, s.Drain, then) })
	if a.Err == nil {
		select {
		case <-r.master.Done():
			a.Err = r.err()
		case <-ctx.Done():
			a.Err = fmt.Errorf("the savepoint is stored in %s, but the job hasn't ended yet: %w", a.Dir, ctx.Err())
		}
	}
	if a.Err != nil {
		return a.Dir, fmt.Errorf("stop job %q: %w", r.plan.name, a.Err)
	}
	return a.Dir, nil
}

// place is where a new savepoint goes.
func (r *Running) place(base string) (snapshot.Place, error) {
	if base == "" {
		base = config.Get(r.plan.config, config.SavepointDir)
	}
	if base == "" {
		return nil, errNoSavepointDir
	}
	files, dir, err := r.env.files.Resolve(base)
	if err != nil {
		return nil, err
	}
	name := snapshot.SavepointName(r.ID(), r.env.random)
	return &snapshot.Savepoint{
		Files: files, Path: path.Join(dir, name), URI: strings.TrimSuffix(base, "/") + "/" + name, Random: r.env.random,
	}, nil
}

// ask waits for a checkpoint, or for a savepoint in a place of its own.
func (r *Running) ask(ctx context.Context, savepoint snapshot.Place) jobmaster.Answer {
	return r.wait(ctx, func(then func(jobmaster.Answer)) { r.master.Request(savepoint, then) })
}

// wait waits for the answer to what is asked.
func (r *Running) wait(ctx context.Context, ask func(then func(jobmaster.Answer))) jobmaster.Answer {
	answer := make(chan jobmaster.Answer, 1)
	ask(func(a jobmaster.Answer) { answer <- a })
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return jobmaster.Answer{Err: ctx.Err()}
	case <-r.master.Done():
	}
	select {
	case a := <-answer: // it was there before the end
		return a
	default:
		return jobmaster.Answer{Err: fmt.Errorf("the job has ended: it is %v", r.master.Outcome().Status)}
	}
}
