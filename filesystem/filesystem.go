// Package filesystem is the few things that the engine asks of a file system,
// chosen by the scheme of a URI.
package filesystem

import (
	"errors"
	"io"
	"time"
)

// A FileSystem stores files below slash-separated absolute paths. All methods
// may be called from several goroutines. Errors satisfy errors.Is with
// fs.ErrNotExist and fs.ErrExist where these apply.
type FileSystem interface {
	// Create makes a new file for writing, and the directories above it. A file
	// that exists already is fs.ErrExist.
	Create(path string) (Writer, error)
	// Open opens a file for reading.
	Open(path string) (Reader, error)
	// Rename moves a file to a name that isn't taken, atomically: a reader sees
	// either name, never half a file. A taken name is fs.ErrExist. When it
	// returns nil, the new name survives a crash of the machine.
	Rename(from, to string) error
	// Remove deletes a file or an empty directory.
	Remove(path string) error
	// List returns what lies directly in a directory, by name. A directory that
	// doesn't exist is fs.ErrNotExist.
	List(dir string) ([]Entry, error)
	// Stat describes a file or directory.
	Stat(path string) (Entry, error)
	// MakeDir makes a directory and those above it; one that exists is fine.
	MakeDir(dir string) error
	// Lock claims an existing directory for this caller until Unlock or until the process
	// ends, however it ends. It leaves no file behind. A directory that another
	// holder has claimed is ErrLocked. Not reentrant.
	Lock(dir string) (Lock, error)
}

// A Writer is a file being written. What was written counts only after Sync.
type Writer interface {
	io.Writer
	Sync() error
	Close() error
}

// A Reader is a file being read.
type Reader interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Size() int64
}

// A Lock is a claim on a directory.
type Lock interface{ Unlock() error }

// An Entry is a file or directory as List and Stat see it.
type Entry struct {
	Name     string // last element of the path
	Dir      bool
	Regular  bool // a regular file, links not followed in List, followed in Stat
	Size     int64
	Modified time.Time
}

// ErrLocked says that somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")
