package weir_test

import (
	"flag"
	"go/build"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var killSeed = flag.Uint64("kill.seed", 0, "of the moments at which processes are killed; 0: one that is new every time")

// chance returns a source of chance whose seed is printed.
func chance(t *testing.T) *rand.Rand {
	s := *killSeed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("to get the same moments: -kill.seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// watch checks the law again and again while the process lives, until a moment
// at which it is killed; it reports whether the process was faster.
func (l *ledger) watch(p *process, life time.Duration) (ended bool) {
	p.Helper()
	moment := time.After(life)
	for {
		select {
		case <-moment:
			p.kill()
		case <-p.ended:
			l.mustHold(p.T)
			return p.cmd.ProcessState.Exited()
		case <-time.After(10 * time.Millisecond):
			l.mustHold(p.T)
		}
	}
}

// The promise: kill it as often as you like, the output is as if nothing had
// happened. Over real text, at 20 random moments, and at a parallelism that
// changes with each start.
func TestKill9LosesNothingAndRepeatsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	rnd := chance(t)
	root := t.TempDir()
	p := &place{T: t, in: filepath.Join(build.Default.GOROOT, "src", "net"), out: root + "/out", checkpoints: root + "/checkpoints"}
	want := occurrences(t, p.in)
	const whole = 12 // seconds, without a kill
	p.args = []string{"-input", p.in, "-output", p.out, "-rate", strconv.Itoa(countLines(t, p.in) / whole),
		"-D", "execution.checkpointing.dir=file://" + p.checkpoints, "-D", "execution.checkpointing.interval=200ms", "-s", "latest"}
	l := newLedger(p.out)
	visible := 0
	for kill := range 20 {
		degree := strconv.Itoa(1 + rnd.IntN(4))
		job := p.start("-p", degree)
		if ended := l.watch(job, time.Duration(rnd.Int64N(int64(800*time.Millisecond)))); ended {
			job.fatal("ended before kill %d", kill+1)
		}
		if l.holds() > visible {
			visible = l.holds()
			t.Logf("kill %d, parallelism %s: %d lines are final", kill+1, degree, visible)
		}
	}
	job := p.start("-p", "2")
	l.watch(job, patience)
	job.exits(0)
	if visible == 0 {
		t.Error("no output became visible before the end")
	}
	l.mustBeWhole(t, want)
	if left := p.ids(); len(left) > 0 {
		t.Errorf("checkpoints of a finished job: %v", left)
	}
}

// A short job's last moments are a final checkpoint, the commits, the end on
// record and the removal of the checkpoints: it is killed in each of them.
func TestKill9InTheLastMoments(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	rnd := chance(t)
	model := newPlace(t, 400)
	want := occurrences(t, model.in)
	model.start().exits(0)
	whole := written(model.out)
	hits := 0
	for range 60 {
		root := t.TempDir()
		p := &place{T: t, in: model.in, out: root + "/out", checkpoints: root + "/checkpoints"}
		interval := []string{"10ms", "1h"}[rnd.IntN(2)] // many commits, or all of them in the end
		p.args = []string{"-input", p.in, "-output", p.out, "-s", "latest",
			"-D", "execution.checkpointing.dir=file://" + p.checkpoints, "-D", "execution.checkpointing.interval=" + interval}
		l := newLedger(p.out)
		for range 4 {
			job := p.start("-p", strconv.Itoa(1+rnd.IntN(4)))
			for job.alive() && written(p.out) < whole {
				time.Sleep(50 * time.Microsecond) // leaves the processors to the job
			}
			select {
			case <-time.After(time.Duration(rnd.Int64N(int64(time.Millisecond) << rnd.IntN(5)))):
				job.kill()
				hits++
			case <-job.ended:
				job.exits(0)
			}
			l.mustHold(t)
		}
		p.start("-p", "2").exits(0)
		l.mustBeWhole(t, want)
		if left := p.ids(); len(left) > 0 {
			t.Fatalf("checkpoints of a finished job: %v", left)
		}
	}
	t.Logf("%d processes were killed", hits)
	if hits == 0 {
		t.Error("all were faster")
	}
}

// written returns how many bytes of output there are, final or not.
func written(dir string) (size int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.Contains(e.Name(), "part-") {
			size += info.Size()
		}
	}
	return size
}
