package weir_test

import (
	"os"
	"syscall"
	"testing"
)

// A process 1, as in a container, isn't ended by its own signals.
func TestProcessOneSaysByItsCodeWhichSignalEndedIt(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		p := newProcess(t, probe(t), "-job", "endless")
		p.cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if err := p.cmd.Start(); err != nil {
			t.Skip("may not make a process 1 here:", err)
		}
		p.started()
		p.says("first record")
		p.signal(sig)
		p.exits(code)
	}
}
