// Package state keeps what an operator remembers, per key or per subtask.
package state

import (
	"context"
	"io"

	"github.com/weirstream/weir/codec"
)

// A Handle says where the keyed state of one operator in one subtask was
// written: the entries of the key groups First to Last are in Files, newest
// first. The same key may be in several files; the newest says what it is, and
// a tombstone there says that it is gone.
type Handle struct {
	First, Last int // key groups, both inclusive
	Files       []File
	Key         codec.Schema
	States      []Declared // every keyed state that the files may hold
}

// Declared is a state as its operator declared it.
type Declared struct {
	Name    string
	Kind    string // "value", "list", "map", "reducing", "aggregating"; without key "split", "union", "broadcast"
	Value   codec.Schema
	UserKey codec.Schema // of a map or broadcast
}

// A File is a file of a snapshot.
type File struct {
	// Name is relative to the directory of the checkpoint's metadata and never
	// leaves the job's directory. Empty when the bytes are in Data.
	Name     string
	Data     []byte // the whole content, if it is small
	Size     int64
	Checksum uint32 // crc32c of the content
}

// A Target is where the files of one checkpoint are written. It is given by the
// engine; its methods may be called from any goroutine.
type Target interface {
	// Create begins a file.
	Create(ctx context.Context) (TargetFile, error)
	// Compressed says whether keyed state is to be compressed.
	Compressed() bool
}

// A TargetFile is a file of a checkpoint that is being written. Exactly one of
// Finish and Abort is called.
type TargetFile interface {
	io.Writer
	// Finish makes the file durable and says how to find it.
	Finish() (File, error)
	// Abort forgets the file and deletes what there is of it.
	Abort()
}

// An Origin is where the files of a restored checkpoint are read.
type Origin interface {
	Open(ctx context.Context, f File) (Blob, error)
}

// A Blob is a file of a checkpoint opened for reading.
type Blob interface {
	io.ReaderAt
	io.Closer
	Size() int64
}
