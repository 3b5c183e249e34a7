//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filesystem

import (
	"errors"
	"os"
	"runtime"
)

func lockDir(string) (*os.File, error) {
	return nil, errors.New("directories can't be locked on " + runtime.GOOS)
}

func unlockDir(f *os.File) error { return f.Close() }

// syncDir does nothing: directories can't be opened here to be synced.
func syncDir(string) error { return nil }
