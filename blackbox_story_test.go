package weir_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A steered job is a process that does what it is told.
type steered struct {
	*process
	id      string
	output  string // directory
	orders  io.WriteCloser
	answers int // lines it has answered
}

// steer starts a job.
func (p *place) steer(args ...string) *steered {
	p.Helper()
	s := &steered{process: newProcess(p.T, steeredJob(p.T), slices.Concat(p.args, args)...), output: p.out}
	orders, err := s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		p.Fatal(err)
	}
	s.orders = orders
	s.started()
	s.id = s.answer()
	return s
}

// answer waits for the next line of the process.
func (s *steered) answer() (line string) {
	s.Helper()
	s.until("an answer", func() bool {
		lines := strings.SplitAfter(s.out.String(), "\n")
		if len(lines) < s.answers+2 {
			return false
		}
		line = strings.TrimSuffix(lines[s.answers], "\n")
		return true
	})
	s.answers++
	return line
}

// order has a command carried out.
func (s *steered) order(command string) (answer string) {
	s.Helper()
	fmt.Fprintln(s.orders, command)
	if answer = s.answer(); strings.HasPrefix(answer, "error") {
		s.fatal("%s: %s", command, answer)
	}
	return answer
}

// cancel cancels the job and waits for the end of its process.
func (s *steered) cancel() {
	s.Helper()
	s.order("cancel")
	s.orders.Close()
	s.exits(0)
}

// startsFrom is the number of the checkpoint that the job says it starts from.
func (s *steered) startsFrom() int {
	s.Helper()
	s.logs("starts from a checkpoint")
	n, err := strconv.Atoi(regexp.MustCompile(`starts from a checkpoint.* checkpoint=(\d+)`).FindStringSubmatch(s.log.String())[1])
	if err != nil {
		s.fatal("%v", err)
	}
	return n
}

