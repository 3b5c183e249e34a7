package weir_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// terminal returns both ends of a terminal: the user's, and the program's.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { user.Close() })
	var number, locked uint32
	for request, arg := range map[uintptr]*uint32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skip("no terminals here: ", errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// A user at a terminal sees a line a second; a pipe gets none so soon.
func TestProgressIsShownOnATerminal(t *testing.T) {
	t.Parallel()
	user, program := terminal(t)
	p := newProcess(t, probe(t), "-job", "endless", "-D", "execution.checkpointing.interval=100ms")
	p.cmd.Stderr = program
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(&p.log, user) // ends with the terminal
	p.started()
	line := regexp.MustCompile(`weir: RUNNING  in +[1-9]\d* /s  out +[1-9]\d* /s  checkpoint [1-9]\d* took \d+(ms|s), \d+ B  restarts 0\r\n`)
	p.until("three good lines", func() bool { return len(line.FindAllString(p.log.String(), -1)) >= 3 })
	p.signal(syscall.SIGTERM)
	p.dies(syscall.SIGTERM)
	lines := strings.SplitAfter(p.log.String(), "\n")
	for _, l := range lines[:len(lines)-1] { // the last one is empty, or cut off by the end
		if strings.Contains(l, "weir: RUNNING") && !line.MatchString(l) {
			p.fatal("a line that isn't good: %q", l)
		}
	}
	if strings.Contains(p.out.String(), "RUNNING") {
		p.fatal("progress is in the output")
	}
}
