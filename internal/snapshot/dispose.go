package snapshot

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/weirstream/weir/filesystem"
)

// Remains reads the metadata of what lies in a directory, also if its deletion has
// begun. It is fs.ErrNotExist if there is no directory.
func Remains(files filesystem.FileSystem, dir string) (Checkpoint, error) {
	entries, err := files.List(dir)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint %q: %w", dir, err)
	}
	at := ""
	for _, e := range entries {
		if e.Name == metadataName || at == "" && strings.HasPrefix(e.Name, withdrawn) {
			at = e.Name
		}
	}
	cp, _, err := Load(files, path.Join(dir, at))
	return cp, err
}

// Dispose deletes a checkpoint that is no job's any more, or a savepoint: its
// metadata, those of the files that it lists that lie in its directory, and the
// directory, unless something else is in there: that is left. It can be repeated after
// an error.
func Dispose(ctx context.Context, files filesystem.FileSystem, dir string, cp Checkpoint, random func() uint64) (left []string, err error) {
	listed := map[string]bool{}
	for f := range cp.files {
		listed[f.Name] = true
	}
	of := func(e filesystem.Entry) bool { return e.Regular && listed[e.Name] }
	if err := (folder{files, dir, random}).withdraw(ctx, of); err != nil {
		return nil, err
	}
	entries, err := entriesOf(files, dir)
	for _, e := range entries {
		left = append(left, path.Join(dir, e.Name))
	}
	return left, err
}
