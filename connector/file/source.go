// Package file reads the lines of files as a source, and writes files that hold
// each record exactly once as a sink.
package file

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/filesystem"
)

// A Source reads the lines of a file, or of all regular files below a
// directory, as they were when they were listed: what is appended later isn't
// read, nor is what appears where the listing has been. It is done once, from the
// job's beginning on, while files are read already. A line is what bufio.ScanLines gives, of any
// encoding and without its end, "\n" or "\r\n". An empty file has none. Records
// have no times.
//
// Files named *.gz and *.zst are decompressed. Such a file is read in one part,
// and after a restore decompressed once more up to where it had been read.
//
// Neighbouring lines share memory. Who keeps a small piece of a line for long
// keeps a block of the file with it, unless it is copied with strings.Clone.
type Source struct {
	// Path is a file or a directory; both may be links. Links below the
	// directory are not followed.
	Path string
	// Match, if not empty, is a pattern as for path.Match, such as "*.go": of a
	// directory only files whose names match it are read.
	Match string
	// Rate limits how many lines all readers together read in a second. It is
	// divided evenly, so that a reader without work leaves its part unused.
	// 0 means no limit.
	Rate int
	// SplitBytes is the size above which a file is read in several parts. 0 means
	// 64 MiB.
	SplitBytes int64
	// LineBytes is the size above which a line is an error. 0 means 1 GiB.
	LineBytes int
	// FileSystems are those that Path may name; nil means local files.
	FileSystems filesystem.Set
}

// Lines returns a source of the lines of a file, or of all files below a
// directory.
func Lines(path string) Source { return Source{Path: path} }

// A Split is a range of a file, and how far it has been read. It owns the lines
// that begin in the range; the last of them may end behind it. In a compressed
// file it is all that the file holds, however long, and offsets are in that.
type Split struct {
	Path       string
	Start, End int64
	Next       int64 // where the next line begins; Start until the first one has been looked for
	Size       int64 // of the file when it was listed: what comes later isn't read
}

// Bounded implements connector.Bounded.
func (s Source) Bounded() bool { return true }

// Check implements connector.Checked.
func (s Source) Check() error {
	_, wrong := path.Match(s.Match, "")
	if wrong != nil {
		wrong = fmt.Errorf("match files with %q: %w", s.Match, wrong)
	}
	_, _, err := resolve(s.FileSystems, s.Path)
	return errors.Join(err, wrong)
}

// Enumerate implements connector.Source. Files are handed out while the listing
// goes on. It is saved as the last file that it has passed.
func (s Source) Enumerate(ctx context.Context, e connector.Enumeration[Split]) error {
	files, root, err := resolve(s.FileSystems, s.Path)
	if err != nil {
		return fmt.Errorf("list %q: %w", s.Path, err)
	}
	l := listing{Source: s, to: e, files: files, root: root, often: 1}
	if err := l.list(ctx, string(e.Position())); err != nil {
		return err
	}
	if !l.found && e.Position() == nil {
		e.Log().Warn("there is nothing to read", "path", s.Path, "match", s.Match)
	}
	e.Done()
	return nil
}

// Open implements connector.Source.
func (s Source) Open(_ context.Context, r connector.Reading) (connector.Reader[string, Split], error) {
	files, _, err := resolve(s.FileSystems, s.Path)
	if err != nil {
		return nil, fmt.Errorf("open source %q: %w", s.Path, err)
	}
	lines := newReader(files, s.LineBytes)
	if s.Rate > 0 {
		return &paced{lines, connector.NewPace(float64(s.Rate) / float64(r.Parallelism()))}, nil
	}
	return lines, nil
}

// A listing assigns the splits of all files below a directory.
type listing struct {
	Source
	to     connector.Enumeration[Split]
	files  filesystem.FileSystem
	root   string
	found  bool // something
	staged int  // splits since the listing was saved
	often  int  // how many may be: few at first, so that reading begins at once
}

// seldom is how many splits are staged between two positions at most.
const seldom = 256

// list lists what comes after a file, given by its path below the root.
func (l *listing) list(ctx context.Context, after string) error {
	at, err := l.files.Stat(l.root)
	switch {
	case err != nil:
		return fmt.Errorf("list %q: %w", l.Path, err)
	case at.Regular:
		l.add(l.root, at.Size)
		return nil
	case at.Dir:
		return l.walk(ctx, "", after)
	}
	return fmt.Errorf("list %q: it is neither a file nor a directory", l.Path)
}

// walk goes through a directory below the root in the order of names, into each
// directory when it is its turn, and begins behind a path below that directory.
func (l *listing) walk(ctx context.Context, below, after string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := path.Join(l.root, below)
	entries, err := l.files.List(dir)
	if err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	first, rest, _ := strings.Cut(after, "/")
	for _, e := range entries {
		name, inside := path.Join(below, e.Name), ""
		if e.Name == first {
			inside = rest
		}
		switch {
		case e.Name < first || e.Name == first && rest == "": // passed
		case e.Dir:
			if err := l.walk(ctx, name, inside); err != nil {
				return err
			}
		case e.Regular && l.matches(e.Name):
			l.add(path.Join(dir, e.Name), e.Size)
			l.save(name)
		}
	}
	return nil
}

// save hands out what is staged, if that is enough.
func (l *listing) save(passed string) {
	if l.staged >= l.often {
		l.to.Save([]byte(passed))
		l.staged, l.often = 0, min(2*l.often, seldom)
	}
}

func (l *listing) matches(name string) bool {
	ok, _ := path.Match(l.Match, name) // the pattern was checked before
	return ok || l.Match == ""
}

// add cuts a file into splits of about equal size. An empty file has none, and a
// compressed one isn't cut.
func (l *listing) add(name string, size int64) {
	if size > 0 && isCompressed(name) {
		l.assign(Split{Path: name, End: math.MaxInt64, Size: size})
		return
	}
	most := l.SplitBytes
	if most <= 0 {
		most = 64 << 20
	}
	for n, i := (size+most-1)/most, int64(0); i < n; i++ {
		start, end := cut(size, i, n), cut(size, i+1, n)
		l.assign(Split{Path: name, Start: start, End: end, Next: start, Size: size})
	}
}

func (l *listing) assign(s Split) {
	l.to.Assign(s)
	l.staged++
	l.found = true
}

// cut is where part i of n of a file begins.
func cut(size, i, n int64) int64 { return size/n*i + min(i, size%n) }

var _ connector.Source[string, Split] = Source{}
var _ connector.Bounded = Source{}
