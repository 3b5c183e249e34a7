//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filesystem

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// lockDir opens a directory and claims it; unlockDir gives it back.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := stillAt(dir, f); err != nil {
		return nil, errors.Join(err, unlockDir(f))
	}
	return f, nil
}

// unlockDir gives a directory back. To close it isn't enough: a program that the
// process is just starting has the descriptor, too, until it is loaded, and would hold
// the lock so long.
func unlockDir(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// stillAt returns an error if f is no longer what lies at path: it was removed
// between opening and locking, and perhaps made again.
func stillAt(path string, f *os.File) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(path)
	if err == nil && !os.SameFile(mine, there) {
		err = fs.ErrNotExist
	}
	return err
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
