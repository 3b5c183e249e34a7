package weir_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"unsafe"
)

// cramped starts the job, which takes some seconds, waits until it has a
// checkpoint and output, and lets it write no file any more above a few bytes.
func (p *place) cramped(args ...string) *process {
	p.Helper()
	line := []string{"-c", `trap "" XFSZ; exec "$0" "$@"`, wordcount(p.T), "-rate", strconv.Itoa(countLines(p.T, p.in) / 3)}
	job := newProcess(p.T, "sh", slices.Concat(line, p.args, args)...)
	if err := job.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	job.started()
	job.until("a checkpoint with output", func() bool {
		return len(p.finals()) > 0 && last(p.complete(p.id())) > 0
	})
	job.limit(10)
	return job
}

// limit sets how large a file the process may write, as a disk without room does
// it: with errors.
func (p *process) limit(size uint64) {
	p.Helper()
	const fileSize = 1 // RLIMIT_FSIZE
	limit := syscall.Rlimit{Cur: size, Max: unlimited}
	_, _, err := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(p.cmd.Process.Pid), fileSize, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if err != 0 {
		p.fatal("limit the size of files: %v", err)
	}
}

const unlimited = 1<<64 - 1

// A job that has no room for its files fails readably, and goes on in another
// process that has.
func TestJobWithoutRoomFailsReadablyAndIsResumed(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 20_000)
	p.cramped("-D", "restart-strategy.type=none").exits(1).logs("file too large", "write "+filepath.Dir(p.out))
	newLedger(p.out).mustHold(t)
	p.start("-s", "latest").exits(0).logs("resuming")
	p.mustBeWhole()
}

// A job that may restart does so until there is room, and then goes on.
func TestJobWithoutRoomGoesOnWhenThereIsSome(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 20_000)
	job := p.cramped("-D", "restart-strategy.type=fixed-delay", "-D", "restart-strategy.fixed-delay.attempts=1000000", "-D", "restart-strategy.fixed-delay.delay=10ms")
	job.says("attempt=3")
	job.logs("file too large")
	job.limit(unlimited)
	job.exits(0)
	p.mustBeWhole()
}
