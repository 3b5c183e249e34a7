package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
)

// A committer gives files their final names. It stops at the first error, so
// that files appear in the order in which they were written.
type committer struct {
	connector.Commitment
	files filesystem.FileSystem
	dir   string
	lock  filesystem.Lock
}

// Recover implements connector.Committer.
func (c *committer) Recover(ctx context.Context, pending []connector.Committable[Part]) error {
	if err := c.Commit(ctx, pending); err != nil {
		return err
	}
	// What was pending isn't hidden any more: what is hidden now is nobody's.
	entries, err := c.files.List(c.dir)
	if err != nil {
		return fmt.Errorf("list output directory %q: %w", c.dir, err)
	}
	var others, newer []string
	for _, e := range entries {
		if p, ok := parseFinal(e.Name); ok && p.job == c.RestoredJobID() && p.checkpoint > c.RestoredCheckpoint() {
			newer = append(newer, e.Name)
		}
		p, ok := parseHidden(e.Name)
		switch {
		case !ok:
		case p.job == c.JobID() || p.job == c.RestoredJobID():
			if err := c.files.Remove(path.Join(c.dir, e.Name)); err != nil {
				return fmt.Errorf("remove unfinished file: %w", err)
			}
		default:
			others = append(others, e.Name)
		}
	}
	if len(others) > 0 {
		c.Log().Warn("unfinished files of other jobs stay in the output directory", "dir", c.dir, "files", others)
	}
	if len(newer) > 0 {
		c.Log().Warn("the output directory holds files that are newer than the restored checkpoint; their records will be written again",
			"dir", c.dir, "checkpoint", c.RestoredCheckpoint(), "files", newer)
	}
	return nil
}

// Commit implements connector.Committer.
func (c *committer) Commit(ctx context.Context, due []connector.Committable[Part]) error {
	for _, d := range due {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.commit(d); err != nil {
			return fmt.Errorf("commit %q of checkpoint %d: %w", path.Join(c.dir, d.Value.Name), d.Checkpoint, err)
		}
	}
	return nil
}

// commit renames one file, unless that has been done before.
func (c *committer) commit(d connector.Committable[Part]) error {
	p, ok := parseHidden(d.Value.Name)
	if !ok {
		return errors.New("this is no name that the file sink gives")
	}
	p.checkpoint = d.Checkpoint
	from, to := path.Join(c.dir, d.Value.Name), path.Join(c.dir, p.final())

	target, err := c.files.Stat(to)
	switch {
	case err == nil && target.Size == d.Value.Size:
		return nil
	case err == nil:
		return fmt.Errorf("%q is there already with %d bytes, not %d", to, target.Size, d.Value.Size)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	pending, err := c.files.Stat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the file has vanished, and %q isn't there either: %w", to, err)
	case err != nil:
		return err
	case pending.Size != d.Value.Size:
		return fmt.Errorf("the file has %d bytes, not %d", pending.Size, d.Value.Size)
	}
	return c.files.Rename(from, to)
}

// Close implements connector.Committer.
func (c *committer) Close() error { return c.lock.Unlock() }
