package run

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/filesystem"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func id(n int) string { return fmt.Sprintf("%032x", n) }

func begin(t *testing.T, b *Book, job string, n int) *Live {
	t.Helper()
	l, err := b.Begin(Run{Job: job, ID: id(n), Started: noon})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func resume(t *testing.T, b *Book, job string) (*Live, Run) {
	t.Helper()
	l, found, err := b.Resume(job)
	if err != nil {
		t.Fatal(err)
	}
	return l, found
}

func end(t *testing.T, l *Live, e End, detail string) {
	t.Helper()
	if err := errors.Join(l.End(e, detail), l.Close()); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, f filesystem.FileSystem, dir string) (names []string) {
	t.Helper()
	entries, err := f.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func TestKilledRunGoesOnUnderItsID(t *testing.T) {
	m := filesystem.NewMemory()
	b := Open(m, "/wc")
	if _, _, err := b.Resume("count"); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	want := Run{Job: "count", ID: id(1), Started: noon, From: Origin{Path: "/old/chk-3", Checkpoint: 3, JobID: id(9)}}
	if _, err := b.Begin(want); err != nil {
		t.Fatal(err)
	}
	for starts := 1; starts < 4; starts++ {
		m.Crash(nil)
		l, found := resume(t, b, "count")
		if want.Starts = starts; found != want {
			t.Fatalf("found %+v, want %+v", found, want)
		}
		if want.Starts++; l.Run() != want || l.Dir() != "/wc/"+id(1) {
			t.Fatalf("resumed %+v in %s, want %+v", l.Run(), l.Dir(), want)
		}
	}
	if got := files(t, m, "/wc/.runs"); len(got) != 1 {
		t.Fatal("old versions stay:", got)
	}
}

func TestHowARunEndedDecidesWhetherItGoesOn(t *testing.T) {
	for _, test := range []struct {
		end    End
		detail string
		want   error
		text   string
	}{
		{Finished, "", ErrFinished, "it has finished"},
		{Cancelled, "", ErrCancelled, "it was cancelled"},
		{Stopped, "/sp/savepoint-1", ErrStopped, "-s /sp/savepoint-1"},
		{"melted", "", nil, `"melted"`},
	} {
		b := Open(filesystem.NewMemory(), "/wc")
		end(t, begin(t, b, "count", 1), test.end, test.detail)
		_, found, err := b.Resume("count")
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || !strings.Contains(err.Error(), id(1)) {
			t.Errorf("%s: %v", test.end, err)
		}
		if found.ID != id(1) || found.End != test.end {
			t.Errorf("%s: found %+v", test.end, found)
		}
	}
	for _, e := range []End{Failed, Suspended} {
		b := Open(filesystem.NewMemory(), "/wc")
		end(t, begin(t, b, "count", 1), e, "why")
		l, found := resume(t, b, "count")
		if found.End != e || found.Detail != "why" || l.Run().End != "" || l.Run().Detail != "" {
			t.Errorf("%s: found %+v, goes on as %+v", e, found, l.Run())
		}
	}
}

func TestNewestIsTheOneThatBeganLast(t *testing.T) {
	b := Open(filesystem.NewMemory(), "/wc")
	for _, n := range []int{5, 9, 2} { // all within one tick of the clock
		end(t, begin(t, b, "count", n), Suspended, "")
	}
	l, _ := resume(t, b, "count")
	if l.Run().ID != id(2) {
		t.Fatal(l.Run())
	}
	end(t, l, Finished, "")
	if _, _, err := b.Resume("count"); !errors.Is(err, ErrFinished) {
		t.Fatal("an older run was taken for the newest:", err)
	}
	if _, err := b.Begin(Run{Job: "other", ID: id(5)}); !errors.Is(err, fs.ErrExist) {
		t.Fatal("an id was given twice:", err)
	}
}

func TestAllRunsAreListedTheLastOneFirst(t *testing.T) {
	m := filesystem.NewMemory()
	b := Open(m, "/wc")
	if all, err := b.All(); len(all) > 0 || err != nil {
		t.Fatal(all, err)
	}
	end(t, begin(t, b, "count", 9), Finished, "")
	begin(t, b, "sort", 3)
	spoil(t, m, "/wc/.runs/00000003-"+id(5)+".1", "nonsense")
	all, err := b.All()
	if len(all) != 2 || all[0].Job != "sort" || all[1].End != Finished || !errors.Is(err, errTorn) {
		t.Error(all, err)
	}
}

func TestWithdrawnRunHasNeverBeen(t *testing.T) {
	m := filesystem.NewMemory()
	b := Open(m, "/wc")
	begin(t, b, "count", 1).Close()
	if err := begin(t, b, "count", 2).Withdraw(); err != nil {
		t.Fatal(err)
	}
	if l, _ := resume(t, b, "count"); l.Run().ID != id(1) {
		t.Fatal(l.Run())
	}
	if got := files(t, m, "/wc"); len(got) != 2 { // .runs and the first
		t.Fatal(got)
	}
}

func TestClockThatGoesBackDoesNotMatter(t *testing.T) {
	b := Open(filesystem.NewMemory(), "/wc")
	begin(t, b, "count", 1).Close()
	l, err := b.Begin(Run{Job: "count", ID: id(2), Started: noon.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if l, _ := resume(t, b, "count"); l.Run().ID != id(2) {
		t.Fatal(l.Run())
	}
}

// S47
func TestTwoJobsShareOneDirectory(t *testing.T) {
	b := Open(filesystem.NewMemory(), "/wc")
	one, two := begin(t, b, "one", 1), begin(t, b, "two", 2)
	end(t, one, Suspended, "")
	l, _ := resume(t, b, "one")
	if l.Run().ID != id(1) {
		t.Fatal(l.Run())
	}
	if _, _, err := b.Resume("two"); !errors.Is(err, ErrAlive) {
		t.Fatal(err)
	}
	end(t, two, Finished, "")
	if _, _, err := b.Resume("three"); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
}

func TestTheLivingIsRefusedAndTheDeadIsNot(t *testing.T) {
	dir := filepath.ToSlash(t.TempDir())
	mine, theirs := Open(filesystem.Local{}, dir), Open(filesystem.Local{}, dir)
	l := begin(t, mine, "count", 1)
	_, found, err := theirs.Resume("count")
	if !errors.Is(err, ErrAlive) || found.ID != id(1) {
		t.Fatal(found, err)
	}
	l.Close()
	if l.End(Finished, "") == nil {
		t.Fatal("a run that was given up has written its record")
	}
	l, _ = resume(t, theirs, "count")
	end(t, l, Finished, "")
	if got := files(t, filesystem.Local{}, dir+"/"+id(1)); len(got) != 0 {
		t.Fatal("the lock left a file:", got)
	}
}

func TestOfTwoThatResumeAtOnceOneGetsIt(t *testing.T) {
	dir := filepath.ToSlash(t.TempDir())
	begin(t, Open(filesystem.Local{}, dir), "count", 1).Close()
	for round := range 30 {
		var lives [3]*Live
		var errs [3]error
		var all sync.WaitGroup
		for i := range lives {
			all.Go(func() { lives[i], _, errs[i] = Open(filesystem.Local{}, dir).Resume("count") })
		}
		all.Wait()
		got := 0
		for i, l := range lives {
			switch {
			case l != nil:
				got++
				if l.Run().Starts != round+2 {
					t.Fatal(round, l.Run())
				}
				l.Close()
			case !errors.Is(errs[i], ErrAlive):
				t.Fatal(errs[i])
			}
		}
		if got != 1 {
			t.Fatal(got, "have it:", errs)
		}
	}
}

// spoil overwrites a record.
func spoil(t *testing.T, f filesystem.FileSystem, name, content string) {
	t.Helper()
	f.Remove(name)
	w, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableIsNeverNothingThere(t *testing.T) {
	m := filesystem.NewMemory()
	b := Open(m, "/wc")
	end(t, begin(t, b, "count", 1), Suspended, "")
	end(t, begin(t, b, "other", 2), Suspended, "")
	good, err := encode(Run{Job: "other", ID: id(2)})
	if err != nil {
		t.Fatal(err)
	}
	record := "/wc/.runs/00000002-" + id(2) + ".2"
	for size := range good {
		spoil(t, m, record, string(good[:size]))
		_, _, err := b.Resume("count") // the damaged one might be it
		if err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), record) {
			t.Fatalf("%d of %d bytes: %v", size, len(good), err)
		}
	}
	for i := range good {
		bad := []byte(string(good))
		bad[i] ^= 1
		spoil(t, m, record, string(bad))
		if _, _, err := b.Resume("count"); !errors.Is(err, errTorn) {
			t.Fatalf("bit 0 of byte %d: %v", i, err)
		}
	}
	newer := "weir run 9\n{}\n"
	spoil(t, m, record, fmt.Sprintf("%scrc32c %08x\n", newer, checksum([]byte(newer))))
	if _, _, err := b.Resume("count"); err == nil || !strings.Contains(err.Error(), "written by version 9, this program reads up to 2") {
		t.Fatal(err)
	}
	// An older version of the record is as good.
	spoil(t, m, record, string(good[:20]))
	spoil(t, m, "/wc/.runs/00000002-"+id(2)+".1", string(good))
	l, _ := resume(t, b, "other")
	if got := files(t, m, "/wc/.runs"); l.Run().Starts != 1 || len(got) != 2 || !strings.HasSuffix(got[1], ".3") {
		t.Fatal(l.Run(), got)
	}
	// Neither is a run whose directory is gone, nor a disk that doesn't answer.
	l.Close()
	if err := m.Remove("/wc/" + id(2)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Resume("other"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	for _, op := range []string{"list", "open", "read", "lock"} {
		sick := &filesystem.Faulty{FileSystem: m, Before: func(o, _ string) error {
			if o == op {
				return syscall.EIO
			}
			return nil
		}}
		if _, _, err := Open(sick, "/wc").Resume("count"); !errors.Is(err, syscall.EIO) {
			t.Fatal(op, err)
		}
	}
}

// Records stay readable for ever: this one, shown in docs/format.md, is of
// version 1.
func TestVersion1IsReadAndWritten(t *testing.T) {
	const record = `weir run 1
{"job":"wordcount","id":"00000000000000000000000000000007","started":"2026-01-02T12:00:00Z","starts":2,"from":{"path":"/tmp/wc/x/chk-7","checkpoint":7,"job_id":"00000000000000000000000000000009"},"end":"stopped","detail":"/tmp/sp"}
crc32c 836ce2e4
`
	want := Run{
		Job: "wordcount", ID: id(7), Started: noon, Starts: 2, From: Origin{Path: "/tmp/wc/x/chk-7", Checkpoint: 7, JobID: id(9)},
		End: Stopped, Detail: "/tmp/sp",
	}
	if got, err := decode([]byte(record)); err != nil || got != want {
		t.Fatal(got, err)
	}
	if got, err := encode(want); err != nil || string(got) != record {
		t.Fatal(string(got), err)
	}
}

// The same of version 2, which only flat runs have.
func TestVersion2IsReadAndWritten(t *testing.T) {
	const record = `weir run 2
{"job":"wordcount","id":"00000000000000000000000000000007","started":"2026-01-02T12:00:00Z","starts":1,"flat":true,"from":{"path":"file:///sp","claimed":true,"checkpoint":7,"job_id":"00000000000000000000000000000009","taken":"2026-01-02T11:00:00.000000001Z"}}
crc32c f6adf09f
`
	want := Run{
		Job: "wordcount", ID: id(7), Started: noon, Starts: 1, Flat: true,
		From: Origin{Path: "file:///sp", Claimed: true, Checkpoint: 7, JobID: id(9), Taken: noon.Add(1 - time.Hour)},
	}
	if got, err := decode([]byte(record)); err != nil || got != want {
		t.Fatal(got, err)
	}
	if got, err := encode(want); err != nil || string(got) != record {
		t.Fatal(string(got), err)
	}
}

// A flat run has the book's directory to itself while it is alive, and can be gone on
// with; when it is over, another may have it.
func TestFlatRunHasTheDirectoryToItself(t *testing.T) {
	m := filesystem.NewMemory()
	b := Open(m, "/wc")
	l, err := b.Begin(Run{Job: "count", ID: id(1), Flat: true})
	if err != nil || l.Dir() != "/wc" {
		t.Fatal(l.Dir(), err)
	}
	if _, err := b.Begin(Run{Job: "sort", ID: id(2), Flat: true}); !errors.Is(err, filesystem.ErrLocked) || !strings.Contains(err.Error(), "another run is alive in /wc") {
		t.Fatal(err)
	}
	begin(t, b, "beside", 3).Close()
	m.Crash(nil)
	l, found := resume(t, b, "count")
	if !found.Flat || l.Dir() != "/wc" {
		t.Fatal(found, l.Dir())
	}
	end(t, l, Finished, "")
	l, err = b.Begin(Run{Job: "sort", ID: id(2), Flat: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Withdraw(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Resume("sort"); !errors.Is(err, ErrNone) {
		t.Fatal("it was withdrawn:", err)
	}
}

func TestRecordReplacedWhileLookingIsReadAgain(t *testing.T) {
	m := filesystem.NewMemory()
	l := begin(t, Open(m, "/wc"), "count", 1)
	opened := 0
	f := &filesystem.Faulty{FileSystem: m, Before: func(op, _ string) error {
		if op == "open" {
			if opened++; opened == 1 {
				end(t, l, Suspended, "")
			}
		}
		return nil
	}}
	if _, found := resume(t, Open(f, "/wc"), "count"); found.End != Suspended || opened < 2 {
		t.Fatal(found, opened)
	}
}

func TestRunThatEndsWhileItIsResumedIsNotRunAgain(t *testing.T) {
	m := filesystem.NewMemory()
	l := begin(t, Open(m, "/wc"), "count", 1)
	f := &filesystem.Faulty{FileSystem: m, Before: func(op, _ string) error {
		if op == "lock" {
			end(t, l, Finished, "")
		}
		return nil
	}}
	if _, _, err := Open(f, "/wc").Resume("count"); !errors.Is(err, ErrFinished) {
		t.Fatal(err)
	}
	if _, _, err := Open(m, "/wc").Resume("count"); !errors.Is(err, ErrFinished) {
		t.Fatal(err)
	}
}

func TestFullDiskLosesNoRecord(t *testing.T) {
	m := filesystem.NewMemory()
	full := false
	f := &filesystem.Faulty{FileSystem: m, Before: func(op, _ string) error {
		if full && op == "write" {
			return filesystem.Torn{Bytes: 10, Err: syscall.ENOSPC}
		}
		return nil
	}}
	l := begin(t, Open(f, "/wc"), "count", 1)
	full = true
	if err := l.End(Finished, ""); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, _, err := Open(f, "/wc").Resume("count"); !errors.Is(err, ErrAlive) {
		t.Fatal(err)
	}
	full = false
	end(t, l, Finished, "")
	if got := files(t, m, "/wc/.runs"); len(got) != 1 {
		t.Fatal(got)
	}
	if _, _, err := Open(m, "/wc").Resume("count"); !errors.Is(err, ErrFinished) {
		t.Fatal(err)
	}
}

var seed = flag.Uint64("seed", 0, "of the random walk; 0: one that is new every time")

var errDead = errors.New("the machine is dead")

// fuse is a file system that dies with its n-th operation, before or after it
// is done.
func fuse(m *filesystem.Memory, n int, after bool) *filesystem.Faulty {
	burn := func(at int) error {
		if n < at {
			return errDead
		}
		return nil
	}
	return &filesystem.Faulty{
		FileSystem: m,
		Before: func(string, string) error {
			if n--; after {
				return burn(-1)
			}
			return burn(0)
		},
		After: func(string, string) error { return burn(0) },
	}
}

// A book whose machine crashes again and again, at every operation there is,
// never forgets what it has said: a run that began is found, its starts only
// grow, and what ended for good has ended.
func TestNoCrashForgetsARun(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	rnd := rand.New(rand.NewPCG(s, 0))
	story := func(deaths func() int, after bool, keep func(filesystem.Change) int) {
		m := filesystem.NewMemory()
		said := Run{} // the last that a Begin, Resume or End without an error has said
		tried := End("")
		for life := 1; life < 20; life++ {
			f := fuse(m, deaths(), after)
			b := Open(f, "/wc")
			l, found, err := b.Resume("count")
			switch {
			case errors.Is(err, ErrNone) && said.ID == "":
				l, err = b.Begin(Run{Job: "count", ID: id(life), Started: noon})
			case errors.Is(err, ErrFinished) && tried == Finished:
				return
			}
			if err == nil {
				forgotten := found.Starts == said.Starts && said.End != "" && found.End != said.End
				if said.ID != "" && l.Run().ID != said.ID || l.Run().Starts <= said.Starts || said.End == Finished || forgotten {
					t.Fatalf("seed %d: was %+v, found %+v, now %+v", s, said, found, l.Run())
				}
				said, tried = l.Run(), []End{Failed, Finished}[life%2]
				if err = l.End(tried, ""); err == nil {
					said = l.Run()
				}
			}
			if err != nil && !errors.Is(err, errDead) {
				t.Fatalf("seed %d: after %+v: %v", s, said, err)
			}
			m.Crash(keep)
		}
	}
	keeps := []func(filesystem.Change) int{
		nil,
		func(c filesystem.Change) int { return c.Bytes },
		func(c filesystem.Change) int { return rnd.IntN(c.Bytes + 1) },
	}
	for _, keep := range keeps {
		for _, after := range []bool{false, true} {
			for op := range 60 {
				story(func() int { return op }, after, keep)
				once := op
				story(func() int { n := once; once = 1000; return n }, after, keep)
			}
			for range 300 {
				story(func() int { return rnd.IntN(50) }, after, keep)
			}
		}
	}
}

// TestSavepointToGoOnFromIsOnRecord notes one while a run is alive. Whoever resumes it
// finds the last one noted.
func TestSavepointToGoOnFromIsOnRecord(t *testing.T) {
	m := filesystem.NewMemory()
	l := begin(t, Open(m, "/wc"), "count", 1)
	want := Savepoint{"/points/savepoint-2", 9, true}
	for _, p := range []Savepoint{{"/points/savepoint-1", 7, false}, want} {
		if err := l.GoOnFrom(p); err != nil {
			t.Fatal(err)
		}
	}
	end(t, l, Suspended, "")
	l, found := resume(t, Open(m, "/wc"), "count")
	if found.Savepoint != want || l.Run().Savepoint != want {
		t.Errorf("%+v, and then %+v", found, l.Run())
	}
	l.Close()
	if err := l.GoOnFrom(want); err == nil || !strings.Contains(err.Error(), `"count"`) {
		t.Error(err)
	}
}
