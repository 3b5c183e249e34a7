package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weirstream/weir/record"
)

// packers make one member or frame of a compressed file.
var packers = map[string]func(t testing.TB, text string) string{
	".gz": func(t testing.TB, text string) string {
		var b bytes.Buffer
		return packed(t, &b, gzip.NewWriter(&b), text)
	},
	".zst": func(t testing.TB, text string) string {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		return packed(t, &b, w, text)
	},
}

func packed(t testing.TB, b *bytes.Buffer, w io.WriteCloser, text string) string {
	_, err := io.WriteString(w, text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A compressed file gives the lines of its text, from every position at which a
// Read may end, however many members it has and wherever these are divided.
func TestCompressedFileGivesTheLinesOfItsText(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for ending, pack := range packers {
		texts := []string{"", "\n", "a", "a\n", "\r\n", "one\ntwo", "one\ntwo\n", strings.Repeat("long ", 2*block) + "\nshort"}
		for range 30 {
			texts = append(texts, randomText(r, r.IntN(300)))
		}
		for _, text := range texts {
			cut := r.IntN(len(text) + 1)
			name := "/in/text" + ending
			src, _ := in(t, map[string]string{name: pack(t, text[:cut]) + pack(t, "") + pack(t, text[cut:])})
			src.SplitBytes = 1
			splits := enumerate(t, src)
			if len(splits) != 1 {
				t.Fatalf("%d splits", len(splits))
			}
			want := scan(text)
			if got := drain(t, open(t, src), splits[0], 1+r.IntN(5)); !slices.Equal(got, want) {
				t.Fatalf("%q: got %q, want %q", text, got, want)
			}
			var got []string
			for at, err := splits[0], error(nil); err != io.EOF; {
				b := record.Batch[string]{Values: make([]string, 0, 1+r.IntN(20))}
				if err = open(t, src).Read(context.Background(), &at, &b); err != nil && err != io.EOF {
					t.Fatalf("%q at %+v: %v", text, at, err)
				}
				got = append(got, b.Values...)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q, by a reader for each position: got %q, want %q", text, got, want)
			}
		}
	}
}

func TestEmptyFileHasNoLines(t *testing.T) {
	src, _ := in(t, map[string]string{"/in/a": "", "/in/b.gz": "", "/in/c.zst": ""})
	if splits := enumerate(t, src); len(splits) != 0 {
		t.Errorf("got %+v", splits)
	}
}

// A file that was cut off or damaged anywhere gives the lines that come before
// that, at most, and then an error with its name and how far it could be read.
func TestDamagedCompressedFileIsNamed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for ending, pack := range packers {
		name := "/in/text" + ending
		var text strings.Builder
		for text.Len() < 3*block {
			text.WriteString(randomText(r, 100) + "\n")
		}
		whole, want := pack(t, text.String()), scan(text.String())
		for range 60 {
			at := r.IntN(len(whole))
			damaged := whole[:at]
			if r.IntN(2) == 0 {
				damaged += string(whole[at]^byte(1+r.IntN(255))) + whole[at+1:]
			}
			if at == 0 && damaged == "" {
				continue // an empty file
			}
			got, err := all(t, name, damaged)
			switch {
			case err == nil && slices.Equal(got, want): // a byte of a header that says nothing
			case err == nil || errors.Is(err, io.EOF):
				t.Fatalf("%s, damaged at byte %d of %d: %d lines of %d, %v", name, at, len(whole), len(got), len(want), err)
			case !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), " at byte ") || !strings.Contains(err.Error(), "decompress up to byte "):
				t.Fatalf("damaged at byte %d: %v", at, err)
			}
		}
	}
}

// all reads a file in memory until its end or an error.
func all(t *testing.T, name, content string) (lines []string, err error) {
	t.Helper()
	src, _ := in(t, map[string]string{name: content})
	for reader, at := open(t, src), enumerate(t, src)[0]; err == nil; {
		b := record.Batch[string]{Values: make([]string, 0, 100)}
		err = reader.Read(context.Background(), &at, &b)
		lines = append(lines, b.Values...)
	}
	if err == io.EOF {
		err = nil
	}
	return lines, err
}

func TestCompressedFileThatHasChangedSinceTheCheckpointIsNamed(t *testing.T) {
	for ending, pack := range packers {
		cases := map[string]struct {
			now  string
			same bool // it has the size that it had
			want string
		}{
			"vanished":  {"", false, "not exist"},
			"shrunk":    {pack(t, ""), false, "the file has shrunk from "},
			"shorter":   {pack(t, "1"), true, "the text ends 2 bytes before that: the file has been changed"},
			"rewritten": {pack(t, "another text, longer"), true, "no line begins there any more"},
			"no such":   {strings.Repeat("text\n", 99), false, "decompress up to byte "},
		}
		for what, c := range cases {
			t.Run(what+ending, func(t *testing.T) {
				name := "/in/text" + ending
				src, m := in(t, map[string]string{name: pack(t, "one\ntwo\nthree\n")})
				at, b := enumerate(t, src)[0], record.Batch[string]{Values: make([]string, 0, 1)}
				if err := open(t, src).Read(context.Background(), &at, &b); err != nil {
					t.Fatal(err)
				}
				if err := m.Remove(name); err != nil {
					t.Fatal(err)
				}
				if c.now != "" {
					put(t, m, name, c.now)
				}
				if c.same {
					at.Size = int64(len(c.now))
				}
				err := open(t, src).Read(context.Background(), &at, &b)
				if err == nil || !strings.Contains(err.Error(), `open "`+name+`" at byte 4: `) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				if gone := errors.Is(err, fs.ErrNotExist); gone != (c.now == "") {
					t.Errorf("%v: not existing is %v", err, gone)
				}
			})
		}
	}
}

// Going back to a position far behind is given up when the job stops.
func TestSkippingStopsWithItsContext(t *testing.T) {
	text := strings.Repeat("line\n", 4<<20)
	src, _ := in(t, map[string]string{"/in/text.gz": packers[".gz"](t, text)})
	at := enumerate(t, src)[0]
	at.Next = int64(len(text))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	b := record.Batch[string]{Values: make([]string, 0, 1)}
	if err := open(t, src).Read(ctx, &at, &b); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
