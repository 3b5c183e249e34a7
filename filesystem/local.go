package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Local is the machine's own file system, scheme "file".
type Local struct{}

// Create implements FileSystem.
func (l Local) Create(path string) (Writer, error) {
	f, err := create(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := l.MakeDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
		f, err = create(path)
	}
	if err != nil {
		return nil, err
	}
	return &localWriter{File: f}, nil
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// A localWriter makes the file's name durable with its first Sync.
type localWriter struct {
	*os.File
	named bool
}

func (w *localWriter) Sync() error {
	if err := w.File.Sync(); err != nil || w.named {
		return err
	}
	err := syncDir(filepath.Dir(w.Name()))
	w.named = err == nil
	return err
}

// Open implements FileSystem.
func (Local) Open(path string) (Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &localReader{f, info.Size()}, nil
}

type localReader struct {
	*os.File
	size int64
}

func (r *localReader) Size() int64 { return r.size }

// Rename implements FileSystem.
func (Local) Rename(from, to string) error {
	if err := renameNoReplace(from, to); err != nil {
		return err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		if err := syncDir(filepath.Dir(from)); err != nil {
			return err
		}
	}
	return syncDir(filepath.Dir(to))
}

// linkAndRemove renames where the system can't do it without replacing. If the
// process ends in between, the file has both names.
func linkAndRemove(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// Remove implements FileSystem.
func (Local) Remove(path string) error { return os.Remove(path) }

// List implements FileSystem.
func (Local) List(dir string) ([]Entry, error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(found))
	for _, d := range found {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, entryOf(info))
	}
	return entries, nil
}

// Stat implements FileSystem.
func (Local) Stat(path string) (Entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Entry{}, err
	}
	return entryOf(info), nil
}

func entryOf(i fs.FileInfo) Entry {
	return Entry{Name: i.Name(), Dir: i.IsDir(), Regular: i.Mode().IsRegular(), Size: i.Size(), Modified: i.ModTime()}
}

// MakeDir implements FileSystem. Directories that it makes survive a crash.
func (l Local) MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) {
		if err := l.MakeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o777)
	}
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// Lock implements FileSystem.
func (Local) Lock(dir string) (Lock, error) {
	f, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return localLock{f}, nil
}

type localLock struct{ dir *os.File }

func (l localLock) Unlock() error { return unlockDir(l.dir) }
