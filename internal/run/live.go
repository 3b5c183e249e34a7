package run

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/weirstream/weir/filesystem"
)

// Live is a run that this process holds. It is used by one goroutine at a time.
type Live struct {
	book  *Book
	entry entry
	lock  filesystem.Lock // nil when closed
}

// Run returns what is on record.
func (l *Live) Run() Run { return l.entry.Run }

// Dir returns the run's own directory.
func (l *Live) Dir() string { return l.entry.Dir(l.book.dir) }

// Newest returns the run of the same job that began last: this one, unless another has
// begun since. It can be asked for after Close, too.
func (l *Live) Newest() (Run, error) {
	e, err := l.book.newest(l.entry.Job)
	return e.Run, err
}

// End puts the end of the run on record. Nothing that the run could still need
// is deleted before it returns nil. When it returns an error, what is on record
// isn't known, and it may be called again.
func (l *Live) End(end End, detail string) error {
	l.entry.End, l.entry.Detail = end, detail
	if err := l.write(); err != nil {
		return fmt.Errorf("end run %s of job %q: %w", l.entry.ID, l.entry.Job, err)
	}
	return nil
}

// GoOnFrom puts on record that the run goes on from a savepoint. After an error that
// may be on record or not.
func (l *Live) GoOnFrom(p Savepoint) error {
	l.entry.Savepoint = p
	if err := l.write(); err != nil {
		return fmt.Errorf("run %s of job %q: %w", l.entry.ID, l.entry.Job, err)
	}
	return nil
}

// Withdraw takes back a run that has had no effect yet, as if it had never begun:
// the one before it is the newest again. Then it gives it up.
func (l *Live) Withdraw() error {
	var errs []error
	for _, p := range l.entry.places {
		if p.version > 0 {
			errs = append(errs, l.book.fs.Remove(l.book.path(p.String())))
		}
	}
	if !l.entry.Flat {
		errs = append(errs, l.book.fs.Remove(l.Dir()))
	}
	errs = append(errs, l.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("withdraw run %s of job %q: %w", l.entry.ID, l.entry.Job, err)
	}
	return nil
}

// Leave takes back a run that has just been started: one that is new has never been,
// and one that was resumed can be resumed again.
func (l *Live) Leave() error {
	if l.entry.Starts == 1 {
		return l.Withdraw()
	}
	return l.Close()
}

// Close gives the run up; without an end on record, another process may go on
// with it.
func (l *Live) Close() error {
	if l.lock == nil {
		return nil
	}
	lock := l.lock
	l.lock = nil
	return lock.Unlock()
}

// write writes the next version of the record, and then removes the older ones.
func (l *Live) write() error {
	if l.lock == nil {
		return errors.New("the run has been given up")
	}
	content, err := encode(l.entry.Run)
	if err != nil {
		return err
	}
	// A version whose outcome isn't known is never tried again.
	old := l.entry.places
	at := old[0]
	at.version++
	l.entry.places = append([]place{at}, old...)
	if err := l.book.put(at.String(), content); err != nil {
		return err
	}
	for _, p := range old {
		if p.version > 0 {
			l.book.fs.Remove(l.book.path(p.String())) // one that stays does no harm
		}
	}
	l.entry.places = l.entry.places[:1]
	return nil
}

// put makes a file, whole or not at all. Only one process at a time puts a file
// of this name, so that an unfinished one was left by a dead one.
func (b *Book) put(name string, content []byte) error {
	temp := b.path("." + name)
	if err := b.fs.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := b.fs.Create(temp)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return errors.Join(err, b.fs.Remove(temp))
	}
	return b.fs.Rename(temp, b.path(name))
}
