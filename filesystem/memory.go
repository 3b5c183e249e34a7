package filesystem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Memory is a file system in memory that can crash as a machine can: what wasn't
// synced may be lost. It does the same in every run with the same calls.
//
// A name is a slot for two nodes: what is there now, and what is there for sure
// after a crash. Sync and Rename make the second follow the first; so does
// making a directory.
type Memory struct {
	Now func() time.Time // for Entry.Modified; nil: always 1970

	mu     sync.Mutex // guards everything below
	slots  map[string]*slot
	locked map[string]bool
	life   int // counts crashes; handles of an earlier life are closed
}

type slot struct{ now, durable *node }

type node struct {
	dir      bool
	data     []byte
	synced   int // how much of data is durable
	modified time.Time
}

// NewMemory returns an empty file system.
func NewMemory() *Memory {
	return &Memory{slots: map[string]*slot{}, locked: map[string]bool{}}
}

// A Change is something that a crash may undo.
type Change struct {
	Op    string // "create", "remove", or "write"
	Path  string
	Bytes int // of a write: how many bytes were written since the last Sync; else 1
}

// Crash ends all handles and locks, and loses what wasn't synced, as far as keep
// doesn't say otherwise: it is asked about every change, in a fixed order, and
// returns how many of its bytes survive. A nil keep keeps nothing.
func (m *Memory) Crash(keep func(Change) int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life++
	clear(m.locked)
	if keep == nil {
		keep = func(Change) int { return 0 }
	}
	names := slices.Sorted(maps.Keys(m.slots))
	slices.Reverse(names) // what is in a directory comes before it
	for _, name := range names {
		m.settle(name, keep)
	}
}

// settle decides what a crash leaves of one name.
func (m *Memory) settle(name string, keep func(Change) int) {
	s := m.slots[name]
	if s.now != s.durable {
		op := "create"
		if s.now == nil {
			op = "remove"
		}
		if m.inhabited(name) || keep(Change{op, name, 1}) == 0 {
			s.now = s.durable
		}
		s.durable = s.now
	}
	if s.now == nil {
		delete(m.slots, name)
		return
	}
	if n := s.now; n.synced < len(n.data) {
		loose := len(n.data) - n.synced
		n.synced += min(keep(Change{"write", name, loose}), loose)
		n.data = n.data[:n.synced:n.synced]
	}
}

// inhabited reports whether something is there below a directory.
func (m *Memory) inhabited(dir string) bool {
	for name, s := range m.slots {
		if s.now != nil && path.Dir(name) == dir && name != dir {
			return true
		}
	}
	return false
}

func failed(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// at returns what is there under a name, nil if nothing.
func (m *Memory) at(name string) *node {
	if name == "/" {
		return &node{dir: true}
	}
	if s := m.slots[name]; s != nil {
		return s.now
	}
	return nil
}

func (m *Memory) put(name string, n *node) *slot {
	s := m.slots[name]
	if s == nil {
		s = &slot{}
		m.slots[name] = s
	}
	s.now = n
	return s
}

func (m *Memory) time() time.Time {
	if m.Now == nil {
		return time.Unix(0, 0)
	}
	return m.Now()
}

func (m *Memory) makeDir(dir string) error {
	if n := m.at(dir); n != nil {
		if !n.dir {
			return failed("mkdir", dir, syscall.ENOTDIR)
		}
		return nil
	}
	if err := m.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	s := m.put(dir, &node{dir: true, modified: m.time()})
	s.durable = s.now
	return nil
}

// MakeDir implements FileSystem.
func (m *Memory) MakeDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.makeDir(path.Clean(dir))
}

// Create implements FileSystem.
func (m *Memory) Create(name string) (Writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.at(name) != nil {
		return nil, failed("create", name, fs.ErrExist)
	}
	if err := m.makeDir(path.Dir(name)); err != nil {
		return nil, err
	}
	n := &node{modified: m.time()}
	m.put(name, n)
	return &memoryWriter{m, n, name, m.life, false}, nil
}

type memoryWriter struct {
	m      *Memory
	n      *node
	name   string
	life   int
	closed bool
}

// begin locks the file system for one operation on the file.
func (w *memoryWriter) begin(op string) error {
	w.m.mu.Lock()
	if w.closed || w.life != w.m.life {
		return failed(op, w.name, fs.ErrClosed)
	}
	return nil
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	err := w.begin("write")
	defer w.m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	w.n.data = append(w.n.data, p...)
	w.n.modified = w.m.time()
	return len(p), nil
}

