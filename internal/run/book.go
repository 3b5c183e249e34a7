package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/weirstream/weir/filesystem"
)

// A Book knows the runs of one checkpoint directory.
type Book struct {
	fs  filesystem.FileSystem
	dir string
}

// Open returns the book of a checkpoint directory, which need not exist yet.
func Open(fs filesystem.FileSystem, dir string) *Book { return &Book{fs, dir} }

func (b *Book) path(file string) string { return b.dir + "/.runs/" + file }

// Begin enters a new run, of which Job, ID, Started, Flat and From are given, and makes
// its directory. It is on record when Begin returns.
func (b *Book) Begin(r Run) (*Live, error) {
	l, err := b.begin(r)
	if err != nil {
		return nil, fmt.Errorf("begin run %s of job %q: %w", r.ID, r.Job, err)
	}
	return l, nil
}

func (b *Book) begin(r Run) (*Live, error) {
	if !validID(r.ID) || r.Job == "" {
		return nil, errors.New("a run needs the job's name and an id of 32 hexadecimal digits")
	}
	places, err := b.list()
	if err != nil {
		return nil, err
	}
	at := place{order: 1, id: r.ID}
	for _, p := range places {
		at.order = max(at.order, p.order+1)
		if p.id == r.ID {
			return nil, fmt.Errorf("the id is taken: %w", fs.ErrExist)
		}
	}
	dir := r.Dir(b.dir)
	if err := b.fs.MakeDir(dir); err != nil {
		return nil, err
	}
	lock, err := b.fs.Lock(dir)
	if errors.Is(err, filesystem.ErrLocked) {
		err = fmt.Errorf("another run is alive in %s: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	r.Starts, r.End, r.Detail = 1, "", ""
	return b.start(entry{r, []place{at}}, lock)
}

// Resume takes over the newest run of a job, and also returns what was on record
// before. It is ErrNone if there is no run, ErrFinished, ErrCancelled or
// ErrStopped if the newest has ended for good, and ErrAlive if it hasn't ended at
// all; then the Run is still returned. With any other error, it isn't known
// whether there is one.
func (b *Book) Resume(job string) (*Live, Run, error) {
	l, found, err := b.resume(job)
	switch {
	case errors.Is(err, ErrNone) || err != nil && found.ID == "":
		err = fmt.Errorf("look for the newest run of job %q in %s: %w", job, b.dir, err)
	case err != nil:
		err = fmt.Errorf("resume run %s of job %q in %s: %w", found.ID, job, b.dir, err)
	}
	return l, found, err
}

func (b *Book) resume(job string) (*Live, Run, error) {
	found, err := b.newest(job)
	if err == nil {
		err = found.over()
	}
	if err != nil {
		return nil, found.Run, err
	}
	lock, err := b.fs.Lock(found.Dir(b.dir))
	if errors.Is(err, filesystem.ErrLocked) {
		err = fmt.Errorf("%w: %w", ErrAlive, err)
	}
	if err != nil {
		return nil, found.Run, err
	}
	// What was read before the lock was taken may not be true any more.
	again, err := b.newest(job)
	switch {
	case err == nil && again.ID != found.ID:
		err = fmt.Errorf("%w: run %s began just now", ErrAlive, again.ID)
	case err == nil:
		err = again.over()
	}
	if err != nil {
		return nil, again.Run, errors.Join(err, lock.Unlock())
	}
	before := again.Run
	again.Starts++
	again.End, again.Detail = "", ""
	l, err := b.start(again, lock)
	return l, before, err
}

// start puts the record of a run that has just been locked on storage.
func (b *Book) start(e entry, lock filesystem.Lock) (*Live, error) {
	l := &Live{book: b, entry: e, lock: lock}
	if err := l.write(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return l, nil
}

// An entry is a run and where its record lies, the newest version first. There
// is always a place; that of a run that isn't on record yet has version 0.
type entry struct {
	Run
	places []place
}

// newest returns the run of a job that began last.
func (b *Book) newest(job string) (found entry, err error) {
	err = b.settled(func(places []place) (wrong error) {
		found, wrong = b.find(job, places)
		return wrong
	})
	return found, err
}

// settled calls look with the places of all records, until they are what they
// were before. A directory isn't listed at one moment: of a record that is
// replaced meanwhile, neither version may be seen, and the run would seem never to
// have been. So only what two lists in a row agree on counts.
func (b *Book) settled(look func([]place) error) error {
	places, err := b.list()
	for range 100 {
		if err != nil {
			return err
		}
		wrong := look(places)
		var again []place
		if again, err = b.list(); err == nil && slices.Equal(places, again) {
			return wrong
		}
		places = again
	}
	return errors.New("the records keep changing")
}

// list returns the places of all records, the last run and its newest version
// first.
func (b *Book) list() ([]place, error) {
	files, err := b.fs.List(b.path(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var places []place
	for _, f := range files {
		if p, ok := parsePlace(f.Name); ok {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(p, q place) int {
		return cmp.Or(cmp.Compare(q.order, p.order), strings.Compare(q.id, p.id), cmp.Compare(q.version, p.version))
	})
	return places, nil
}

// All returns the runs on record, the last one first. A record that can't be read
// is left out, and is a part of the error.
func (b *Book) All() (all []Run, err error) {
	err = b.settled(func(places []place) error {
		all = nil
		var errs []error
		for len(places) > 0 {
			n := versions(places)
			r, err := b.read(places[:n])
			if err == nil {
				all = append(all, r)
			}
			errs = append(errs, err)
			places = places[n:]
		}
		return errors.Join(errs...)
	})
	if err != nil {
		err = fmt.Errorf("list the runs in %s: %w", b.dir, err)
	}
	return all, err
}

// versions returns how many of the places, from the first on, are of one run.
func versions(places []place) int {
	n := slices.IndexFunc(places, func(p place) bool { return p.id != places[0].id })
	if n < 0 {
		n = len(places)
	}
	return n
}

// find returns the first run of a job.
func (b *Book) find(job string, places []place) (entry, error) {
	for len(places) > 0 {
		n := versions(places)
		r, err := b.read(places[:n])
		if err != nil || r.Job == job {
			return entry{r, places[:n]}, err
		}
		places = places[n:]
	}
	return entry{}, ErrNone
}

// read returns the newest version of a run that isn't damaged. A run without one
// is an error: it may be the very run that is looked for.
func (b *Book) read(versions []place) (Run, error) {
	var damage error
	for _, p := range versions {
		r, err := b.readFile(p)
		if !errors.Is(err, errTorn) {
			return r, err
		}
		damage = errors.Join(damage, err)
	}
	return Run{}, damage
}

func (b *Book) readFile(p place) (r Run, err error) {
	f, err := b.fs.Open(b.path(p.String()))
	if err != nil {
		return r, err
	}
	content, err := io.ReadAll(f)
	if err == nil {
		r, err = decode(content)
	}
	if err == nil && r.ID != p.id {
		err = fmt.Errorf("%w: it is that of run %s", errTorn, r.ID)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return Run{}, fmt.Errorf("read %s: %w", b.path(p.String()), err)
	}
	return r, nil
}
