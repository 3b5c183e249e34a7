// Package filesystemtest checks that a file system keeps the contract.
package filesystemtest

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/weirstream/weir/filesystem"
)

// Suite runs every test of the contract, each on an empty directory that open
// makes.
func Suite(t *testing.T, open func(t *testing.T) (f filesystem.FileSystem, dir string)) {
	for _, test := range []struct {
		name string
		run  func(*place)
	}{
		{"WhatIsWrittenIsRead", written},
		{"CreateMakesDirectoriesAndNeverOverwrites", created},
		{"ReadersAreIndependent", readers},
		{"RenameMovesToFreeNamesOnly", renamed},
		{"RemoveTakesFilesAndEmptyDirectories", removed},
		{"ListIsByNameAndNotDeep", listed},
		{"StatDescribes", described},
		{"MakeDirTwiceIsFine", directories},
		{"LockIsExclusiveAndLeavesNothing", locked},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, dir := open(t)
			test.run(&place{t, f, dir + "/"})
		})
	}
}

// A place is an empty directory in the file system under test.
type place struct {
	*testing.T
	filesystem.FileSystem
	dir string
}

// no ends the test on an error.
func (p *place) no(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// want ends the test on another error than that.
func (p *place) want(err, that error) {
	p.Helper()
	if !errors.Is(err, that) {
		p.Fatalf("error %v, want %v", err, that)
	}
}

func (p *place) write(name, content string) {
	p.Helper()
	w, err := p.Create(p.dir + name)
	p.no(err)
	_, err = io.WriteString(w, content)
	p.no(err)
	p.no(w.Sync())
	p.no(w.Close())
}

func (p *place) reads(name, content string) {
	p.Helper()
	r, err := p.Open(p.dir + name)
	p.no(err)
	got, err := io.ReadAll(r)
	p.no(err)
	if string(got) != content || r.Size() != int64(len(content)) {
		p.Fatalf("%s holds %q in %d bytes, want %q", name, got, r.Size(), content)
	}
	p.no(r.Close())
}

func (p *place) holds(dir string, names ...string) {
	p.Helper()
	entries, err := p.List(p.dir + dir)
	p.no(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name)
	}
	if !slices.Equal(got, names) {
		p.Fatalf("%q holds %q, want %q", dir, got, names)
	}
}

func written(p *place) {
	w, err := p.Create(p.dir + "a")
	p.no(err)
	for _, s := range []string{"one ", "", "two"} {
		n, err := io.WriteString(w, s)
		p.no(err)
		if n != len(s) {
			p.Fatalf("wrote %d bytes of %q", n, s)
		}
		p.no(w.Sync())
	}
	p.no(w.Close())
	p.reads("a", "one two")
	p.write("empty", "")
	p.reads("empty", "")
}

func created(p *place) {
	p.write("x/y/z", "first")
	_, err := p.Create(p.dir + "x/y/z")
	p.want(err, fs.ErrExist)
	_, err = p.Create(p.dir + "x/y")
	p.want(err, fs.ErrExist)
	p.reads("x/y/z", "first")
	if _, err = p.Create(p.dir + "x/y/z/below a file"); err == nil {
		p.Fatal("a file was made below a file")
	}
}

func readers(p *place) {
	p.write("a", "0123456789")
	_, err := p.Open(p.dir + "b")
	p.want(err, fs.ErrNotExist)
	if _, err = p.Open(p.dir); err == nil {
		p.Fatal("a directory was opened for reading")
	}
	r, err := p.Open(p.dir + "a")
	p.no(err)
	p.reads("a", "0123456789")
	part := make([]byte, 4)
	n, err := r.ReadAt(part, 8)
	if string(part[:n]) != "89" || err != io.EOF {
		p.Fatalf("at the end: %q, %v", part[:n], err)
	}
	if n, err = r.ReadAt(part, 100); n != 0 || err != io.EOF {
		p.Fatalf("behind the end: %d bytes, %v", n, err)
	}
	_, err = io.ReadFull(r, part)
	p.no(err)
	if string(part) != "0123" {
		p.Fatalf("ReadAt moved Read to %q", part)
	}
	p.no(r.Close())
	if _, err = r.ReadAt(part, 0); err == nil {
		p.Fatal("a closed file was read")
	}
}