func (w *memoryWriter) Sync() error {
	err := w.begin("sync")
	defer w.m.mu.Unlock()
	if err != nil {
		return err
	}
	w.n.synced = len(w.n.data)
	if s := w.m.slots[w.name]; s != nil && s.now == w.n {
		s.durable = w.n
	}
	return nil
}

func (w *memoryWriter) Close() error {
	err := w.begin("close")
	defer w.m.mu.Unlock()
	w.closed = true
	return err
}

// Open implements FileSystem.
func (m *Memory) Open(name string) (Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	n := m.at(name)
	switch {
	case n == nil:
		return nil, failed("open", name, fs.ErrNotExist)
	case n.dir:
		return nil, failed("open", name, syscall.EISDIR)
	}
	r := &memoryReader{m: m, name: name, data: n.data, life: m.life}
	r.SectionReader = io.NewSectionReader(content{r}, 0, int64(len(n.data)))
	return r, nil
}

// A memoryReader reads what the file held when it was opened.
type memoryReader struct {
	*io.SectionReader
	m      *Memory
	name   string
	data   []byte
	life   int
	closed bool
}

type content struct{ r *memoryReader }

func (c content) ReadAt(p []byte, off int64) (int, error) {
	r := c.r
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.closed || r.life != r.m.life {
		return 0, failed("read", r.name, fs.ErrClosed)
	}
	n := copy(p, r.data[min(off, int64(len(r.data))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r *memoryReader) Close() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.closed {
		return failed("close", r.name, fs.ErrClosed)
	}
	r.closed = true
	return nil
}

// Rename implements FileSystem.
func (m *Memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to = path.Clean(from), path.Clean(to)
	n, dir := m.at(from), m.at(path.Dir(to))
	switch {
	case n == nil || dir == nil:
		return failed("rename", from+" to "+to, fs.ErrNotExist)
	case n.dir:
		return failed("rename", from, syscall.EISDIR)
	case m.at(to) != nil:
		return failed("rename", to, fs.ErrExist)
	}
	delete(m.slots, from)
	m.put(to, n).durable = n
	m.settleRemovals(path.Dir(to))
	return nil
}

// settleRemovals makes what was removed from a directory stay so, as the sync of
// a directory does.
func (m *Memory) settleRemovals(dir string) {
	for name, s := range m.slots {
		if s.now == nil && path.Dir(name) == dir {
			delete(m.slots, name)
		}
	}
}

// Remove implements FileSystem.
func (m *Memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	n := m.at(name)
	switch {
	case n == nil:
		return failed("remove", name, fs.ErrNotExist)
	case n.dir && m.inhabited(name):
		return failed("remove", name, syscall.ENOTEMPTY)
	}
	if m.put(name, nil).durable == nil {
		delete(m.slots, name)
	}
	return nil
}

// List implements FileSystem.
func (m *Memory) List(dir string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = path.Clean(dir)
	n := m.at(dir)
	switch {
	case n == nil:
		return nil, failed("list", dir, fs.ErrNotExist)
	case !n.dir:
		return nil, failed("list", dir, syscall.ENOTDIR)
	}
	var entries []Entry
	for name, s := range m.slots {
		if s.now != nil && path.Dir(name) == dir {
			entries = append(entries, s.now.entry(name))
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

func (n *node) entry(name string) Entry {
	return Entry{Name: path.Base(name), Dir: n.dir, Regular: !n.dir, Size: int64(len(n.data)), Modified: n.modified}
}

// Stat implements FileSystem.
func (m *Memory) Stat(name string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	n := m.at(name)
	if n == nil {
		return Entry{}, failed("stat", name, fs.ErrNotExist)
	}
	return n.entry(name), nil
}

// Lock implements FileSystem. A crash ends it.
func (m *Memory) Lock(dir string) (Lock, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = path.Clean(dir)
	n := m.at(dir)
	switch {
	case n == nil:
		return nil, failed("lock", dir, fs.ErrNotExist)
	case !n.dir:
		return nil, failed("lock", dir, syscall.ENOTDIR)
	case m.locked[dir]:
		return nil, fmt.Errorf("lock %s: %w", dir, ErrLocked)
	}
	m.locked[dir] = true
	return &memoryLock{m, dir, m.life, false}, nil
}

type memoryLock struct {
	m    *Memory
	dir  string
	life int
	done bool
}

func (l *memoryLock) Unlock() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.done || l.life != l.m.life {
		return errors.New("unlock " + l.dir + ": not locked")
	}
	l.done = true
	delete(l.m.locked, l.dir)
	return nil
}
