package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/record"
)

// situation stands in for the engine: it is a Reading, an Enumeration, a Writing
// and a Commitment.
type situation struct {
	subtask, parallelism int
	job, attempt         string
	restoredJob          string
	restored             uint64
	log                  bytes.Buffer
	splits               []Split
	done                 bool
	position             []byte
	saved                []saved
}

// saved is a position, and how many splits had been found before it.
type saved struct {
	position string
	splits   int
}

func (s *situation) Subtask() int               { return s.subtask }
func (s *situation) Parallelism() int           { return max(s.parallelism, 1) }
func (s *situation) JobID() string              { return s.job }
func (s *situation) Attempt() string            { return s.attempt }
func (s *situation) RestoredJobID() string      { return s.restoredJob }
func (s *situation) RestoredCheckpoint() uint64 { return s.restored }
func (s *situation) Log() *slog.Logger          { return slog.New(slog.NewTextHandler(&s.log, nil)) }
func (s *situation) Position() []byte           { return s.position }
func (s *situation) Assign(splits ...Split)     { s.splits = append(s.splits, splits...) }
func (s *situation) Save(p []byte)              { s.saved = append(s.saved, saved{string(p), len(s.splits)}) }
func (s *situation) SetBacklog(bool)            {}
func (s *situation) Done()                      { s.done = true }

func enumerate(t testing.TB, s Source) []Split {
	t.Helper()
	var e situation
	if err := s.Enumerate(context.Background(), &e); err != nil {
		t.Fatal(err)
	}
	if !e.done {
		t.Fatal("the enumerator isn't done")
	}
	return e.splits
}

