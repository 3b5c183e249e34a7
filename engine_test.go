package weir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/record"
)

// The tests in engine_*_test.go run whole jobs in this process, as a service
// would, and follow them by what the jobs' own functions say.

// A board is where the functions of a job say what happens, and where the test
// waits for it.
type board struct {
	mu      sync.Mutex // guards what is below
	said    map[string]int
	changed chan struct{} // closed by the next word
}

func newBoard() *board { return &board{said: map[string]int{}, changed: make(chan struct{})} }

func (b *board) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said[fmt.Sprintf(format, args...)]++
	close(b.changed)
	b.changed = make(chan struct{})
}

// heard returns how often something has been said, and what the next word closes.
func (b *board) heard(what string) (times int, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said[what], b.changed
}

// times is how often something has been said.
func (b *board) times(what string) int {
	n, _ := b.heard(what)
	return n
}

// all returns what has been said that begins with a prefix, without it, once for
// each time, in order.
func (b *board) all(prefix string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for what, n := range b.said {
		if rest, ok := strings.CutPrefix(what, prefix); ok {
			all = append(all, slices.Repeat([]string{rest}, n)...)
		}
	}
	slices.Sort(all)
	return all
}

// log has an environment's log said, too.
func (b *board) log(env *environment) {
	env.log = slog.New(saying{env.log.Handler(), b})
}

// saying is a log whose messages are said on a board.
type saying struct {
	slog.Handler
	*board
}

func (s saying) Handle(ctx context.Context, r slog.Record) error {
	err := s.Handler.Handle(ctx, r)
	s.say("log: %s", r.Message)
	return err
}

func (s saying) WithAttrs(a []slog.Attr) slog.Handler { return saying{s.Handler.WithAttrs(a), s.board} }

// whileWaiting is how long anything may take that should happen at once.
const whileWaiting = time.Minute

// await waits until something has been said so often.
func (b *board) await(t *testing.T, times int, what string) {
	t.Helper()
	late := time.After(whileWaiting)
	for {
		n, changed := b.heard(what)
		if n >= times {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("waited in vain for %q (%d times, not %d)\n%s", what, n, times, stacks())
		}
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

// soon fails the test if f takes too long.
func soon[T any](t *testing.T, what string, f func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case v := <-done:
		return v
	case <-time.After(whileWaiting):
		t.Fatalf("%s doesn't come\n%s", what, stacks())
		panic("unreachable")
	}
}

// wait returns how a job has ended.
func wait(t *testing.T, r *Running) error {
	t.Helper()
	return soon(t, "the end of the job", r.Wait)
}

// wants fails the test unless err says all texts.
func wants(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q doesn't say %q", err, text)
		}
	}
}

// must stops the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A journal keeps the engine's log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// launch starts a job as Start does, with a log of its own and, perhaps, another
// environment. Its channels are carried in the way that the test's name says.
func launch(t *testing.T, ctx context.Context, build func(*Job) error, change ...func(*environment)) (*Running, *journal) {
	t.Helper()
	p, err := prepare(build, config.Layer{}, config.Layer{})
	if err != nil {
		t.Fatal(err)
	}
	log := &journal{}
	env := production(slog.New(slog.NewTextHandler(log, nil)))
	if way, ok := ways[wayOf(t)]; ok {
		way(&env)
	}
	for _, f := range change {
		f(&env)
	}
	r, err := p.start(ctx, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Cancel(context.Background())
		if t.Failed() {
			t.Log(log)
		}
	})
	return r, log
}

// numbers is a source of the numbers in stretches, each of which a split, as far
// as the test lets them come.
type numbers struct {
	*board
	uid       string
	stretches []interval
	endless   bool
	fault     *fault

	mu    sync.Mutex // guards what is below
	limit int
	more  chan struct{} // closed when the limit rises
}

// interval is the numbers from Next to End, without End.
type interval struct{ Next, End int }

// far is the end of an interval that has none.
const far = 1 << 40

// count is a source of the numbers from 0 to end; none of them may come yet.
func count(b *board, uid string, end int) *numbers {
	return &numbers{board: b, uid: uid, stretches: []interval{{0, end}}, endless: end == far, more: make(chan struct{})}
}

// let lets the numbers below limit come.
func (s *numbers) let(limit int) *numbers {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
	close(s.more)
	s.more = make(chan struct{})
	return s
}

func (s *numbers) Bounded() bool { return !s.endless }

func (s *numbers) Enumerate(_ context.Context, e connector.Enumeration[interval]) error {
	s.say("%s enumerates", s.uid)
	if err := s.fault.strike("enumerate"); err != nil {
		return err
	}
	e.Assign(s.stretches...)
	return nil
}

func (s *numbers) Open(context.Context, connector.Reading) (connector.Reader[int, interval], error) {
	return s, s.fault.strike("open reader")
}

