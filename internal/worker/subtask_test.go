package worker

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/exchange"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/operator"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/task"
	"github.com/weirstream/weir/record"
	"github.com/weirstream/weir/state"
)

// joint is a subtask with two inputs, A and B, that remembers what it has seen
// and passes it on.
type joint struct {
	*simulated
	*task.Subtask
	inputs   [2]exchange.Sender
	out      *exchange.Inbox
	said     []string // its reports
	measured []snapshot.Measures
	fail     bool // the next freeze
}

var jointID = graph.ID{1}

func newJoint(seed uint64) *joint {
	j := &joint{simulated: newSimulated(seed), out: exchange.NewInbox(1)}
	j.reach = func(point string) error {
		if point == "freeze" && j.fail {
			j.fail = false
			return fmt.Errorf("no room")
		}
		return nil
	}
	in := exchange.NewInbox(2)
	spec := operator.Spec{Open: func(c *operator.Context, next []any) (operator.Operator, error) {
		t := &operator.Transform[string, string]{}
		seen := state.NewSplit[string](c, "seen")
		t.Body = func(b *record.Batch[string], out *operator.Output[string]) error {
			for _, v := range b.Values {
				seen.Append(v)
				out.Emit(v)
			}
			return nil
		}
		return t.Start(c, operator.NewOutput[string](c, next))
	}}
	log := slog.New(slog.DiscardHandler)
	j.Subtask = task.New(task.Plan{
		Name:      "joint",
		Operators: []task.Step{{ID: jointID, Spec: spec, Context: &operator.Context{Name: "joint", Logger: log}, Outputs: []int{0}}},
		Outputs: []task.Output{{Edge: operator.Forward[string](), Routing: operator.Routing{
			Senders: []exchange.Sender{j.out.Sender(0, 100, func() {})},
		}}},
		Inbox: in, Inputs: 2, BufferTimeout: time.Second, SliceMax: 2, Executor: j,
		Target:  func(record.Barrier) state.Target { return snapshot.Target{} },
		Reports: j, Logger: log,
	})
	for i := range j.inputs {
		j.inputs[i] = in.Sender(i, 100, func() {})
	}
	j.settle()
	j.Start()
	return j
}

func (j *joint) say(format string, args ...any) {
	j.said = append(j.said, fmt.Sprintf(format, args...))
}

func (j *joint) Ready()                           {}
func (j *joint) Request(uint64)                   {}
func (j *joint) NotReady(n uint64, reason string) { j.say("not ready for %d: %s", n, reason) }
func (j *joint) Decline(n uint64, reason string)  { j.say("decline %d: %s", n, reason) }
func (j *joint) Ended()                           { j.say("ended") }
func (j *joint) Failed(err error, _ string)       { j.say("failed: %v", err) }
func (j *joint) Stopped()                         { j.say("stopped") }
func (j *joint) Overdue(operator, _ string)       { j.say("overdue: %s", operator) }

func (j *joint) Ack(n uint64, t snapshot.Task, m snapshot.Measures) {
	j.measured = append(j.measured, m)
	var seen []string
	for _, l := range t[jointID].Lists {
		at := 0
		for _, length := range l.Lengths {
			var v string
			codecOf[string]().Decode(l.File.Data[at:], &v)
			seen, at = append(seen, v), at+int(length)
		}
	}
	j.say("ack %d: %s", n, strings.Join(seen, " "))
}

// send puts elements into an input and waits until all that can happen has. A
// word is a record, |7 a barrier (|7@9 of a checkpoint that began in second 9), x7
// the word that it won't come, and . the end.
func (j *joint) send(input int, script string) {
	for _, word := range strings.Fields(script) {
		var e exchange.Element
		switch word[0] {
		case '|':
			e.Kind = exchange.Barrier
			fmt.Sscanf(word[1:], "%d@%d", &e.Barrier.Checkpoint, &e.Barrier.At)
			e.Barrier.At *= int64(time.Second)
		case 'x':
			e.Kind = exchange.Cancel
			fmt.Sscan(word[1:], &e.Barrier.Checkpoint)
		case '.':
			e.Kind = exchange.End
		default:
			e.Batch = &record.Batch[string]{Values: []string{word}}
		}
		j.inputs[input].Send(e)
	}
	j.settle()
}

// emitted returns what has come out, in the same words.
func (j *joint) emitted() string {
	var words []string
	for _, e, ok := j.out.Take(); ok; _, e, ok = j.out.Take() {
		switch e.Kind {
		case exchange.Records:
			words = append(words, e.Batch.(*record.Batch[string]).Values...)
		case exchange.Barrier:
			words = append(words, fmt.Sprintf("|%d", e.Barrier.Checkpoint))
		case exchange.Cancel:
			words = append(words, fmt.Sprintf("x%d", e.Barrier.Checkpoint))
		case exchange.End:
			words = append(words, ".")
		}
	}
	return strings.Join(words, " ")
}

const a, b = 0, 1

