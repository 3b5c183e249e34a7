package enumerate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/snapshot"
)

// number is a codec for the splits of these tests.
type number struct{}

func (number) Append(dst []byte, v *uint64) []byte { return binary.AppendUvarint(dst, *v) }
func (number) Schema() codec.Schema                { return codec.Schema{Codec: "test", Type: "number"} }
func (number) Decode(src []byte, v *uint64) (int, error) {
	n := 0
	*v, n = binary.Uvarint(src)
	return n, nil
}

// source enumerates as its function says.
type source func(ctx context.Context, e connector.Enumeration[uint64]) error

func (s source) Enumerate(ctx context.Context, e connector.Enumeration[uint64]) error {
	return s(ctx, e)
}

func (source) Open(context.Context, connector.Reading) (connector.Reader[int, uint64], error) {
	return nil, errors.New("not used")
}

func (source) Bounded() bool { return true }

// endless is a source whose splits never end.
type endless struct{ source }

func (endless) Bounded() bool { return false }

// inline runs work at once.
type inline struct{ executor.Executor }

func (inline) Go(_ string, work func()) { work() }

// start runs a source's whole enumeration at once and says how it went.
func start(s source, parallelism int, restored *snapshot.Enumerator) (e *Enumerator, failure *string) {
	failure = new(string)
	e = New[int](s, number{}).Start(Setting{
		Executor: inline{}, Parallelism: parallelism, Restored: restored, Log: slog.New(slog.DiscardHandler),
		Changed: func() {}, Stopped: func() {},
		Failed: func(err error, stack string) { *failure = err.Error() + stack },
	})
	return e, failure
}

func splits(numbers ...uint64) (all [][]byte) {
	for _, n := range numbers {
		all = append(all, number{}.Append(nil, &n))
	}
	return all
}

func show(a Answer, ok bool) string {
	switch {
	case !ok:
		return "waits"
	case a.NoMore:
		return fmt.Sprintf("no more for %d.%d", a.Subtask, a.Request)
	}
	return fmt.Sprintf("%v for %d.%d after %d", a.Splits[0], a.Subtask, a.Request, a.After)
}

