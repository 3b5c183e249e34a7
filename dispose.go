package weir

import (
	"context"
	"log/slog"

	"github.com/weirstream/weir/internal/run"
)

// Dispose deletes a savepoint, or a checkpoint that a job has left, given the URI of
// its directory: exactly the files that it consists of, and the directory. What else is
// in there stays, with the directory, and is returned. A checkpoint of a job that is
// running, and a directory that holds neither checkpoint nor savepoint, are errors;
// one that isn't there is none, so that Dispose can be repeated when it was
// interrupted.
func Dispose(ctx context.Context, uri string) (left []string, err error) {
	files, at, err := production(slog.Default()).files.Resolve(uri)
	if err != nil {
		return nil, err
	}
	return run.Dispose(ctx, files, at)
}
