package snapshot

import (
	"fmt"
	"path"

	"github.com/weirstream/weir/filesystem"
)

// folder is a directory that holds one checkpoint.
type folder struct {
	files  filesystem.FileSystem
	path   string
	random func() uint64
}

func (f folder) join(name string) string { return path.Join(f.path, name) }

// Savepoint is a directory that holds one savepoint and everything that it needs.
type Savepoint struct {
	Files  filesystem.FileSystem
	Path   string        // of the directory in Files
	URI    string        // of the same, for workers
	Random func() uint64 // safe for concurrent use
}

// SavepointName is the name of a new savepoint's directory.
func SavepointName(jobID string, random func() uint64) string {
	return fmt.Sprintf("savepoint-%.6s-%012x", jobID, random()>>16)
}

func (s *Savepoint) folder() folder { return folder{s.Files, s.Path, s.Random} }

// Begin implements Place.
func (s *Savepoint) Begin(uint64) error {
	if err := s.Files.MakeDir(s.Path); err != nil {
		return fmt.Errorf("begin savepoint: %w", err)
	}
	return nil
}

// Dir implements Place.
func (s *Savepoint) Dir(uint64) string { return s.URI }

// Store implements Place.
func (s *Savepoint) Store(cp Checkpoint) error { return s.folder().store(cp) }

// Release implements Place.
func (s *Savepoint) Release(_ uint64, t Task) error { return s.folder().release(t) }

// Discard implements Place.
func (s *Savepoint) Discard(n uint64) error { return s.folder().discard(n) }