func TestSplitsAreHandedOutInTheOrderFound(t *testing.T) {
	e, _ := start(func(_ context.Context, e connector.Enumeration[uint64]) error {
		e.Assign(1, 2)
		e.Save([]byte("two"))
		e.Assign(3)
		return nil
	}, 2, nil)
	for i, want := range []string{"[1] for 0.1 after 0", "[2] for 0.2 after 0", "[3] for 0.3 after 0", "no more for 0.4"} {
		if got := show(e.Request(0, uint64(i+1))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := show(e.Request(1, 1)); got != "no more for 1.1" {
		t.Error(got)
	}
}

// Who asks first doesn't get what others would have to keep reading for ever.
func TestSplitsThatNeverEndAreSharedEvenly(t *testing.T) {
	more := make(chan struct{})
	s := endless{func(_ context.Context, e connector.Enumeration[uint64]) error {
		e.Assign(1, 2, 3, 4, 5)
		e.Save(nil)
		<-more
		e.Assign(6, 7)
		return nil
	}}
	changed := make(chan struct{}, 2)
	e := New(s, number{}).Start(Setting{
		Executor: executor.Real{}, Parallelism: 3, Log: slog.New(slog.DiscardHandler), Changed: func() { changed <- struct{}{} },
	})
	<-changed
	for i, want := range []string{"[1] for 0.1 after 0", "[2] for 0.2 after 0", "waits"} {
		if got := show(e.Request(0, uint64(i+1))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := show(e.Request(1, 1)); got != "[3] for 1.1 after 0" {
		t.Error(got)
	}
	close(more)
	<-changed
	if due := e.Due(); len(due) != 1 || show(due[0], true) != "[4] for 0.3 after 0" {
		t.Errorf("due: %v", due)
	}
	if got := show(e.Request(0, 4)); got != "no more for 0.4" {
		t.Error(got)
	}
	for i, want := range []string{"[5] for 2.1 after 0", "[6] for 2.2 after 0", "[7] for 2.3 after 0", "no more for 2.4"} {
		if got := show(e.Request(2, uint64(i+1))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestRepeatedRequestGetsTheSameAnswer(t *testing.T) {
	e, _ := start(func(_ context.Context, e connector.Enumeration[uint64]) error {
		e.Assign(1, 2)
		return nil
	}, 1, nil)
	first := show(e.Request(0, 1))
	e.Snapshot(7)
	if again := show(e.Request(0, 1)); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if got := show(e.Request(0, 2)); got != "[2] for 0.2 after 7" {
		t.Error(got)
	}
	if got := show(e.Request(0, 1)); got != "waits" {
		t.Errorf("a request from long ago: %s", got)
	}
	if got := show(e.Request(0, 9)); got != "waits" {
		t.Errorf("a request that can't be: %s", got)
	}
}

func TestNothingStagedIsHandedOutOrSaved(t *testing.T) {
	e, failure := start(func(_ context.Context, e connector.Enumeration[uint64]) error {
		e.Assign(1)
		e.Save([]byte("one"))
		e.Assign(2)
		return errors.New("directory gone")
	}, 1, nil)
	if *failure != "directory gone" {
		t.Error(*failure)
	}
	part, _ := e.Snapshot(1)
	if string(part.Position) != "one" || len(part.Splits) != 1 || part.Done {
		t.Errorf("%+v", part)
	}
}

func TestWaitingRequestsAreAnsweredInTheirOrder(t *testing.T) {
	step, stepped := make(chan bool), make(chan bool)
	changed := 0
	e := New[int](source(func(_ context.Context, e connector.Enumeration[uint64]) error {
		for range step {
			e.Assign(1)
			e.Save(nil)
			stepped <- true
		}
		return nil
	}), number{}).Start(Setting{
		Executor: executor.Real{}, Parallelism: 3, Log: slog.New(slog.DiscardHandler),
		Changed: func() { changed++ }, Stopped: func() { close(stepped) }, Failed: func(error, string) {},
	})
	for _, subtask := range []int{2, 0, 2} {
		if got := show(e.Request(subtask, 1)); got != "waits" {
			t.Error(got)
		}
	}
	for _, want := range []string{"[1] for 2.1 after 0", "[1] for 0.1 after 0"} {
		step <- true
		<-stepped
		if due := e.Due(); len(due) != 1 || show(due[0], true) != want {
			t.Errorf("%v, want %s", due, want)
		}
	}
	// A waiting request that is repeated in time isn't answered once more.
	e.Request(1, 1)
	step <- true
	<-stepped
	step <- true
	<-stepped
	if got := show(e.Request(1, 1)); got != "[1] for 1.1 after 0" {
		t.Error(got)
	}
	if due := e.Due(); len(due) > 0 {
		t.Errorf("%v", due)
	}
	if changed != 4 {
		t.Errorf("changed %d times", changed)
	}
	e.Stop()
	close(step)
	<-stepped // closed by Stopped, which comes when the goroutine has ended
}

func TestPanicOfAnEnumeratorFailsTheAttempt(t *testing.T) {
	_, failure := start(func(context.Context, connector.Enumeration[uint64]) error { panic("oh") }, 1, nil)
	if !strings.HasPrefix(*failure, "panic: oh") || !strings.Contains(*failure, "enumerate_test.go") {
		t.Error(*failure)
	}
	_, failure = start(func(_ context.Context, e connector.Enumeration[uint64]) error {
		e.Done()
		e.Assign(1)
		return nil
	}, 1, nil)
	if !strings.HasPrefix(*failure, "panic: Assign after Done") {
		t.Error(*failure)
	}
	_, failure = start(func(_ context.Context, e connector.Enumeration[uint64]) error {
		e.Done()
		e.SetBacklog(true)
		return nil
	}, 1, nil)
	if !strings.HasPrefix(*failure, "panic: SetBacklog after Done") {
		t.Error(*failure)
	}
}

func TestEnumeratorThatWasDoneIsNotCalledAgain(t *testing.T) {
	e, failure := start(func(context.Context, connector.Enumeration[uint64]) error {
		return errors.New("called")
	}, 1, &snapshot.Enumerator{Done: true, Splits: splits(5)})
	if *failure != "" {
		t.Error(*failure)
	}
	if got := show(e.Request(0, 1)) + ", " + show(e.Request(0, 2)); got != "[5] for 0.1 after 0, no more for 0.2" {
		t.Error(got)
	}
}

func TestRestoredEnumeratorGoesOnFromItsPosition(t *testing.T) {
	var from string
	e, _ := start(func(_ context.Context, e connector.Enumeration[uint64]) error {
		from = string(e.Position())
		e.Assign(9)
		return nil
	}, 1, &snapshot.Enumerator{Position: []byte("eight"), Splits: splits(7, 8)})
	if got, _ := e.Snapshot(1); from != "eight" || !slices.EqualFunc(got.Splits, splits(7, 8, 9), slices.Equal) || !got.Done {
		t.Errorf("from %q: %+v", from, got)
	}
}

// S116: 20 restored splits whose readers come late are in every snapshot until
// they are handed out, and are all read.
func TestSplitsWaitForLateReaders(t *testing.T) {
	var numbers []uint64
	for n := range uint64(20) {
		numbers = append(numbers, n)
	}
	e, _ := start(nil, 2, &snapshot.Enumerator{Done: true, Splits: splits(numbers...)})
	var read []uint64
	for n := range uint64(20) {
		if part, _ := e.Snapshot(n + 1); len(part.Splits)+len(read) != 20 {
			t.Fatalf("%d splits in the snapshot, %d read", len(part.Splits), len(read))
		}
		a, ok := e.Request(int(n%2), n/2+1)
		if !ok || a.NoMore {
			t.Fatal(show(a, ok))
		}
		read = append(read, uint64(a.Splits[0][0]))
	}
	slices.Sort(read)
	if !slices.Equal(read, numbers) {
		t.Error(read)
	}
}

// TestBacklogEndsWithTheEnumeration lets a source say that it is behind, that it
// isn't, and that it is, and be done.
func TestBacklogEndsWithTheEnumeration(t *testing.T) {
	var e *Enumerator
	var behind []bool
	next := make(chan struct{})
	changed := make(chan struct{})
	e = New[int](source(func(_ context.Context, e connector.Enumeration[uint64]) error {
		for _, is := range []bool{true, false, true} {
			e.SetBacklog(is)
			<-next
		}
		return nil
	}), number{}).Start(Setting{
		Executor: executor.Real{}, Parallelism: 1, Log: slog.New(slog.DiscardHandler), Changed: func() { changed <- struct{}{} },
	})
	for range 3 {
		<-changed
		behind = append(behind, e.Behind())
		next <- struct{}{}
	}
	<-changed
	if behind = append(behind, e.Behind()); !slices.Equal(behind, []bool{true, false, true, false}) {
		t.Error(behind)
	}
}
