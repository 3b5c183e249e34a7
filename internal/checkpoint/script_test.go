package checkpoint

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/graph"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata print into them")

// TestScripts runs the scripts in testdata. A script is a row of blocks: lines
// of events, a line of dashes, and the actions that should come of them.
//
// Times are those since the last "new". Events are written as a verb, a number
// of a checkpoint or attempt, and settings; "acks" are those of all subtasks.
// Where the script doesn't say "by hand", enumerating and committing take no
// time.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, string(script))
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

// run returns script with the actions that its events led to.
func run(t *testing.T, script string) string {
	s := session{t: t}
	blocks := strings.Split(strings.TrimSpace(script), "\n\n")
	for i, block := range blocks {
		events, _, _ := strings.Cut(block, "\n----")
		s.out = nil
		for line := range strings.SplitSeq(events, "\n") {
			if !strings.HasPrefix(line, "#") {
				s.do(strings.Fields(line))
			}
		}
		if len(s.out) == 0 {
			s.out = []string{"-"}
		}
		blocks[i] = events + "\n----\n" + strings.Join(s.out, "\n")
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

// session is a coordinator, the clock it is told, and what it said.
type session struct {
	*Coordinator
	t        *testing.T
	now      time.Time
	attempt  graph.Attempt
	subtasks []graph.Subtask
	hand     bool
	out      []string
}

var zero = time.Unix(0, 0)

func (s *session) do(words []string) {
	var n uint64
	set := map[string]string{}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		set[key] = value
		if number, err := strconv.ParseUint(w, 10, 64); err == nil {
			n = number
		}
	}
	number := func(key string, otherwise int) int {
		if v, err := strconv.Atoi(set[key]); err == nil {
			return v
		}
		return otherwise
	}
	duration := func(key string, otherwise time.Duration) time.Duration {
		if v, err := time.ParseDuration(set[key]); err == nil {
			return v
		}
		return otherwise
	}
	_, late := set["late"]
	attempt, subtask := s.attempt, graph.Subtask{Index: number("subtask", 0)}
	if late {
		attempt--
	}
	switch reason := set["because"]; words[0] {
	case "new":
		s.now, s.attempt = zero, 0
		_, s.hand = set["hand"]
		var kept []uint64
		for k := range strings.SplitSeq(set["kept"], ",") {
			if v, err := strconv.ParseUint(k, 10, 64); err == nil {
				kept = append(kept, v)
			}
		}
		s.Coordinator = New(Policy{
			Interval: duration("interval", 10*time.Second), Backlog: duration("backlog", 0), MinPause: duration("pause", 0), Timeout: time.Minute, Savepoint: time.Hour,
			Concurrent: number("concurrent", 1), Retained: number("retained", 1), Tolerable: number("tolerable", 0), History: 10,
			WhileAllRun: slices.Contains(words, "whileallrun"), FromSavepoints: slices.Contains(words, "fromsavepoints"),
		}, uint64(number("last", 0)), kept)
	case "start":
		s.attempt, s.subtasks = graph.Attempt(n), nil
		for i := range number("subtasks", 1) {
			s.subtasks = append(s.subtasks, graph.Subtask{Index: i})
		}
		var behind []graph.ID
		if set["behind"] != "" {
			behind = append(behind, graph.ID{byte(number("behind", 0))})
		}
		s.step(Started{s.attempt, s.subtasks, uint64(number("restored", 0)), behind, duration("delay", 10*time.Second)})
	case "tick":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		s.step(Tick{})
	case "next":
		if at, ok := s.Next(); ok {
			s.out = append(s.out, fmt.Sprintf("wants a tick at %v", at.Sub(zero)))
		}
	case "request":
		s.step(Request{n, slices.Contains(words, "savepoint")})
	case "halt":
		s.step(Stop{n, slices.Contains(words, "drain")})
	case "stop":
		s.step(Stopped{graph.Attempt(n)})
	case "behind", "abreast":
		s.step(Backlog{attempt, graph.ID{byte(n)}, words[0] == "behind"})
	case "ended":
		s.step(Ended{graph.Attempt(n), subtask})
	case "enumerated":
		s.step(Enumerated{Checkpoint: n})
	case "ack":
		s.step(Ack{Attempt: attempt, Subtask: subtask, Checkpoint: n})
	case "acks":
		for _, one := range s.subtasks {
			s.step(Ack{Attempt: attempt, Subtask: one, Checkpoint: n})
		}
	case "decline":
		s.step(Decline{attempt, subtask, n, reason, false})
	case "notready":
		s.step(Decline{attempt, subtask, n, "starting", true})
	case "stored":
		s.step(Stored{Checkpoint: n})
	case "failed":
		s.step(Failed{n, reason, slices.Contains(words, "unknown")})
	case "committed":
		s.step(Committed{n})
	case "stats":
		st := s.Stats()
		s.out = append(s.out, fmt.Sprintf("%d triggered, %d in progress, %d completed, %d failed",
			st.Triggered, st.InProgress, st.Completed, st.Failed))
		for _, r := range st.History {
			s.out = append(s.out, tell(r))
		}
	default:
		s.t.Fatalf("unknown event %q", words)
	}
}

// tell is a record in words.
func tell(r Record) string {
	words := fmt.Sprintf("%d from %v", r.Checkpoint, r.Began.Sub(zero))
	if r.Ended.IsZero() {
		words += fmt.Sprintf(" has %d of %d", len(r.Parts), r.Subtasks)
	} else {
		words += fmt.Sprintf(" to %v", r.Ended.Sub(zero))
	}
	if r.Discarded {
		words += ", discarded"
	}
	return strings.TrimRight(words+" "+r.Failure, " ")
}

// step tells the coordinator, prints what it says, and does at once what needs
// no time.
func (s *session) step(e Event) {
	for todo := []Event{e}; len(todo) > 0; todo = todo[1:] {
		for _, a := range s.Step(s.now, todo[0]) {
			switch a := a.(type) {
			case Enumerate:
				if !s.hand {
					todo = append(todo, Enumerated{Checkpoint: a.Checkpoint})
					continue
				}
			case Commit:
				if !s.hand {
					todo = append(todo, Committed(a))
				}
			}
			s.out = append(s.out, show(a))
		}
	}
}

func show(a Action) string {
	switch a := a.(type) {
	case Enumerate:
		if a.Savepoint != 0 {
			return fmt.Sprintf("enumerate %d, a savepoint", a.Checkpoint)
		}
		return fmt.Sprintf("enumerate %d", a.Checkpoint)
	case Commit:
		return fmt.Sprintf("commit %d", a.Checkpoint)
	case Pause:
		return "pause the sources"
	case Drain:
		return "drain the sources"
	case Resume:
		return "resume the sources"
	case Answer:
		if a.Reason != "" && a.Checkpoint != 0 {
			return fmt.Sprintf("answer %d: it is %d, but %s", a.ID, a.Checkpoint, a.Reason)
		}
		if a.Reason != "" {
			return fmt.Sprintf("answer %d: %s", a.ID, a.Reason)
		}
		return fmt.Sprintf("answer %d: it is %d", a.ID, a.Checkpoint)
	case Trigger:
		what, how := "", ""
		if a.Barrier.Savepoint {
			what = "savepoint "
		}
		if a.Barrier.Drained {
			how = ", drained"
		}
		return fmt.Sprintf("trigger %s%d at %v%s", what, a.Barrier.Checkpoint, time.Duration(a.Barrier.At), how)
	case Store:
		if a.Final {
			return fmt.Sprintf("store %d, final", a.Barrier.Checkpoint)
		}
		return fmt.Sprintf("store %d of %d subtasks", a.Barrier.Checkpoint, len(a.Subtasks))
	case Notify:
		return fmt.Sprintf("notify %d", a.Checkpoint)
	case Abort:
		return fmt.Sprintf("abort %d: %s", a.Checkpoint, a.Reason)
	case Discard:
		return fmt.Sprintf("discard %d", a.Checkpoint)
	case Release:
		return fmt.Sprintf("release a part of %d", a.Checkpoint)
	case FailAttempt:
		return "fail the attempt: " + a.Reason
	case Finish:
		return "finish"
	}
	return fmt.Sprintf("%T", a)
}
