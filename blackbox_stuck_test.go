package weir_test

import (
	"strings"
	"syscall"
	"testing"
)

// A program whose function doesn't return ends all the same, and shows where it is.
func TestFunctionThatDoesNotReturnEndsTheProgramWithItsStack(t *testing.T) {
	t.Parallel()
	p := start(t, probe(t), "-job", "block", "-D", "task.cancellation.timeout=100ms")
	p.says("blocked")
	p.signal(syscall.SIGTERM)
	p.exits(1).logs(`operator "blocked" didn't return within 100ms`, "suspended", "\ngoroutine ", "\ntime.Sleep(", "\nmain.block")
	if n := strings.Count(p.log.String(), "\ngoroutine "); n != 1 {
		p.fatal("%d stacks", n)
	}
}