// stories are what two inputs deliver, and what comes of it.
var stories = []struct {
	name    string
	tell    func(j *joint)
	emitted string
	said    string
}{
	{"S01: a record behind a barrier isn't in the snapshot", func(j *joint) {
		j.send(a, "a1 |1 a2")
		j.send(b, "b1 |1 b2")
	}, "a1 b1 |1 a2 b2", "ack 1: a1 b1"},
	{"S02: a newer barrier on one channel while an older alignment is open", func(j *joint) {
		j.send(a, "a1 |5 a2 a3 a4")
		j.Abort(5)
		j.send(b, "b1 |6")
		j.send(b, "b2 |5 b3")
		j.send(a, "|6 a5")
	}, "a1 x5 a2 a3 a4 b1 |6 b2 b3 a5", "ack 6: a1 a2 a3 a4 b1"},
	{"S02: the same, and the abort is lost", func(j *joint) {
		j.send(a, "a1 |5 a2 a3 a4")
		j.send(b, "b1 |6 b2 |5 b3")
		j.send(a, "|6 a5")
	}, "a1 b1 x5 a2 a3 a4 |6 a5 b2 b3", "ack 6: a1 b1 a2 a3 a4"},
	{"S04: who declines says so downstream, and the next checkpoint completes", func(j *joint) {
		j.fail = true
		j.send(a, "a1 |7 a2 |8")
		j.send(b, "b1 |7 b2 |8")
	}, "a1 b1 x7 a2 b2 |8", `decline 7: operator "joint": no room; ack 8: a1 b1 a2 b2`},
	{"S04: an upstream task has declined", func(j *joint) {
		j.send(a, "a1 |7 a2")
		j.send(b, "b1 x7 b2 |8")
		j.send(a, "|8")
	}, "a1 b1 x7 a2 b2 |8", "ack 8: a1 b1 a2 b2"},
	{"S05: one input has ended before the barrier", func(j *joint) {
		j.send(a, "a1 .")
		j.send(b, "b1 |3 b2")
		j.send(a, "|3")
		j.send(b, ".")
		j.send(a, "|4")
		j.send(b, "|4")
	}, "a1 b1 |3 b2 . |4", "ack 3: a1 b1; ended; ack 4: a1 b1 b2"},
	{"S05: one input ends while the other waits at the barrier", func(j *joint) {
		j.send(b, "b1 |3 b2")
		j.send(a, "a1 . |3")
	}, "b1 a1 |3 b2", "ack 3: b1 a1"},
	{"S07: an older snapshot after a newer one", func(j *joint) {
		j.send(a, "a1 |2 |1 a2")
		j.send(b, "|2 b1 |1 |3")
		j.send(a, "|3")
	}, "a1 |2 a2 b1 |3", "ack 2: a1; ack 3: a1 a2 b1"},
	{"an abort after the snapshot was taken", func(j *joint) {
		j.send(a, "a1 |2")
		j.send(b, "|2")
		j.Abort(2)
		j.send(a, "a2")
	}, "a1 |2 a2", "ack 2: a1"},
}

// TestMeasuresOfASubtask looks at what a subtask says of its part: when the first
// barrier came, how long that waited for the other, and how much was written.
func TestMeasuresOfASubtask(t *testing.T) {
	for seed := range uint64(20) {
		j := newJoint(seed)
		at := func(d time.Duration, input int, script string) {
			j.now = time.Unix(1000, 0).Add(d)
			j.send(input, script)
		}
		at(10*time.Millisecond, a, "a1 |1@1000 a2")
		at(15*time.Millisecond, b, "b1 |1@1000 |2@1000")
		at(35*time.Millisecond, a, "|2@1000")
		want := []snapshot.Measures{
			{StartDelay: 10 * time.Millisecond, Alignment: 5 * time.Millisecond, State: 2 * 3, Written: 2 * 3},
			{StartDelay: 15 * time.Millisecond, Alignment: 20 * time.Millisecond, State: 3 * 3, Written: 3 * 3},
		}
		if !slices.Equal(j.measured, want) {
			t.Errorf("seed %d: %+v, want %+v", seed, j.measured, want)
		}
	}
}

func TestStoriesOfTwoInputs(t *testing.T) {
	for _, story := range stories {
		for seed := range uint64(20) {
			j := newJoint(seed)
			j.settle()
			story.tell(j)
			j.settle()
			// Between barriers the order of two channels is nobody's promise.
			if got := j.emitted(); canonical(got) != canonical(story.emitted) {
				t.Errorf("%s, seed %d: emitted %s, want %s", story.name, seed, got, story.emitted)
			}
			if got := strings.Join(j.said, "; "); canonical(got) != canonical(story.said) {
				t.Errorf("%s, seed %d: said %s, want %s", story.name, seed, got, story.said)
			}
			j.Stop()
			j.settle()
			if last := j.said[len(j.said)-1]; last != "stopped" || len(j.loops) > 0 {
				t.Errorf("%s, seed %d: %s, %d loops", story.name, seed, last, len(j.loops))
			}
		}
	}
}

// canonical puts the records between two markers, which come in no particular
// order, into one.
func canonical(script string) string {
	words := strings.Fields(strings.ReplaceAll(script, ";", " ;"))
	record := func(w string) bool { return len(w) == 2 && strings.ContainsAny(w[:1], "ab") }
	for from := 0; from < len(words); from++ {
		to := from
		for to < len(words) && record(words[to]) {
			to++
		}
		slices.Sort(words[from:to])
		from = max(from, to-1)
	}
	return strings.Join(words, " ")
}
