package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/weirstream/weir/filesystem"
)

// Claimed is the storage of a job that owns the snapshot that it was started from.
// That is the oldest of its checkpoints: it can be gone on from, counts among those
// kept, and goes as they do. Of what lies around it nothing is touched.
type Claimed struct {
	Storage                       // of the job's own checkpoints, whose numbers are above the snapshot's
	Files   filesystem.FileSystem // the snapshot's
	Path    string                // of its directory in Files
	URI     string                // of the same, for workers
	Random  func() uint64         // safe for concurrent use

	// What the snapshot's metadata says. Whatever else lies at Path isn't the job's.
	Number uint64
	JobID  string
	Began  int64
}

func (c *Claimed) folder() folder { return folder{c.Files, c.Path, c.Random} }

func (c *Claimed) is(cp Checkpoint) bool {
	return cp.Number == c.Number && cp.JobID == c.JobID && cp.Began == c.Began
}

// Dir implements Place.
func (c *Claimed) Dir(n uint64) string {
	if n == c.Number {
		return c.URI
	}
	return c.Storage.Dir(n)
}

// Discard implements Place.
func (c *Claimed) Discard(n uint64) error {
	if n != c.Number {
		return c.Storage.Discard(n)
	}
	there, err := c.there()
	if err != nil || !there {
		return err
	}
	return c.folder().discard(n)
}

// there says whether the snapshot, or what a deletion that was interrupted has left
// of it, is there.
func (c *Claimed) there() (bool, error) {
	cp, err := Remains(c.Files, c.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoMetadata) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claimed snapshot: %w", err)
	}
	return c.is(cp), nil
}

// Latest implements Storage. The job's first checkpoint may be missing or not verify;
// then it is the claimed snapshot that counts, and if that is missing, too, there is
// no beginning from the beginning.
func (c *Claimed) Latest(ctx context.Context, fallback bool) (Found, error) {
	found, err := c.Storage.Latest(ctx, fallback)
	if err == nil && found.Checkpoint != nil {
		there, err := c.there()
		if errors.Is(err, ErrCorrupt) {
			err = nil // it isn't needed, and stays
		}
		if there {
			found.Complete = slices.Insert(found.Complete, 0, c.Number)
		}
		return found, err
	}
	if err != nil && (len(found.Skipped) == 0 || len(found.Skipped) < len(found.Complete)) {
		return found, err // not all have been tried
	}
	cp, wrong := c.verified(ctx)
	if wrong != nil {
		return found, errors.Join(err, fmt.Errorf("claimed snapshot: %w", wrong))
	}
	found.Checkpoint, found.Dir = &cp, c.URI
	found.Complete = slices.Insert(found.Complete, 0, c.Number)
	found.Highest = max(found.Highest, c.Number)
	return found, nil
}

func (c *Claimed) verified(ctx context.Context) (Checkpoint, error) {
	cp, dir, err := Load(c.Files, c.Path)
	if err == nil && !c.is(cp) {
		err = fmt.Errorf("checkpoint %q: %w", dir, corrupt("it is another one: checkpoint %d of job %s", cp.Number, cp.JobID))
	}
	if err == nil {
		err = Verify(ctx, Origin{Files: c.Files, Dir: dir}, cp)
	}
	return cp, err
}

// Clear implements Storage.
func (c *Claimed) Clear() error {
	return errors.Join(c.Discard(c.Number), c.Storage.Clear())
}