func open(t testing.TB, s Source) connector.Reader[string, Split] {
	t.Helper()
	r, err := s.Open(context.Background(), &situation{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// drain reads a split to its end, room lines at a time.
func drain(t testing.TB, r connector.Reader[string, Split], at Split, room int) (lines []string) {
	t.Helper()
	for {
		b := record.Batch[string]{Values: make([]string, 0, room)}
		err := r.Read(context.Background(), &at, &b)
		lines = append(lines, b.Values...)
		if err == io.EOF {
			return lines
		}
		if err != nil || b.Len() == 0 {
			t.Fatalf("read %+v: %d lines, %v", at, b.Len(), err)
		}
	}
}

// in returns a source of files in memory.
func in(t testing.TB, files map[string]string) (Source, *filesystem.Memory) {
	t.Helper()
	m := filesystem.NewMemory()
	for name, text := range files {
		put(t, m, name, text)
	}
	return Source{Path: "memory:///in", FileSystems: filesystem.Set{"memory": m}}, m
}

func put(t testing.TB, m filesystem.FileSystem, name, text string) {
	t.Helper()
	w, err := m.Create(name)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = errors.Join(w.Sync(), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// scan is what the standard library takes for lines.
func scan(text string) (lines []string) {
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, len(text)+1)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	return lines
}

func randomText(r *rand.Rand, size int) string {
	pieces := []string{"\n", "\n", "\r\n", "\r", "a", "word ", "\xff\xfe", "ä", "\x00", "日本"}
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

func TestEverySplitSizeGivesTheLinesOfAScanner(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"", "\n", "a", "a\n", "\r\n", "\r", "\n\n", "one line without an end", "a\nb", "a\r\n\r\nb\r"}
	for range 40 {
		texts = append(texts, randomText(r, r.IntN(120)))
	}
	for _, text := range texts {
		src, _ := in(t, map[string]string{"/in/text": text})
		want := scan(text)
		for size := range len(text) + 2 {
			src.SplitBytes = int64(size + 1)
			var got []string
			reader := open(t, src)
			for _, s := range enumerate(t, src) {
				got = append(got, drain(t, reader, s, 1+r.IntN(4))...)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("split size %d of %q: got %q, want %q", size+1, text, got, want)
			}
		}
	}
}

// Every position that a Read leaves is one from which another reader goes on
// with the next line.
func TestAReaderGoesOnFromEveryPosition(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		text := randomText(r, 200)
		src, _ := in(t, map[string]string{"/in/text": text})
		src.SplitBytes = 1 + r.Int64N(250)
		var got []string
		for _, at := range enumerate(t, src) {
			for err := error(nil); err != io.EOF; {
				before, b := at, record.Batch[string]{Values: make([]string, 0, 1)}
				if err = open(t, src).Read(context.Background(), &at, &b); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				got = append(got, b.Values...)
				if rest := drain(t, open(t, src), before, 10); len(rest) > 0 && rest[0] != b.Values[0] {
					t.Fatalf("%+v gave %q, then %q", before, b.Values[0], rest[0])
				}
			}
		}
		if want := scan(text); !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestLinesOfAnyLength(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var text strings.Builder
	for _, n := range []int{0, 1, block - 1, block, block + 1, 2 * block, 3, 20 << 20, 5, block / 2, block / 2, 1 << 20, 0, 7} {
		text.WriteString(strings.Repeat(string(rune('a'+r.IntN(26))), n) + "\n")
	}
	want := scan(text.String())
	src, _ := in(t, map[string]string{"/in/text": text.String()})
	for _, size := range []int64{64 << 20, 1 << 20, 100_000} {
		src.SplitBytes = size
		var got []string
		reader := open(t, src)
		for _, s := range enumerate(t, src) {
			got = append(got, drain(t, reader, s, 3)...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("splits of %d bytes: the lines differ", size)
		}
	}
}

func TestALineAboveTheLimitIsNamed(t *testing.T) {
	for _, text := range []string{"short\n" + strings.Repeat("x", 11) + "\n", "short\n" + strings.Repeat("x", 3*block)} {
		src, _ := in(t, map[string]string{"/in/text": text})
		src.LineBytes = 10
		at, b := enumerate(t, src)[0], record.Batch[string]{Values: make([]string, 0, 10)}
		err := open(t, src).Read(context.Background(), &at, &b)
		if want := `read "/in/text" at byte 6: the line is longer than 10 bytes`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if b.Len() != 1 || at.Next != 6 {
			t.Errorf("got %d lines and position %d, want the one before", b.Len(), at.Next)
		}
	}
}

func TestAFileThatHasChangedSinceTheCheckpointIsNamed(t *testing.T) {
	cases := map[string]struct {
		now  string
		want string
	}{
		"vanished":  {"", `open "/in/text" at byte 4: `},
		"shrunk":    {"one\ntwo\n", `open "/in/text" at byte 4: the file has shrunk from 14 to 8 bytes since it was listed`},
		"rewritten": {"another text, longer", `no line begins there any more`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			src, m := in(t, map[string]string{"/in/text": "one\ntwo\nthree\n"})
			at, b := enumerate(t, src)[0], record.Batch[string]{Values: make([]string, 0, 1)}
			if err := open(t, src).Read(context.Background(), &at, &b); err != nil {
				t.Fatal(err)
			}
			if err := m.Remove("/in/text"); err != nil {
				t.Fatal(err)
			}
			if c.now != "" {
				put(t, m, "/in/text", c.now)
			}
			err := open(t, src).Read(context.Background(), &at, &b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if gone := errors.Is(err, fs.ErrNotExist); gone != (c.now == "") {
				t.Errorf("%v: not existing is %v", err, gone)
			}
		})
	}
}

// An end of the file that comes too early isn't taken for the end of the split.
func TestAFileThatShrinksWhileItIsReadIsAnError(t *testing.T) {
	src, m := in(t, map[string]string{"/in/text": strings.Repeat("line\n", block)})
	at := enumerate(t, src)[0]
	r := newReader(short{m}, 0)
	b := record.Batch[string]{Values: make([]string, 0, 2*block)}
	if err := r.Read(context.Background(), &at, &b); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

// short claims a size and holds less.
type short struct{ filesystem.FileSystem }

func (s short) Open(path string) (filesystem.Reader, error) {
	r, err := s.FileSystem.Open(path)
	return shortReader{r}, err
}

type shortReader struct{ filesystem.Reader }

func (r shortReader) ReadAt(p []byte, off int64) (int, error) {
	return io.NewSectionReader(r.Reader, 0, 100_000).ReadAt(p, off)
}

func TestWhatIsAppendedLaterIsNotRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "one\ntw")
	src := Lines(dir)
	splits := enumerate(t, src)
	write(t, filepath.Join(dir, "a"), "one\ntwo\nthree\n")
	write(t, filepath.Join(dir, "b"), "new\n")
	if got := drain(t, open(t, src), splits[0], 9); len(splits) != 1 || !slices.Equal(got, []string{"one", "tw"}) {
		t.Errorf("got %q from %d splits", got, len(splits))
	}
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// A restored enumerator finds what the one before hadn't found when it saved its
// position, and nothing else: also where the file that it had come to is gone.
func TestAListingGoesOnFromEveryPosition(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		src, m := in(t, nil)
		for range 1 + r.IntN(60) {
			name := "/in"
			for range 1 + r.IntN(3) {
				name += "/" + []string{"a", "a-b", "a.b", "ab", "b", "ä", "B", "a a"}[r.IntN(8)]
			}
			if w, err := m.Create(name); err == nil { // else there is a file or directory of that name
				must(t, w.Close())
				must(t, m.Remove(name))
				put(t, m, name, strings.Repeat("x", r.IntN(30)))
			}
		}
		src.SplitBytes = 10
		var whole situation
		must(t, src.Enumerate(context.Background(), &whole))
		if len(whole.splits) > 0 && len(whole.saved) == 0 {
			t.Fatalf("%d splits are handed out at the end only", len(whole.splits))
		}
		for _, at := range whole.saved {
			rest := situation{position: []byte(at.position)}
			if r.IntN(2) == 0 {
				must(t, m.Remove("/in/"+at.position))
			}
			must(t, src.Enumerate(context.Background(), &rest))
			if got := slices.Concat(whole.splits[:at.splits], rest.splits); !slices.Equal(got, whole.splits) {
				t.Fatalf("position %q: got %v, want %v", at.position, got, whole.splits)
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The first file is read while the others are looked for.
func TestFilesAreHandedOutWhileTheListingGoesOn(t *testing.T) {
	src, m := in(t, nil)
	for i := range 1000 {
		put(t, m, fmt.Sprintf("/in/%02d/%02d", i%25, i/25), "a line\n")
	}
	var e situation
	src.FileSystems["memory"] = watched{m, func(dir string) {
		if dir == "/in/01" && len(e.saved) == 0 {
			t.Errorf("nothing was handed out before %s was listed", dir)
		}
	}}
	must(t, src.Enumerate(context.Background(), &e))
	if n := len(e.saved); n < 2 || n > 20 || e.saved[0].splits != 1 || len(e.splits) != 1000 {
		t.Errorf("%d splits, saved at %v", len(e.splits), e.saved)
	}
}

// watched says what is listed.
type watched struct {
	filesystem.FileSystem
	list func(dir string)
}

func (w watched) List(dir string) ([]filesystem.Entry, error) {
	w.list(dir)
	return w.FileSystem.List(dir)
}

// The order is that of a walk; the root may be a link, links below aren't
// followed; hidden files are files.
func TestADirectoryIsWalkedInOrder(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	for _, name := range []string{"b.txt", "a/z.txt", "a/b/c.txt", ".hidden", "c", "d.go", "empty"} {
		text := name + "\n"
		if name == "empty" {
			text = ""
		}
		write(t, filepath.Join(real, name), text)
	}
	for from, to := range map[string]string{"root": real, "real/link": filepath.Join(real, "c"), "real/loop": real} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	for match, want := range map[string]string{"": ".hidden a/b/c.txt a/z.txt b.txt c d.go", "*.txt": "a/b/c.txt a/z.txt b.txt", "*.rs": ""} {
		src := Source{Path: filepath.Join(dir, "root"), Match: match}
		var got []string
		for _, s := range enumerate(t, src) {
			got = append(got, drain(t, open(t, src), s, 9)...)
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("match %q: got %s, want %s", match, g, want)
		}
	}
	one := Source{Path: filepath.Join(real, "link"), Match: "*.go"}
	if got := enumerate(t, one); len(got) != 1 {
		t.Errorf("a file named by itself: got %d splits", len(got))
	}
}

// What comes before it may have been handed out.
func TestWhatCanNotBeListedIsAnError(t *testing.T) {
	src, m := in(t, map[string]string{"/in/a": "1\n", "/in/sub/b": "2\n"})
	broken := &filesystem.Faulty{FileSystem: m, Before: func(op, path string) error {
		if op == "list" && path == "/in/sub" {
			return fs.ErrPermission
		}
		return nil
	}}
	for want, s := range map[string]Source{
		`list "memory:///nowhere"`: {Path: "memory:///nowhere", FileSystems: src.FileSystems},
		`list "/in/sub"`:           {Path: "memory:///in", FileSystems: filesystem.Set{"memory": broken}},
		`no file system for`:       {Path: "s3://bucket/in"},
	} {
		var e situation
		err := s.Enumerate(context.Background(), &e)
		if err == nil || !strings.Contains(err.Error(), want) || e.done {
			t.Errorf("got %v, done %v, want %s", err, e.done, want)
		}
	}
}

func TestSettingsAreCheckedTogether(t *testing.T) {
	src, _ := in(t, map[string]string{"/in/a": "1\n"})
	if err := src.Check(); err != nil {
		t.Error(err)
	}
	err := Source{Path: "s3://bucket/in", Match: "["}.Check()
	for _, want := range []string{`no file system for scheme "s3"; known: file`, `match files with "["`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestRateIsKeptByAllReadersTogether(t *testing.T) {
	for _, rate := range []int{2, 60, 1000, 300_000} {
		synctest.Test(t, func(t *testing.T) {
			src, _ := in(t, map[string]string{"/in/text": strings.Repeat("x\n", 5*rate)})
			src.Rate = rate
			reader, err := src.Open(t.Context(), &situation{parallelism: 2})
			if err != nil {
				t.Fatal(err)
			}
			at, lines, began := enumerate(t, src)[0], 0, time.Now()
			for err == nil {
				call := time.Now()
				b := record.Batch[string]{Values: make([]string, 0, 10_000)}
				err = reader.Read(t.Context(), &at, &b)
				lines += b.Len()
				if per := time.Second * 2 / time.Duration(rate); time.Since(call) > max(20*time.Millisecond, per+time.Millisecond) {
					t.Errorf("rate %d: a Read took %v", rate, time.Since(call))
				}
				if due := int(time.Since(began).Seconds()*float64(rate)/2+0.001) + rate/200 + 1; lines > due {
					t.Fatalf("rate %d: %d lines after %v", rate, lines, time.Since(began))
				}
			}
			if took := time.Since(began); err != io.EOF || took > 10*time.Second+100*time.Millisecond {
				t.Errorf("rate %d: half of the readers took %v for 5 s of lines: %v", rate, took, err)
			}
		})
	}
}

func TestAPacedReaderStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, _ := in(t, map[string]string{"/in/text": "a\nb\n"})
		src.Rate = 1
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		r, at, b := open(t, src), enumerate(t, src)[0], record.Batch[string]{Values: make([]string, 0, 9)}
		err := r.Read(ctx, &at, &b)
		if err == nil {
			err = r.Read(ctx, &at, &b)
		}
		if !errors.Is(err, context.DeadlineExceeded) || b.Len() != 1 {
			t.Errorf("got %d lines, %v", b.Len(), err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	line := strings.Repeat("some text ", 5) + "\n"
	write(b, filepath.Join(dir, "large"), strings.Repeat(line, 64<<20/len(line)))
	for i := range 1000 {
		write(b, filepath.Join(dir, "small", fmt.Sprint(i)), strings.Repeat(line, 100))
	}
	for _, name := range []string{"large", "small"} {
		b.Run(name, func(b *testing.B) {
			src := Lines(filepath.Join(dir, name))
			splits, r, size := enumerate(b, src), open(b, src), int64(0)
			for _, s := range splits {
				size += s.End - s.Start
			}
			b.SetBytes(size)
			b.ReportAllocs()
			batch := record.Batch[string]{Values: make([]string, 0, 1024)}
			for b.Loop() {
				for _, s := range splits {
					for err := error(nil); err == nil; {
						batch.Reset()
						err = r.Read(context.Background(), &s, &batch)
					}
				}
			}
		})
	}
}
