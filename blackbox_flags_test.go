package weir_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// configuration writes a configuration file and returns its path.
func configuration(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// absent fails the test if there is something at the path.
func absent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", path, err)
	}
}

func TestHelpExplainsTheJobsFlagsAndThenTheEngines(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-h"}, {"--help"}, {"-p", "x", "-nonsense", "-h"}} {
		p := start(t, wordcount(t), args...).exits(0)
		help := p.out.String()
		for _, part := range []string{"The job's own:", "-input file or directory", "-output", "-rate N", "The engine's:",
			"-s, -fromSavepoint PATH", "_metadata", "latest", "-n, -allowNonRestoredState\n", "-claimMode MODE", "-p, -parallelism N", "-D KEY=VALUE", "-config FILE"} {
			at := strings.Index(help, part)
			if at < 0 {
				p.fatal("-h doesn't say %q, or says it too early", part)
			}
			help = help[at+len(part):]
		}
		if log := p.log.String(); log != "" {
			p.fatal("help isn't an error")
		}
	}
}

func TestMistakesEndTheProgramBeforeItReads(t *testing.T) {
	t.Parallel()
	good := configuration(t, "parallelism:\n  default: 1\n")
	bad := configuration(t, "parallelism: [\n")
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown flag", []string{"-paralellism", "2"}, []string{"-paralellism"}},
		{"no flag at all", []string{"---p", "-=", "-p=1"}, []string{"---p", "-="}},
		{"no number", []string{"-p", "many"}, []string{`"many"`, "-p"}},
		{"number out of range", []string{"-p", "0"}, []string{"parallelism.default", `"0"`, "(-p)", "from 1 to"}},
		{"long name", []string{"-parallelism", "-3"}, []string{"parallelism.default", `"-3"`, "(-parallelism)"}},
		{"missing value", []string{"-D"}, []string{"-D"}},
		{"no assignment", []string{"-D", "interval"}, []string{`"interval"`, "key=value"}},
		{"unknown key", []string{"-D", "execution.checkpointing.intervall=1s"}, []string{"execution.checkpointing.intervall", "nearest", "execution.checkpointing.interval\n"}},
		{"no duration", []string{"-D", "execution.checkpointing.interval=soon"}, []string{"execution.checkpointing.interval", `"soon"`, "a duration"}},
		{"key given twice", []string{"-p", "2", "-D", "parallelism.default=3"}, []string{"parallelism.default", "second time"}},
		{"flag given twice", []string{"-p", "2", "-p", "3"}, []string{`"2" (-p)`, "second time", `"3" (-p)`}},
		{"flag given under both names", []string{"-p", "2", "-parallelism", "3"}, []string{`"2" (-p)`, "second time", `"3" (-parallelism)`}},
		{"neither true nor false", []string{"-n=maybe"}, []string{`"maybe" (-n)`, "true or false"}},
		{"unknown key in a file", []string{"-config", configuration(t, "rest.port: 1\nrest.prot: 1\n")}, []string{"config.yaml:2", "rest.prot", "rest.port"}},
		{"bad YAML", []string{"-config", bad}, []string{bad + ":1", "YAML"}},
		{"no such file", []string{"-config", good + "x"}, []string{good + "x", "no such file"}},
		{"no scheme", []string{"-D", "execution.checkpointing.interval=1s", "-D", "execution.checkpointing.dir=gopher://x/y"}, []string{"gopher", "file"}},
		{"claim of nothing", []string{"-claimMode", "claim"}, []string{`execution.state-recovery.claim-mode = "claim" (-claimMode)`, "needs execution.state-recovery.path"}},
		{"latest of nothing", []string{"-s", "latest"}, []string{`"latest" (-s)`, "execution.checkpointing.dir"}},
		{"an argument that is no flag", []string{"src"}, []string{`"src"`}},
		{"the job's own flag", []string{"-rate", "-1"}, []string{"-rate -1"}},
		{"no such input", []string{"-input", "/nonexistent"}, []string{"-input", "/nonexistent"}},
		{"input without a file system", []string{"-input", "s3://x/y"}, []string{`"lines"`, "main.go:", `"s3"`, "known: file"}},
		{"output without a file system", []string{"-output", "s3://x/y", "-p", "0"}, []string{`"output"`, "main.go:", `"s3"`, "known: file", "(-p)"}},
		{"all at once", []string{"-nonsense", "value", "-p", "many", "-rate", "fast", "-D", "a.b=c", "-D", "restart-strategy.type=sometimes"},
			[]string{"-nonsense", `"many"`, `"fast"`, "a.b", "restart-strategy.type", `"sometimes"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out")
			p := start(t, wordcount(t), append([]string{"-input", "blackbox_test.go", "-output", out}, test.args...)...)
			p.exits(2).logs(test.want...)
			absent(t, out)
			for _, noise := range []string{"goroutine ", "the job has no source"} {
				if strings.Contains(p.log.String(), noise) {
					p.fatal("also says %q", noise)
				}
			}
		})
	}
}

func TestMistakesInTheJobAreReportedWithAllOthers(t *testing.T) {
	t.Parallel()
	p := start(t, probe(t), "-job", "wrong", "-nonsense", "-D", "rest.prot=1").exits(2)
	p.logs("-nonsense", "rest.prot", `"same"`, "main.go:", "float64", "and the builder's own")
	for line := range strings.Lines(p.log.String()) {
		if !strings.HasPrefix(line, "weir: ") {
			p.fatal("a line without a sender: %q", line)
		}
	}
}

func TestUnboundedJobWithoutCheckpointsCannotWriteExactlyOnce(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	start(t, probe(t), "-job", "endless", "-output", out).exits(2).
		logs(`"output"`, `"ticks"`, "execution.checkpointing.interval", "main.go:")
	absent(t, out)
	// What the interval would be is not known while something else is wrong.
	p := start(t, probe(t), "-job", "endless", "-output", out, "-D", "execution.checkpointing.interval=1s", "-D", "x=y").exits(2)
	if strings.Contains(p.log.String(), `"ticks"`) {
		p.fatal("a mistake that isn't one")
	}
}

func TestProgramThatTookAShortNameHasTheLongOne(t *testing.T) {
	t.Parallel()
	p := startWith(t, "TAKE=s p", greedy(t), "-s", "mine", "-p", "mine, too", "-parallelism", "2").exits(0)
	for _, text := range []string{`-s is "mine"`, `-p is "mine, too"`} {
		if !strings.Contains(p.out.String(), text) {
			p.fatal("no %q", text)
		}
	}
	if n := strings.Count(p.out.String(), "subtask of free"); n != 2 {
		p.fatal("%d subtasks", n)
	}
	startWith(t, "TAKE=s p", greedy(t), "-fromSavepoint", "latest").exits(2).logs("execution.checkpointing.dir")
	help := startWith(t, "TAKE=s p", greedy(t), "-h").exits(0).out.String()
	if !strings.Contains(help, "\n  -fromSavepoint PATH") || !strings.Contains(help, "\n  -parallelism N") {
		t.Error("help shows other names:\n", help)
	}
}

func TestProgramThatTookAllNamesIsTold(t *testing.T) {
	t.Parallel()
	startWith(t, "TAKE=s fromSavepoint D", greedy(t), "-nonsense").exits(2).logs("-fromSavepoint", "-D", "-nonsense")
}

func TestProgramThatParsedItsFlagsIsTold(t *testing.T) {
	t.Parallel()
	startWith(t, "PARSE=1", greedy(t)).exits(2).logs("flag.Parse")
}

// degrees runs a job and returns the number of subtasks of an operator without a
// parallelism of its own; the other has always 3.
func degrees(t *testing.T, variable string, args ...string) int {
	t.Helper()
	p := startWith(t, variable, probe(t), args...).exits(0)
	if own := strings.Count(p.out.String(), "subtask of own"); own != 3 {
		p.fatal("an operator's own parallelism is 3 and became %d", own)
	}
	if built := strings.Count(p.out.String(), "build"); built != 1 {
		p.fatal("the job was built %d times", built)
	}
	return strings.Count(p.out.String(), "subtask of free")
}

func TestFileThenCodeThenOperator(t *testing.T) {
	t.Parallel()
	nested := configuration(t, "parallelism:\n  default: 4\n")
	flat := configuration(t, "parallelism.default: 5\n")
	env := "WEIR_CONF_DIR=" + filepath.Dir(nested)
	for _, test := range []struct {
		why  string
		env  string
		args []string
		want int
	}{
		{"default", "", nil, 1},
		{"file of the environment", env, nil, 4},
		{"file of the command line instead", env, []string{"-config", flat}, 5},
		{"code over file", env, []string{"-degree", "2"}, 2},
		{"-p over code", env, []string{"-degree", "2", "-p", "6"}, 6},
		{"-D over code and file", "", []string{"-config", flat, "-degree", "2", "-D", "parallelism.default=7"}, 7},
		{"no file there", "WEIR_CONF_DIR=/nonexistent", nil, 1},
	} {
		if got := degrees(t, test.env, test.args...); got != test.want {
			t.Errorf("%s: parallelism %d, want %d", test.why, got, test.want)
		}
	}
}

func TestOlderKeyIsNotedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, probe(t), "-D", "state.checkpoints.dir="+dir, "-D", "execution.checkpointing.interval=1h").exits(0)
	if n := strings.Count(p.log.String(), "state.checkpoints.dir"); n != 1 || !strings.Contains(p.log.String(), "execution.checkpointing.dir") {
		p.fatal("noted %d times", n)
	}
}

func TestCheckpointsWithoutADirectoryAreWarnedOf(t *testing.T) {
	t.Parallel()
	start(t, probe(t), "-D", "execution.checkpointing.interval=1h").exits(0).logs("WARN", "memory", "execution.checkpointing.dir")
}

func TestCheckpointDirectoryThatIsNoneIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	file := configuration(t, "")
	start(t, probe(t), "-D", "execution.checkpointing.interval=1h", "-D", "execution.checkpointing.dir="+file).exits(1).
		logs(`weir: execution.checkpointing.dir = "`+file+`" (-D #2): `, "not a directory")
}

func TestNothingListensOnTheRestPortYet(t *testing.T) {
	t.Parallel()
	p := start(t, probe(t), "-D", "rest.port=9000").exits(0)
	p.logs(`rest.port = \"9000\" (-D #1) has no effect yet"`) // nor is it another port
}

func TestFailingJobIsRestartedAndThenEndsWithOneError(t *testing.T) {
	t.Parallel()
	strategy := []string{"-D", "restart-strategy.type=fixed-delay", "-D", "restart-strategy.fixed-delay.attempts=2", "-D", "restart-strategy.fixed-delay.delay=1ms"}
	for _, test := range []struct {
		job      string
		args     []string
		attempts int
		says     []string
	}{
		{"fail", nil, 1, []string{"I don't like 2", `"picky"`}},
		{"fail", strategy, 3, []string{"I don't like 2", `"picky"`}},
		{"panic", strategy, 3, []string{"2 frightens me", `"nervous"`}},
	} {
		p := start(t, probe(t), append([]string{"-job", test.job}, test.args...)...).exits(1)
		if n := strings.Count(p.out.String(), "attempt"); n != test.attempts {
			p.fatal("%d attempts, want %d", n, test.attempts)
		}
		var said []string
		for line := range strings.Lines(p.log.String()) {
			if strings.HasPrefix(line, "weir: ") {
				said = append(said, line)
			}
		}
		if len(said) != 1 {
			p.fatal("want one error, in one line")
		}
		for _, text := range test.says {
			if !strings.Contains(said[0], text) {
				p.fatal("the error doesn't say %q", text)
			}
		}
	}
}

func TestSecondSignalEndsABlockedJobAtOnce(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := start(t, probe(t), "-job", "block")
		p.says("blocked")
		p.signal(sig)
		p.says("suspending")
		if !p.alive() {
			p.fatal("didn't wait for the function that blocks")
		}
		p.until("the end", func() bool { // those that come together are one
			p.cmd.Process.Signal(sig)
			return !p.alive()
		})
		p.dies(sig)
	}
}

func TestSuspendedWithoutCheckpointsSaysThatItBeginsAgain(t *testing.T) {
	t.Parallel()
	p := start(t, probe(t), "-job", "endless")
	p.says("first record")
	p.signal(syscall.SIGTERM)
	p.dies(syscall.SIGTERM).logs("no checkpoint")
}