// counted returns the numbers in the job's final files of a checkpoint up to number
// most, and fails unless each is its count and follows the one before.
func (s *steered) counted(most int) (numbers []int) {
	s.Helper()
	l := newLedger(s.output)
	l.prefix = "part-" + s.id + "-"
	names, err := l.settled()
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range names {
		var checkpoint int
		if _, err := fmt.Sscanf(strings.TrimPrefix(name, l.prefix), "%d", &checkpoint); err != nil {
			s.fatal("file %s: %v", name, err)
		}
		if checkpoint <= most {
			numbers = append(numbers, s.numbersIn(filepath.Join(s.output, name))...)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != numbers[0]+i {
			s.fatal("%d comes after %d", n, numbers[i-1])
		}
	}
	return numbers
}

func (s *steered) numbersIn(file string) (numbers []int) {
	s.Helper()
	f, err := os.Open(file)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n, count int
		if _, err := fmt.Sscan(lines.Text(), &n, &count); err != nil || n != count {
			s.fatal("%s has %q: %v", file, lines.Text(), err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// goesOnBehind waits for output, and fails unless the first number is the one
// behind last.
func (s *steered) goesOnBehind(last int) {
	s.Helper()
	s.until("output", func() bool { return len(s.counted(everything)) > 0 })
	if numbers := s.counted(everything); numbers[0] != last+1 {
		s.fatal("the output begins with %d, not behind %d", numbers[0], last)
	}
}

// everything is a number that no checkpoint exceeds.
const everything = 1 << 40

// names returns what is in a directory.
func (p *place) names(dir string) (names []string) {
	p.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// holdsOnly fails unless all that is in a directory has names of the given forms, each
// of which is there so many times; -1: any number of times.
func (p *place) holdsOnly(dir string, forms map[string]int) {
	p.Helper()
	names := p.names(dir)
	for form, want := range forms {
		is := regexp.MustCompile("^" + form + "$")
		rest := slices.DeleteFunc(slices.Clone(names), is.MatchString)
		if n := len(names) - len(rest); want >= 0 && n != want {
			p.Errorf("%s holds %d of %s, want %d", dir, n, form, want)
		}
		names = rest
	}
	if len(names) > 0 {
		p.Errorf("%s holds %q, too", dir, names)
	}
}

const (
	aJob        = "[0-9a-f]{32}"
	aFile       = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
	aCheckpoint = `chk-\d+`
)

// TestTheStoryOfTwentyCheckpoints is what an operator does who knows Flink: keeps
// twenty checkpoints, takes savepoints, cancels, goes back to a checkpoint before the
// newest ones, and to the savepoints; and looks into the directories at each step.
func TestTheStoryOfTwentyCheckpoints(t *testing.T) {
	t.Parallel()
	p := &place{T: t, checkpoints: filepath.Join(t.TempDir(), "checkpoints"), out: t.TempDir()}
	points, given := t.TempDir(), t.TempDir()
	p.args = []string{"-checkpoints", "file://" + p.checkpoints, "-savepoints", "file://" + points, "-output", p.out, "-retained", "1000"}

	first := p.steer("-retained", "20", "-retention", "RETAIN_ON_CANCELLATION")
	dir := filepath.Join(p.checkpoints, first.id)
	first.until("twenty checkpoints, the first ones gone", func() bool {
		complete := p.complete(first.id)
		return len(complete) >= 20 && complete[0] > 5
	})
	p.holdsOnly(p.checkpoints, map[string]int{aJob: 1, `\.runs`: 1})
	p.holdsOnly(dir, map[string]int{aCheckpoint: -1, "shared": 1, "taskowned": 1})

	savepoint := "savepoint-" + first.id[:6] + "-[0-9a-f]{12}"
	byDefault := strings.TrimPrefix(first.order("savepoint"), "file://")
	elsewhere := strings.TrimPrefix(first.order("savepoint file://"+given), "file://")
	for point, base := range map[string]string{byDefault: points, elsewhere: given} {
		if filepath.Dir(point) != base {
			t.Errorf("a savepoint is in %s, want %s", point, base)
		}
		p.holdsOnly(base, map[string]int{savepoint: 1})
		p.holdsOnly(point, map[string]int{"_metadata": 1, aFile: -1})
	}

	before := last(p.complete(first.id)) // next come the savepoints, at most
	first.until("output of a checkpoint behind the savepoints", func() bool {
		return len(first.counted(everything)) > len(first.counted(before+2))
	})
	first.cancel()
	kept := p.complete(first.id)
	p.holdsOnly(p.checkpoints, map[string]int{aJob: 1, `\.runs`: 1})
	p.holdsOnly(dir, map[string]int{aCheckpoint: 20, "shared": 1, "taskowned": 1})
	for _, n := range kept {
		p.holdsOnly(p.chk(first.id, n), map[string]int{"_metadata": 1, aFile: -1})
	}

	third := kept[2]
	second := p.steer("-from", p.chk(first.id, third), "-retention", "DELETE_ON_CANCELLATION")
	second.goesOnBehind(len(first.counted(third)))
	if second.id == first.id {
		t.Error("the new job has the old one's id")
	}
	if own := p.complete(second.id); second.startsFrom() != third || own[0] != third+1 {
		t.Errorf("started from checkpoint %d, it says %d, and has %v", third, second.startsFrom(), own)
	}
	p.holdsOnly(p.checkpoints, map[string]int{aJob: 2, `\.runs`: 1})
	second.cancel()
	absent(t, filepath.Join(p.checkpoints, second.id))
	if now := p.complete(first.id); !slices.Equal(now, kept) {
		t.Errorf("of the checkpoints %v of the first job there are %v", kept, now)
	}

	if err := os.RemoveAll(dir); err != nil { // a savepoint needs nothing of it
		t.Fatal(err)
	}
	for _, point := range []string{byDefault, elsewhere} {
		job := p.steer("-from", point) // with no policy
		number := job.startsFrom()
		job.goesOnBehind(len(first.counted(number)))
		if own := p.complete(job.id); own[0] != number+1 {
			t.Errorf("started from savepoint %d, it has %v", number, own)
		}
		job.cancel()
		p.holdsOnly(p.checkpoints, map[string]int{`\.runs`: 1})
		p.holdsOnly(point, map[string]int{"_metadata": 1, aFile: -1})
	}
}