func renamed(p *place) {
	p.write("a", "A")
	p.write("b", "B")
	p.want(p.Rename(p.dir+"a", p.dir+"b"), fs.ErrExist)
	p.reads("a", "A")
	p.reads("b", "B")
	p.want(p.Rename(p.dir+"none", p.dir+"c"), fs.ErrNotExist)
	p.want(p.Rename(p.dir+"a", p.dir+"no/such/directory"), fs.ErrNotExist)
	p.no(p.Rename(p.dir+"a", p.dir+"c"))
	p.no(p.MakeDir(p.dir + "d"))
	p.no(p.Rename(p.dir+"b", p.dir+"d/b"))
	p.holds("", "c", "d")
	p.reads("c", "A")
	p.reads("d/b", "B")
	p.write("a", "again")
}

func removed(p *place) {
	p.write("d/a", "")
	p.want(p.Remove(p.dir+"none"), fs.ErrNotExist)
	if p.Remove(p.dir+"d") == nil {
		p.Fatal("a directory was removed with what is in it")
	}
	p.no(p.Remove(p.dir + "d/a"))
	p.no(p.Remove(p.dir + "d"))
	p.holds("")
	_, err := p.Stat(p.dir + "d")
	p.want(err, fs.ErrNotExist)
}

func listed(p *place) {
	_, err := p.List(p.dir + "none")
	p.want(err, fs.ErrNotExist)
	p.no(p.MakeDir(p.dir + "empty"))
	p.holds("empty")
	for _, name := range []string{"b", "a/deep/er", "c", ".hidden", "a-b"} {
		p.write(name, "xyz")
	}
	if _, err = p.List(p.dir + "b"); err == nil {
		p.Fatal("a file was listed as a directory")
	}
	p.holds("", ".hidden", "a", "a-b", "b", "c", "empty")
	entries, err := p.List(p.dir)
	p.no(err)
	if a := entries[1]; !a.Dir || a.Regular {
		p.Fatalf("a directory is listed as %+v", a)
	}
	if b := entries[3]; b.Dir || !b.Regular || b.Size != 3 {
		p.Fatalf("a file of 3 bytes is listed as %+v", b)
	}
}

func described(p *place) {
	p.write("d/file", "12345")
	e, err := p.Stat(p.dir + "d/file")
	p.no(err)
	if e.Name != "file" || e.Dir || !e.Regular || e.Size != 5 {
		p.Fatalf("a file is %+v", e)
	}
	e, err = p.Stat(p.dir + "d")
	p.no(err)
	if e.Name != "d" || !e.Dir || e.Regular {
		p.Fatalf("a directory is %+v", e)
	}
	_, err = p.Stat(p.dir + "d/none")
	p.want(err, fs.ErrNotExist)
}

func directories(p *place) {
	p.no(p.MakeDir(p.dir + "a/b/c"))
	p.no(p.MakeDir(p.dir + "a/b/c"))
	p.no(p.MakeDir(p.dir + "a"))
	p.holds("a", "b")
	p.write("file", "")
	if p.MakeDir(p.dir+"file") == nil || p.MakeDir(p.dir+"file/below") == nil {
		p.Fatal("a file was taken for a directory")
	}
}

func locked(p *place) {
	_, err := p.Lock(p.dir + "d")
	p.want(err, fs.ErrNotExist)
	p.no(p.MakeDir(p.dir + "d"))
	p.no(p.MakeDir(p.dir + "e"))
	lock, err := p.Lock(p.dir + "d")
	p.no(err)
	_, err = p.Lock(p.dir + "d")
	p.want(err, filesystem.ErrLocked)
	other, err := p.Lock(p.dir + "e")
	p.no(err)
	p.no(other.Unlock())
	p.no(lock.Unlock())
	lock, err = p.Lock(p.dir + "d")
	p.no(err)
	p.no(lock.Unlock())
	p.holds("d")
	p.holds("", "d", "e")
}