func (s *numbers) Read(ctx context.Context, at *interval, into *record.Batch[int]) error {
	for {
		s.mu.Lock()
		limit, more := s.limit, s.more
		s.mu.Unlock()
		if at.Next == at.End {
			return io.EOF
		}
		if at.Next < limit {
			break
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if at.Next >= soFar {
		if err := s.fault.strike("read"); err != nil {
			return err
		}
	}
	s.say("%s reads %d", s.uid, at.Next)
	into.Add(at.Next)
	at.Next++
	return nil
}

func (s *numbers) Close() error { return s.fault.strike("close reader") }

// A fault strikes once, at its point, with an error or a panic.
type fault struct {
	point  string
	panics bool
	struck atomic.Bool
}

var errStruck = errors.New("struck")

func (f *fault) strike(point string) error {
	if f == nil || f.point != point || f.struck.Swap(true) {
		return nil
	}
	if f.panics {
		panic(errStruck)
	}
	return errStruck
}

// ledger is a sink that says each record when it is committed, once.
type ledger[T any] struct {
	connector.ExactlyOnce
	*board
	uid   string
	fault *fault

	mu   sync.Mutex      // guards done
	done map[string]bool // pages that are committed
}

func newLedger[T any](b *board, uid string) *ledger[T] {
	return &ledger[T]{board: b, uid: uid, done: map[string]bool{}}
}

// page is what one subtask has written before one checkpoint.
type page[T any] struct {
	ID      string
	Records []T
}

func (l *ledger[T]) Open(_ context.Context, w connector.Writing) (connector.Writer[T, page[T]], error) {
	return &scribe[T]{ledger: l, id: fmt.Sprintf("%s-%d", w.Attempt(), w.Subtask())}, l.fault.strike("open writer")
}

func (l *ledger[T]) OpenCommitter(context.Context, connector.Commitment) (connector.Committer[page[T]], error) {
	l.say("%s opens", l.uid)
	return l, l.fault.strike("open committer")
}

func (l *ledger[T]) Recover(ctx context.Context, pending []connector.Committable[page[T]]) error {
	if err := l.fault.strike("recover"); err != nil {
		return err
	}
	return l.enter(pending)
}

func (l *ledger[T]) Commit(_ context.Context, due []connector.Committable[page[T]]) error {
	if err := l.fault.strike("commit"); err != nil {
		return err
	}
	return l.enter(due)
}

func (l *ledger[T]) enter(due []connector.Committable[page[T]]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range due {
		if l.done[d.Value.ID] {
			continue
		}
		l.done[d.Value.ID] = true
		for _, v := range d.Value.Records {
			l.say("%s: %v", l.uid, v)
		}
	}
	l.say("%s commits", l.uid)
	return nil
}

func (l *ledger[T]) Close() error {
	l.say("%s closes", l.uid)
	return l.fault.strike("close committer")
}

type scribe[T any] struct {
	*ledger[T]
	id      string
	pages   int
	records []T
}

func (s *scribe[T]) Write(_ context.Context, b *record.Batch[T]) error {
	for _, v := range b.Values {
		s.say("%s takes %v", s.uid, v)
	}
	s.records = append(s.records, b.Values...)
	return s.fault.strike("write")
}

func (s *scribe[T]) Prepare(context.Context) ([]page[T], error) {
	if err := s.fault.strike("prepare"); err != nil {
		return nil, err
	}
	s.say("%s prepares", s.uid)
	if len(s.records) == 0 {
		return nil, nil
	}
	s.pages++
	p := page[T]{fmt.Sprintf("%s-%d", s.id, s.pages), s.records}
	s.records = nil
	return []page[T]{p}, nil
}

func (s *scribe[T]) Close() error { return s.fault.strike("close writer") }

// lines returns the lines of all final files in a directory, in order.
func lines(t *testing.T, dir string) (all []string) {
	t.Helper()
	for _, e := range must(os.ReadDir(dir))(t) {
		if strings.HasPrefix(e.Name(), "part-") {
			text := must(os.ReadFile(filepath.Join(dir, e.Name())))(t)
			all = append(all, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
		}
	}
	slices.Sort(all)
	return all
}

// same fails the test unless got and want hold the same, whatever the order.
func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	text := func(all []T) (lines []string) {
		for _, v := range all {
			lines = append(lines, fmt.Sprint(v))
		}
		slices.Sort(lines)
		return lines
	}
	if g, w := text(got), text(want); !slices.Equal(g, w) {
		t.Errorf("%s: %d of %d are %q\nwant %q", what, len(g), len(w), g, w)
	}
}

// upTo is the numbers below n as the ledger says them.
func upTo(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// printed is a file sink of lines.
func printed[T any](dir string) file.Sink[T] {
	return file.Sink[T]{Dir: dir, Format: func(dst []byte, v T) []byte { return fmt.Appendln(dst, v) }}
}

// soFar is where faults strike that are to come behind a checkpoint.
const soFar = 50
