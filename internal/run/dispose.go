package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/snapshot"
)

// Hold keeps the run that a checkpoint belongs to from going on until the lock is
// given back, and is ErrAlive if the run is alive. The directory is the checkpoint's. A
// savepoint isn't a run's, so that it has nothing to hold.
func Hold(files filesystem.FileSystem, dir string, cp snapshot.Checkpoint) (filesystem.Lock, error) {
	if cp.Savepoint {
		return nothing{}, nil
	}
	lock, err := files.Lock(path.Dir(dir))
	if errors.Is(err, filesystem.ErrLocked) {
		err = fmt.Errorf("checkpoint %q belongs to run %s of job %q: %w: %w", dir, cp.JobID, cp.JobName, ErrAlive, err)
	}
	return lock, err
}

type nothing struct{}

func (nothing) Unlock() error { return nil }

// Dispose deletes a savepoint, or a checkpoint whose run isn't alive, given its
// directory or the metadata in it. It returns what lies there beside, and so stays.
// What is gone already is fine.
func Dispose(ctx context.Context, files filesystem.FileSystem, at string) (left []string, err error) {
	if path.Base(at) == "_metadata" {
		at = path.Dir(at)
	}
	left, err = dispose(ctx, files, at)
	if err != nil {
		err = fmt.Errorf("dispose of %q: %w", at, err)
	}
	return left, err
}

func dispose(ctx context.Context, files filesystem.FileSystem, dir string) (left []string, err error) {
	cp, err := snapshot.Remains(files, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("no snapshot can be read there: %w", err)
	}
	lock, err := Hold(files, dir, cp)
	if err != nil {
		return nil, err
	}
	left, err = snapshot.Dispose(ctx, files, dir, cp, rand.Uint64)
	return left, errors.Join(err, lock.Unlock())
}
