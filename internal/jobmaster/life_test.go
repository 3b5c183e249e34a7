package jobmaster

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/graph"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata print into them")

// TestScripts runs the scripts in testdata. A script is a row of blocks: lines
// of events, a line of dashes, and the actions that should come of them with the
// status after them.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no scripts")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(script))
			if *rewrite {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if got != string(script) {
				t.Errorf("got:\n%s", got)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// play returns script with the actions that its events led to.
func play(t *testing.T, script string) string {
	var s session
	blocks := strings.Split(strings.TrimSpace(script), "\n\n")
	for i, block := range blocks {
		events, _, _ := strings.Cut(block, "\n----")
		var out []string
		for line := range strings.SplitSeq(events, "\n") {
			if !strings.HasPrefix(line, "#") {
				out = append(out, s.do(t, line)...)
			}
		}
		status, _ := s.life.Status()
		blocks[i] = events + "\n----\n" + strings.Join(append(out, status.String()), "\n")
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

// session is a life and the clock it is told.
type session struct {
	life *Life
	now  time.Time
}

func subtasks(n int) (all []graph.Subtask) {
	for i := range n {
		all = append(all, graph.Subtask{Index: i})
	}
	return all
}

func (s *session) do(t *testing.T, line string) []string {
	verb, rest, _ := strings.Cut(line, " ")
	attempt, subtask := graph.Attempt(1), 0
	if s.life != nil {
		attempt = s.life.Attempt()
	}
	fmt.Sscanf(rest, "%d", &subtask)
	if _, of, ok := strings.Cut(rest, "of attempt "); ok {
		fmt.Sscanf(of, "%d", &attempt)
	}
	who := graph.Subtask{Index: subtask}
	s.now = s.now.Add(time.Second)
	switch verb {
	case "new":
		restarts := 0
		fmt.Sscanf(rest, "subtasks=%d restarts=%d", &subtask, &restarts)
		s.life = NewLife(s.now, subtasks(subtask), &FixedDelay{Attempts: restarts, Delay: time.Minute}, func() float64 { return middle })
		return nil
	case "begin":
		return s.step(Begin{})
	case "loaded":
		return s.step(Loaded{attempt})
	case "opened":
		return s.step(Opened{attempt})
	case "ready":
		return s.step(Ready{attempt, who})
	case "ended":
		return s.step(Ended{attempt})
	case "stopped":
		return s.step(Stopped{attempt, who})
	case "closed":
		return s.step(Closed{attempt})
	case "elapsed":
		return s.step(Elapsed{attempt})
	case "stuck":
		return s.step(Stuck{Failure{Attempt: attempt, At: s.now, Err: fmt.Errorf("%s is stuck", rest)}})
	case "broke", "broke-for-good":
		what, _, _ := strings.Cut(rest, " of attempt")
		return s.step(Broke{Failure{Attempt: attempt, At: s.now, Err: errors.New(what)}, verb == "broke-for-good"})
	case "cancel":
		return s.step(Cancel{})
	case "suspend":
		return s.step(Suspend{})
	case "failures":
		var all []string
		for _, f := range s.life.Failures() {
			all = append(all, fmt.Sprintf("attempt %d: %v", f.Attempt, f.Err))
		}
		return all
	}
	t.Fatalf("unknown event %q", line)
	return nil
}

func (s *session) step(e Event) (out []string) {
	for _, a := range s.life.Step(s.now, e) {
		switch a := a.(type) {
		case Wait:
			out = append(out, fmt.Sprintf("wait %v after attempt %d", a.Delay, a.Attempt))
		case End:
			out = append(out, strings.TrimSuffix(fmt.Sprintf("end %v: %v", a.Status, a.Err), ": <nil>"))
		default:
			name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", a), "jobmaster."))
			out = append(out, fmt.Sprintf("%s %d", name, attemptOf(a)))
		}
	}
	return out
}

func attemptOf(a Action) graph.Attempt {
	switch a := a.(type) {
	case Load:
		return a.Attempt
	case Open:
		return a.Attempt
	case Deploy:
		return a.Attempt
	case Start:
		return a.Attempt
	case Finish:
		return a.Attempt
	case Stop:
		return a.Attempt
	case Close:
		return a.Attempt
	}
	return 0
}

// TestLifeWalk throws events at a life in random order and holds it to its
// invariants. A failure prints its seed.
func TestLifeWalk(t *testing.T) {
	ends := map[Status]int{}
	for seed := range uint64(3000) {
		status, err := walk(rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ends[status]++
	}
	for _, s := range []Status{Finished, Failed, Canceled, Suspended} {
		if ends[s] == 0 {
			t.Errorf("no walk ended in %v: %v", s, ends)
		}
	}
}

func walk(rng *rand.Rand) (Status, error) {
	now := time.Unix(0, 0)
	all := subtasks(1 + rng.IntN(3))
	l := NewLife(now, all, &FixedDelay{Attempts: rng.IntN(4)}, rng.Float64)
	var (
		running = map[graph.Subtask]bool{} // deployed, and not known to have stopped
		givenUp bool
		open    bool // between Load and Closed
		asked   = map[string]graph.Attempt{}
		ended   bool
	)
	for range 200 {
		attempt := l.Attempt() - graph.Attempt(min(rng.IntN(6)/5, int(l.Attempt())))
		s := all[rng.IntN(len(all))]
		var e Event
		switch rng.IntN(14) {
		case 0:
			e = Begin{}
		case 1:
			e = Loaded{attempt}
		case 2:
			e = Opened{attempt}
		case 3, 4, 5:
			e = Ready{attempt, s}
		case 6:
			e = Ended{attempt}
		case 7, 8:
			e = Stopped{attempt, s}
			if attempt == l.Attempt() {
				delete(running, s)
			}
		case 9:
			if asked["close"] != l.Attempt() || attempt != l.Attempt() {
				continue
			}
			e, open = Closed{attempt}, false
		case 10:
			if asked["wait"] != l.Attempt() {
				continue
			}
			e = Elapsed{attempt}
		case 11:
			e = Broke{Failure: Failure{Attempt: attempt, Err: errors.New("broke")}, Final: rng.IntN(9) == 0}
		case 12:
			if rng.IntN(8) > 0 || l.Attempt() == 0 || max(asked["stop"], asked["close"]) != l.Attempt() {
				continue
			}
			status, _ := l.Status()
			e, givenUp = Stuck{Failure{Attempt: l.Attempt(), Err: errors.New("stuck")}}, givenUp || status != Restarting
		case 13:
			if rng.IntN(8) > 0 {
				continue
			}
			e = []Event{Cancel{}, Suspend{}}[rng.IntN(2)]
		}
		before, _ := l.Status()
		for _, a := range l.Step(now, e) {
			if ended {
				return 0, fmt.Errorf("%T after the end", a)
			}
			switch a := a.(type) {
			case Load:
				if open || len(running) > 0 {
					return 0, fmt.Errorf("attempt %d beside another", a.Attempt)
				}
				if givenUp {
					return 0, errors.New("an attempt after subtasks were given up")
				}
				open = true
			case Deploy:
				for _, s := range all {
					running[s] = true
				}
			case Stop, Finish:
				asked["stop"] = l.Attempt()
			case Close:
				if len(running) > 0 {
					return 0, fmt.Errorf("close while %d subtasks run", len(running))
				}
				if asked["close"] == a.Attempt {
					return 0, errors.New("closed twice")
				}
				asked["close"] = a.Attempt
			case Wait:
				if asked["wait"] == a.Attempt {
					return 0, errors.New("the strategy was asked twice")
				}
				asked["wait"] = a.Attempt
			case End:
				ended = true
				if open {
					return 0, errors.New("ended before everything was closed")
				}
			}
		}
		after, _ := l.Status()
		if before.terminal() && after != before {
			return 0, fmt.Errorf("%v after %v", after, before)
		}
	}
	status, _ := l.Status()
	return status, nil
}
