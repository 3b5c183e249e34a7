package filesystem

import "io"

// Faulty is a file system whose operations can be made to fail. The operations
// are called create, write, sync, close (of what was created), open, read,
// rename (with the old name), remove, list, stat, makedir and lock.
type Faulty struct {
	FileSystem
	// Before is called before each operation. Its error is what the caller gets,
	// and the operation isn't done; of a write it is done in part if the error is
	// Torn. Nil: nothing fails.
	Before func(op, path string) error
	// After is called when an operation was done without an error. Its error is
	// what the caller gets.
	After func(op, path string) error
	// Spoil may change what was read from a file at an offset.
	Spoil func(path string, offset int64, p []byte)
}

// Torn is an error of a write of which the first bytes got through.
type Torn struct {
	Bytes int
	Err   error
}

func (t Torn) Error() string { return t.Err.Error() }

// Unwrap returns the cause.
func (t Torn) Unwrap() error { return t.Err }

func (f *Faulty) do(op, path string, operation func() error) error {
	if f.Before != nil {
		if err := f.Before(op, path); err != nil {
			return err
		}
	}
	if err := operation(); err != nil || f.After == nil {
		return err
	}
	return f.After(op, path)
}

// Create implements FileSystem.
func (f *Faulty) Create(path string) (w Writer, err error) {
	err = f.do("create", path, func() error { w, err = f.FileSystem.Create(path); return err })
	if err != nil {
		return nil, err
	}
	return &faultyWriter{w, f, path}, nil
}

type faultyWriter struct {
	w    Writer
	f    *Faulty
	path string
}

func (w *faultyWriter) Write(p []byte) (n int, err error) {
	err = w.f.do("write", w.path, func() error { n, err = w.w.Write(p); return err })
	if torn, ok := err.(Torn); ok {
		n, _ = w.w.Write(p[:min(torn.Bytes, len(p))])
	}
	return n, err
}

func (w *faultyWriter) Sync() error  { return w.f.do("sync", w.path, w.w.Sync) }
func (w *faultyWriter) Close() error { return w.f.do("close", w.path, w.w.Close) }

// Open implements FileSystem.
func (f *Faulty) Open(path string) (r Reader, err error) {
	err = f.do("open", path, func() error { r, err = f.FileSystem.Open(path); return err })
	if err != nil {
		return nil, err
	}
	at := &faultyReaderAt{r, f, path}
	return &faultyReader{io.NewSectionReader(at, 0, r.Size()), r}, nil
}

type faultyReader struct {
	*io.SectionReader
	io.Closer
}

type faultyReaderAt struct {
	r    Reader
	f    *Faulty
	path string
}

func (r *faultyReaderAt) ReadAt(p []byte, offset int64) (n int, err error) {
	var end error
	err = r.f.do("read", r.path, func() error {
		n, err = r.r.ReadAt(p, offset)
		if err == io.EOF {
			end, err = err, nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if r.f.Spoil != nil {
		r.f.Spoil(r.path, offset, p[:n])
	}
	return n, end
}

// Rename implements FileSystem.
func (f *Faulty) Rename(from, to string) error {
	return f.do("rename", from, func() error { return f.FileSystem.Rename(from, to) })
}

// Remove implements FileSystem.
func (f *Faulty) Remove(path string) error {
	return f.do("remove", path, func() error { return f.FileSystem.Remove(path) })
}

// List implements FileSystem.
func (f *Faulty) List(dir string) (entries []Entry, err error) {
	err = f.do("list", dir, func() error { entries, err = f.FileSystem.List(dir); return err })
	return entries, err
}

// Stat implements FileSystem.
func (f *Faulty) Stat(path string) (e Entry, err error) {
	err = f.do("stat", path, func() error { e, err = f.FileSystem.Stat(path); return err })
	return e, err
}

// MakeDir implements FileSystem.
func (f *Faulty) MakeDir(dir string) error {
	return f.do("makedir", dir, func() error { return f.FileSystem.MakeDir(dir) })
}

// Lock implements FileSystem.
func (f *Faulty) Lock(dir string) (l Lock, err error) {
	err = f.do("lock", dir, func() error { l, err = f.FileSystem.Lock(dir); return err })
	if err != nil {
		return nil, err
	}
	return l, nil
}
