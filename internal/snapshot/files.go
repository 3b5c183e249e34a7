package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/state"
)

// Target implements state.Target: files in one directory, under random names, or
// inline if they are small.
type Target struct {
	Files    filesystem.FileSystem // nil: everything stays inline
	Dir      string
	Inline   int           // data below this many bytes stays inline
	Buffer   int           // so many bytes are written at once, or Inline if that is more
	Most     int64         // bytes of a state, where everything stays inline; 0: any number
	Compress bool          // whether keyed state is compressed
	Random   func() uint64 // safe for concurrent use
}

// Compressed implements state.Target.
func (t Target) Compressed() bool { return t.Compress }

// Create implements state.Target.
func (t Target) Create(ctx context.Context) (state.TargetFile, error) {
	return &targetFile{to: t, ctx: ctx, sum: crc32.New(castagnoli)}, ctx.Err()
}

// targetFile holds data until there is enough of it to be written.
type targetFile struct {
	to   Target
	ctx  context.Context // of the write; ends it early
	held []byte
	name string            // once there is a file
	w    filesystem.Writer // nil before and after
	sum  hash.Hash32
	size int64
}

// Write implements state.TargetFile.
func (f *targetFile) Write(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	f.sum.Write(p)
	f.size += int64(len(p))
	if f.to.Files == nil && f.to.Most > 0 && f.size > f.to.Most {
		return 0, tooLarge("a state", f.size, f.to.Most)
	}
	if f.to.Files == nil || len(f.held)+len(p) < max(f.to.Inline, f.to.Buffer) {
		f.held = append(f.held, p...)
		return len(p), nil
	}
	out := p
	if len(f.held) > 0 {
		out = append(f.held, p...)
		f.held = out[:0]
	}
	if err := f.put(out); err != nil {
		return 0, fmt.Errorf("write state file %q: %w", f.name, err)
	}
	return len(p), nil
}

// put writes to the file, which it begins if there is none.
func (f *targetFile) put(p []byte) error {
	if f.w == nil {
		if err := f.create(); err != nil {
			return err
		}
	}
	_, err := f.w.Write(p)
	return err
}

// create begins the file, under a name that isn't taken.
func (f *targetFile) create() (err error) {
	for range 10 {
		f.name = uuid(f.to.Random)
		f.w, err = f.to.Files.Create(f.path())
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		f.w = nil
	}
	if errors.Is(err, fs.ErrExist) {
		f.name = "" // it is another's, and not to be deleted
	}
	return err
}

func (f *targetFile) path() string { return path.Join(f.to.Dir, f.name) }

// Finish implements state.TargetFile.
func (f *targetFile) Finish() (state.File, error) {
	file := state.File{Size: f.size, Checksum: f.sum.Sum32()}
	if f.to.Files == nil || f.w == nil && f.size < int64(f.to.Inline) {
		file.Data = f.held
		return file, nil
	}
	if err := f.close(); err != nil {
		f.Abort()
		return state.File{}, err
	}
	file.Name = f.name
	return file, nil
}

// close writes what is left, and makes the file durable.
func (f *targetFile) close() error {
	err := f.ctx.Err()
	if err == nil && (len(f.held) > 0 || f.w == nil) {
		err = errors.Join(f.put(f.held), f.ctx.Err())
	}
	if err == nil {
		err = f.w.Sync()
	}
	if err == nil {
		err = f.w.Close()
		f.w = nil
	}
	if err != nil {
		return fmt.Errorf("write state file %q: %w", f.name, err)
	}
	return nil
}

// Abort implements state.TargetFile. What it can't delete is deleted with the
// checkpoint, or cleaned up later. If that has been deleted already, creating the file
// has brought its directory back.
func (f *targetFile) Abort() {
	if f.w != nil {
		f.w.Close()
		f.w = nil
	}
	if f.name != "" {
		f.to.Files.Remove(f.path())
		f.to.Files.Remove(f.to.Dir) // if it is empty
	}
}

// uuid returns a random name.
func uuid(random func() uint64) string {
	a, b := random(), random()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&(1<<48-1))
}

// named says whether uuid could have made a name.
func named(name string) bool {
	if len(name) != 36 {
		return false
	}
	for i, c := range []byte(name) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		digit := '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
		if dash != (c == '-') || !dash && !digit {
			return false
		}
	}
	return true
}

// Origin implements state.Origin: files relative to the directory of a
// checkpoint's metadata. What it opens has the size and the checksum that the
// metadata says, or Open is ErrCorrupt.
type Origin struct {
	Files filesystem.FileSystem // nil where everything is inline
	Dir   string
}

// Open implements state.Origin.
func (o Origin) Open(ctx context.Context, f state.File) (state.Blob, error) {
	if f.Name == "" {
		r := bytes.NewReader(f.Data)
		return inline{r}, intact(ctx, r, f)
	}
	name := path.Join(o.Dir, f.Name)
	if o.Files == nil {
		return nil, fmt.Errorf("state file %q: there is no file system", name)
	}
	r, err := o.Files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("state file %q: %w", name, err)
	}
	if err := intact(ctx, r, f); err != nil {
		r.Close()
		return nil, fmt.Errorf("state file %q: %w", name, err)
	}
	return r, nil
}

type inline struct{ *bytes.Reader }

func (inline) Close() error { return nil }

// intact reads all of a file to see whether it is what was written.
func intact(ctx context.Context, r interface {
	io.ReaderAt
	Size() int64
}, f state.File) error {
	if r.Size() != f.Size {
		return fmt.Errorf("%w: it has %d bytes, not %d", ErrCorrupt, r.Size(), f.Size)
	}
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, &whole{ctx: ctx, Reader: io.NewSectionReader(r, 0, f.Size)})
	switch {
	case err != nil:
		return err
	case n != f.Size, sum.Sum32() != f.Checksum:
		return fmt.Errorf("%w: its checksum doesn't match", ErrCorrupt)
	}
	return nil
}

// whole reads until its context ends.
type whole struct {
	ctx context.Context
	io.Reader
}

func (w *whole) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Reader.Read(p)
}
