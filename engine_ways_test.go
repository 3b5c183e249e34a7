package weir

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ways are how channels between subtasks may be carried.
var ways = map[string]func(*environment){
	"direct":  func(*environment) {},
	"encoded": func(env *environment) { env.encode = true },
	"pipe":    func(env *environment) { env.connect = net.Pipe },
	"tcp":     func(env *environment) { env.connect = loopback },
}

// wayOf is the way that a subtest of TestEngineOverEveryKindOfChannel is named
// after.
func wayOf(t *testing.T) string {
	way, found := strings.CutPrefix(t.Name(), "TestEngineOverEveryKindOfChannel/")
	if !found {
		return ""
	}
	way, _, _ = strings.Cut(way, "/")
	return way
}

// inItsWay is a test, or one of its parts, that runs in a bubble of its own where its
// way is a pipe: its clock is synctest's, and whoever is left behind is found.
func inItsWay(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		if wayOf(t) == "pipe" {
			synctest.Test(t, test)
		} else {
			test(t)
		}
	}
}

// parallel is t.Parallel, which there is none of in a bubble.
func parallel(t *testing.T) {
	if wayOf(t) != "pipe" {
		t.Parallel()
	}
}

// loopback makes a connection through the machine's own network.
func loopback() (writer, reader net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	if writer, err = net.Dial("tcp", l.Addr().String()); err != nil {
		panic(err)
	}
	if reader, err = l.Accept(); err != nil {
		panic(err)
	}
	return writer, reader
}

// TestEngineOverEveryKindOfChannel runs tests of whole jobs with channels that
// write and read bytes: in line, through pipes on synctest's clock, and through the
// machine's own network.
func TestEngineOverEveryKindOfChannel(t *testing.T) {
	if testing.Short() {
		t.Skip("the same tests, with direct channels, are run by themselves")
	}
	for _, way := range []string{"encoded", "pipe", "tcp"} {
		t.Run(way, func(t *testing.T) {
			for name, test := range map[string]func(*testing.T){
				"bounded":            TestBoundedJobDoesNotWaitForTheInterval,
				"end of a source":    TestCheckpointsGoOnBehindTheEndOfASource,
				"ended subtask":      TestStateOfAnEndedSubtaskIsKept,
				"last commit":        TestLastCommitFails,
				"final checkpoint":   TestFinalCheckpointIsTriedAgainAtOnce,
				"no checkpoints":     TestWithoutCheckpointsABoundedJobCommitsAtItsEnd,
				"in memory":          TestCheckpointsInMemory,
				"suspended":          TestEndOfTheContextSuspends,
				"given up":           TestCancelGivesUpWithItsContext,
				"damaged checkpoint": TestDamagedCheckpointGivesWayToTheOneBefore,
				"rescaling":          TestRescaling,
				"savepoint":          TestSavepoint,
				"barriers":           TestRecordBehindTheBarrierIsNotInTheSnapshot,
				"views":              TestRecordsGoWhereViewsSayInOrder,
				"sides":              TestSideOutputsOfAUnionAreOne,
			} {
				t.Run(name, inItsWay(test))
			}
			t.Run("faults", TestFaultInAnyFunctionRestartsTheJob)
			t.Run("ends", TestEndsFollowTheRetentionPolicy)
			t.Run("torn metadata", TestIncompleteMetadataIsNeverChosen)
		})
	}
}

// TestJobOutlivesABrokenConnection breaks a connection between two subtasks behind
// a checkpoint: one attempt fails, by an error that names them, and the job goes on.
func TestJobOutlivesABrokenConnection(t *testing.T) {
	t.Parallel()
	for _, side := range []int{0, 1} {
		b := newBoard()
		in, out := count(b, "in", 2*soFar).let(soFar), newLedger[string](b, "out")
		var first atomic.Pointer[[2]net.Conn]
		r, _ := launch(t, t.Context(), passing(in, out, func(job *Job) { job.Parallelism = 2 }), func(env *environment) {
			env.connect = func() (writer, reader net.Conn) {
				writer, reader = loopback()
				first.CompareAndSwap(nil, &[2]net.Conn{writer, reader})
				return writer, reader
			}
		})
		b.await(t, 1, "out: "+countedUpTo(soFar)[soFar-1])
		first.Load()[side].Close()
		b.await(t, 2, "out opens") // the next attempt
		in.let(2 * soFar)
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		same(t, "output", b.all("out: "), countedUpTo(2*soFar))
		failures := r.Failures() // one at each end, unless the other has been stopped before it noticed
		if n := b.times("in reads 0"); n != 1 || len(failures) == 0 || failures[len(failures)-1].Attempt != 1 {
			t.Fatalf("the first record was read %d times, failures: %v", n, failures)
		}
		wants(t, failures[0].Err, "channel from Source: in (", " to count -> Sink: out (", "connection")
	}
}

// brittle is a record with an encoding of its own, which panics once.
type brittle string

var brittleBreaks atomic.Pointer[string] // where: "Marshal" or "Unmarshal"

func (v brittle) MarshalBinary() ([]byte, error) {
	v.passes("Marshal")
	return []byte(v), nil
}

func (v *brittle) UnmarshalBinary(b []byte) error {
	*v = brittle(b)
	v.passes("Unmarshal")
	return nil
}

func (v brittle) passes(where string) {
	if at := brittleBreaks.Load(); v == "7" && *at == where && brittleBreaks.CompareAndSwap(at, new("")) {
		panic("it broke")
	}
}

// A panic in an encoding that a record brings along restarts the job, and the stack is
// known, whichever goroutine it was in.
func TestPanicInARecordsEncodingRestartsTheJob(t *testing.T) {
	for _, way := range []string{"encoded", "tcp"} {
		for _, where := range []string{"Marshal", "Unmarshal"} {
			brittleBreaks.Store(&where)
			var got []brittle
			r, _ := launch(t, t.Context(), func(job *Job) error {
				job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1, Delay: time.Millisecond}
				texts := Map(FromSlice(job, "in", upToInt(20), Parallelism(1)), "text", func(n int) brittle { return brittle(fmt.Sprint(n)) })
				Operate(Rebalance(texts), "out", func(*Out[int]) Handler[brittle] {
					got = nil
					return Handler[brittle]{Record: func(v brittle) error { got = append(got, v); return nil }}
				}, Parallelism(1), StartChain())
				return nil
			}, ways[way])
			if err := wait(t, r); err != nil {
				t.Fatal(way, where, err)
			}
			if len(got) != 20 || *brittleBreaks.Load() != "" {
				t.Errorf("%s, %s: %q", way, where, got)
			}
			failures := r.Failures()
			if len(failures) == 0 {
				t.Fatalf("%s, %s: no failure", way, where)
			}
			if f := failures[0]; strings.Contains(f.Err.Error(), "connection: unexpected EOF") && way == "tcp" && where == "Unmarshal" {
				continue // the other end has noticed first
			} else if !strings.Contains(f.Stack, "brittle") || !strings.Contains(f.Err.Error(), "panic: it broke") {
				t.Errorf("%s, %s: %v, with the stack %q", way, where, f.Err, f.Stack)
			}
		}
	}
}
