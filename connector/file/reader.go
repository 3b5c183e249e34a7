package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/record"
)

// block is how much is read from a file at a time. The whole lines in it become
// one string, and each line is a part of that: no allocation per line.
const block = 64 << 10

// A reader reads the lines of one split after the other. It knows the file from
// the position on in this order:
//
//	text, whole lines to give | ahead, read already | not read yet
type reader struct {
	files filesystem.FileSystem
	most  int // bytes in a line

	at     Split             // where the last Read ended
	file   filesystem.Reader // of that split; nil at its end
	packed *unpacker         // of file, if it is compressed
	in     io.Reader         // what isn't read yet
	ended  bool              // nothing of it is left
	text   string
	ahead  []byte
}

func newReader(files filesystem.FileSystem, most int) *reader {
	if most <= 0 {
		most = 1 << 30
	}
	return &reader{files: files, most: most}
}

// Read implements connector.Reader.
func (r *reader) Read(ctx context.Context, at *Split, into *record.Batch[string]) error {
	return r.read(ctx, at, into, cap(into.Values)-into.Len())
}

// read takes up to room lines, and at least one.
func (r *reader) read(ctx context.Context, at *Split, into *record.Batch[string], room int) error {
	if r.file == nil || *at != r.at {
		if err := r.open(ctx, *at); err != nil {
			return fmt.Errorf("open %q at byte %d: %w", at.Path, at.Next, err)
		}
	}
	for n := 0; n < max(room, 1) && !r.over(); n++ {
		line, err := r.line(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			*at = r.at
			return fmt.Errorf("read %q at byte %d: %w", r.at.Path, r.at.Next, err)
		}
		into.Add(line)
	}
	*at = r.at
	if !r.over() {
		return nil
	}
	if err := r.Close(); err != nil {
		return fmt.Errorf("close %q: %w", at.Path, err)
	}
	return io.EOF
}

// over reports whether the split is at its end, as far as that has been seen.
func (r *reader) over() bool {
	return r.at.Next >= r.at.End || r.ended && r.text == "" && len(r.ahead) == 0
}

// open goes to the first line at or behind the position.
func (r *reader) open(ctx context.Context, at Split) (err error) {
	if err := r.Close(); err != nil {
		return err
	}
	r.at, r.ended, r.text, r.ahead = at, false, "", r.ahead[:0]
	if r.file, err = r.files.Open(at.Path); err != nil {
		return err
	}
	if now := r.file.Size(); now < at.Size {
		return fmt.Errorf("the file has shrunk from %d to %d bytes since it was listed", at.Size, now)
	}
	if err := r.seek(ctx, max(at.Next-1, 0)); err != nil || at.Next == 0 {
		return err
	}
	return r.align(ctx)
}

// seek puts in to an offset. Of the file there is what there was when it was
// listed.
func (r *reader) seek(ctx context.Context, offset int64) (err error) {
	if !isCompressed(r.at.Path) {
		r.in = io.NewSectionReader(r.file, offset, r.at.Size-offset)
		return nil
	}
	if r.packed, err = unpack(r.at.Path, io.NewSectionReader(r.file, 0, r.at.Size)); err != nil {
		return err
	}
	r.in = r.packed
	return r.packed.skip(ctx, offset)
}

// align moves the position to where a line begins: behind the first end of a
// line that isn't before the byte before it. If that was found by an earlier
// reader, it is there still.
func (r *reader) align(ctx context.Context) error {
	found := r.at.Next > r.at.Start
	for r.at.Next--; r.at.Next < r.at.End-1; r.drop(len(r.ahead)) {
		if err := r.more(ctx); err != nil {
			return err
		}
		end := bytes.IndexByte(r.ahead, '\n')
		if found && end != 0 {
			return errors.New("no line begins there any more: the file has been changed")
		}
		if end >= 0 {
			r.drop(end + 1)
			return nil
		}
	}
	r.at.Next = r.at.End
	return nil
}

// drop moves the position past the first n bytes of ahead.
func (r *reader) drop(n int) {
	r.at.Next += int64(n)
	r.ahead = append(r.ahead[:0], r.ahead[n:]...)
}

// line takes the next line.
func (r *reader) line(ctx context.Context) (string, error) {
	if r.text == "" {
		if err := r.fill(ctx); err != nil {
			return "", err
		}
	}
	end := strings.IndexByte(r.text, '\n') + 1
	if end == 0 {
		end = len(r.text)
	}
	line := strings.TrimSuffix(r.text[:end], "\n")
	if len(line) > r.most {
		return "", r.tooLong()
	}
	r.text, r.at.Next = r.text[end:], r.at.Next+int64(end)
	return strings.TrimSuffix(line, "\r"), nil
}

// fill reads on until text has a line. If there is none it returns io.EOF.
func (r *reader) fill(ctx context.Context) error {
	end, searched := 0, 0
	for end == 0 {
		last := bytes.LastIndexByte(r.ahead[searched:], '\n')
		switch {
		case r.ended && len(r.ahead) == 0:
			return io.EOF
		case r.ended:
			end = len(r.ahead)
		case last >= 0:
			end = searched + last + 1
		case len(r.ahead) > r.most:
			return r.tooLong()
		default:
			searched = len(r.ahead)
			if err := r.more(ctx); err != nil {
				return err
			}
		}
	}
	r.text = string(r.ahead[:end])
	rest := r.ahead[end:]
	if cap(r.ahead) > 16*block { // a very long line is over
		r.ahead = nil
	}
	r.ahead = append(r.ahead[:0], rest...)
	return nil
}

// more reads a piece of the file to the end of ahead. It is called while text is
// empty and not all has been read.
func (r *reader) more(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(r.ahead) == cap(r.ahead) {
		r.ahead = append(make([]byte, 0, max(2*cap(r.ahead), block)), r.ahead...)
	}
	n, err := io.ReadAtLeast(r.in, r.ahead[len(r.ahead):cap(r.ahead)], 1)
	r.ahead = r.ahead[:len(r.ahead)+n]
	switch {
	case err != io.EOF:
		return err
	case r.packed == nil && r.at.Next+int64(len(r.ahead)) < r.at.Size:
		return io.ErrUnexpectedEOF // the file has shrunk while it was read
	}
	r.ended = true
	return nil
}

func (r *reader) tooLong() error {
	return fmt.Errorf("the line is longer than %d bytes", r.most)
}

// Close implements connector.Reader.
func (r *reader) Close() error {
	if r.packed != nil {
		r.packed.close()
	}
	file := r.file
	if r.file, r.packed = nil, nil; file == nil {
		return nil
	}
	return file.Close()
}
