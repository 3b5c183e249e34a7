//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package filesystem

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// renameNoReplace moves a file to a name that isn't taken. Some network file
// systems don't know the flag; there it is done in two steps.
func renameNoReplace(from, to string) error {
	err := renameat2(from, to)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
		return linkAndRemove(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func renameat2(from, to string) error {
	const (
		here      = -100 // AT_FDCWD
		noReplace = 1    // RENAME_NOREPLACE
	)
	number := uintptr(276) // package syscall has it on some of these machines only
	if runtime.GOARCH == "amd64" {
		number = 316
	}
	f, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	t, err := syscall.BytePtrFromString(to)
	if err != nil {
		return err
	}
	at := here
	for {
		_, _, errno := syscall.Syscall6(number, uintptr(at), uintptr(unsafe.Pointer(f)), uintptr(at), uintptr(unsafe.Pointer(t)), noReplace, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}
