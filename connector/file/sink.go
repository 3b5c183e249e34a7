package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
)

// A Sink writes records to files in a directory. Those named part-... hold each
// record exactly once, and never change again. Each belongs to one checkpoint
// and one subtask, whose records it holds in order. What has been written since
// the last completed checkpoint lies in files named .part-..., which nobody but
// the job may touch.
//
// One job at a time may write to a directory. A job that has been restored
// removes the unfinished files of the run that it goes on from; those of other
// jobs stay.
type Sink[T any] struct {
	connector.ExactlyOnce
	// Dir is the output directory. It is made if it is missing.
	Dir string
	// Format appends to dst what the files shall hold of a record: for text
	// usually a line with its "\n".
	Format func(dst []byte, v T) []byte
	// RollBytes is the size at which a file ends before a checkpoint ends it.
	// 0 means 128 MiB.
	RollBytes int64
	// RollAfter is the age at which a file ends with the next records that come;
	// 0 means that only size and checkpoints end it.
	RollAfter time.Duration
	// FileSystems are those that Dir may name; nil means local files.
	FileSystems filesystem.Set
}

// AppendLine is the Format of lines that are there already, without "\n".
func AppendLine(dst []byte, line string) []byte {
	return append(append(dst, line...), '\n')
}

// Check implements connector.Checked.
func (s Sink[T]) Check() error {
	_, _, err := resolve(s.FileSystems, s.Dir)
	if s.Format == nil {
		err = errors.Join(err, errors.New("it has no Format"))
	}
	return err
}

// Open implements connector.Sink.
func (s Sink[T]) Open(_ context.Context, w connector.Writing) (connector.Writer[T, Part], error) {
	files, dir, err := resolve(s.FileSystems, s.Dir)
	if err != nil {
		return nil, fmt.Errorf("open file sink %q: %w", s.Dir, err)
	}
	roll := s.RollBytes
	if roll <= 0 {
		roll = 128 << 20
	}
	return &writer[T]{
		output: output{
			files: files, dir: dir, roll: roll, piece: 128 << 10, loose: 8 << 20,
			last: part{job: w.JobID(), subtask: w.Subtask(), attempt: w.Attempt()},
		},
		format: s.Format,
		after:  s.RollAfter,
	}, nil
}

// OpenCommitter implements connector.Committing.
func (s Sink[T]) OpenCommitter(_ context.Context, c connector.Commitment) (connector.Committer[Part], error) {
	files, dir, err := resolve(s.FileSystems, s.Dir)
	if err == nil {
		err = files.MakeDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open file sink %q: %w", s.Dir, err)
	}
	lock, err := files.Lock(dir)
	if errors.Is(err, filesystem.ErrLocked) {
		return nil, fmt.Errorf("open file sink: another job, or another sink, writes to directory %q: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock output directory %q: %w", dir, err)
	}
	return &committer{Commitment: c, files: files, dir: dir, lock: lock}, nil
}

// resolve finds Local without a set.
func resolve(set filesystem.Set, uri string) (filesystem.FileSystem, string, error) {
	if set == nil {
		set = filesystem.Set{"file": filesystem.Local{}}
	}
	return set.Resolve(uri)
}
