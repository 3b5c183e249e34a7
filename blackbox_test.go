package weir_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests in blackbox_*_test.go see the engine from outside only: they build
// programs, run them, kill them, and look at what these say and leave behind.

// built is where the programs are, for all tests.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "weir-programs-"); err != nil {
		panic(err)
	}
	if signal.Ignored(os.Interrupt) { // else the programs would inherit that
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// The programs; each is built once, by the first test that needs it.
var (
	wordcount  = program("./examples/wordcount")
	probe      = program("./testdata/programs/probe")   // jobs that are wrong, fail, or block
	greedy     = program("./testdata/programs/greedy")  // has taken flags that are the engine's
	steeredJob = program("./testdata/programs/steered") // does what it is told
)

func program(pkg string) func(*testing.T) string {
	build := sync.OnceValues(func() (string, error) {
		path := filepath.Join(built, filepath.Base(pkg))
		out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
		return path, err
	})
	return func(t *testing.T) string {
		t.Helper()
		path, err := build()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// patience is how long anything may take that should happen at once.
const patience = time.Minute

// A process is a program at work, and what it has written so far.
type process struct {
	*testing.T
	cmd      *exec.Cmd
	out, log text
	ended    chan struct{}
}

// text is written by a process while the test reads it.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// start starts a program; it is killed when the test ends.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	return startWith(t, "WEIR_CONF_DIR=", program, args...)
}

// startWith is start with a variable in the environment.
func startWith(t *testing.T, variable, program string, args ...string) *process {
	t.Helper()
	p := newProcess(t, program, args...)
	p.cmd.Env = append(os.Environ(), "WEIR_CONF_DIR=", variable)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.started()
	return p
}

// newProcess is a process to start.
func newProcess(t *testing.T, program string, args ...string) *process {
	p := &process{T: t, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	return p
}

// started watches over the process from its start to its end.
func (p *process) started() {
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	p.Cleanup(p.kill)
}

// kill is kill -9.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) signal(sig syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.fatal("signal %v: %v", sig, err)
	}
}

// alive says whether the process still runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// until waits for a condition, which must come true before the process ends.
func (p *process) until(what string, true func() bool) {
	p.Helper()
	for deadline := time.Now().Add(patience); !true(); {
		select {
		case <-p.ended:
			if !true() {
				p.fatal("ended before %s", what)
			}
			return
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.fatal("no sign of %s", what)
		}
	}
}

// says waits until the process has written something to standard output or error.
func (p *process) says(what string) {
	p.Helper()
	p.until(fmt.Sprintf("%q", what), func() bool {
		return strings.Contains(p.out.String(), what) || strings.Contains(p.log.String(), what)
	})
}

// exit waits for the end of the process and returns its exit code, -1 if a
// signal has ended it.
func (p *process) exit() int {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.signal(syscall.SIGQUIT) // for the stacks
		<-p.ended
		p.fatal("doesn't end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// exits is exit with the code that is wanted.
func (p *process) exits(code int) *process {
	p.Helper()
	if got := p.exit(); got != code {
		p.fatal("exit code %d, want %d", got, code)
	}
	return p
}

// dies waits for the end of the process by a signal.
func (p *process) dies(by syscall.Signal) *process {
	p.Helper()
	p.exit()
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != by {
		p.fatal("ended by %v, want %v", p.cmd.ProcessState, by)
	}
	return p
}

// logs waits until each text is in what went to standard error.
func (p *process) logs(texts ...string) *process {
	p.Helper()
	for _, text := range texts {
		p.until(fmt.Sprintf("it said %q", text), func() bool { return strings.Contains(p.log.String(), text) })
	}
	return p
}

// fatal fails the test with all that the process has said.
func (p *process) fatal(format string, args ...any) {
	p.Helper()
	p.Fatalf("%s\n$ %s\nstandard output:\n%s\nstandard error:\n%s",
		fmt.Sprintf(format, args...), p.cmd, clip(p.out.String()), clip(p.log.String()))
}

func clip(s string) string {
	const most = 8000
	if len(s) > most {
		return s[:most/2] + "\n...\n" + s[len(s)-most/2:]
	}
	return s
}

// shell runs a command line of POSIX tools and returns its output.
func shell(t *testing.T, line string, args ...string) string {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", line, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}
