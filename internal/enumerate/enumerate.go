package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/weirstream/weir/filesystem"
)

// An output writes bytes to one file after the other, and loses nothing when
// that fails: then everything is in a known place still, and the next call
// tries again.
//
// A file on which a write or a sync has failed can't be trusted beyond the
// last sync that succeeded: half a write may be there, and what a failed sync
// was about may be gone although the next one succeeds. So what isn't synced
// stays in memory, and such a file is replaced by a new one:
//
//	safe bytes, synced   | tail, in memory
//	copied from the file | written again
type output struct {
	files filesystem.FileSystem
	dir   string
	roll  int64 // size at which a file ends
	piece int   // how much is written at a time
	loose int   // how much stays in memory before it is synced
	last  part  // the latest name given

	ended []Part // whole files, not handed out yet

	name string            // of the current file; "" if there is none
	file filesystem.Writer // to the current file; nil if there is none, or it can't be trusted
	safe int64
	tail []byte
	sent int // how much of tail was written to file

	litter []string // files that are to be removed
}

// size is that of the current file, when all of tail will have been written.
func (o *output) size() int64 { return o.safe + int64(len(o.tail)) }

// grown is called when something was appended to tail.
func (o *output) grown() error {
	switch {
	case o.size() >= o.roll:
		return o.end()
	case len(o.tail) >= o.loose:
		return o.sync()
	case len(o.tail)-o.sent >= o.piece:
		return o.push()
	}
	return nil
}

// end ends the current file, if it has one byte at least.
func (o *output) end() error {
	if o.size() == 0 {
		return nil
	}
	if err := o.sync(); err != nil {
		return err
	}
	if err := o.file.Close(); err != nil {
		return o.distrust(err)
	}
	o.ended = append(o.ended, Part{Name: o.name, Size: o.safe})
	o.name, o.file, o.safe = "", nil, 0
	return nil
}

// sync makes all of tail safe.
func (o *output) sync() error {
	if err := o.push(); err != nil {
		return err
	}
	if err := o.file.Sync(); err != nil {
		return o.distrust(err)
	}
	o.safe, o.tail, o.sent = o.size(), o.tail[:0], 0
	return nil
}

// push writes what hasn't been written of tail.
func (o *output) push() error {
	if o.file == nil {
		if err := o.create(); err != nil {
			return fmt.Errorf("create %q: %w", o.path(o.last.hidden()), err)
		}
	}
	if _, err := o.file.Write(o.tail[o.sent:]); err != nil {
		return o.distrust(err)
	}
	o.sent = len(o.tail)
	return nil
}

// distrust gives the current file up, as far as it isn't safe.
func (o *output) distrust(err error) error {
	err = fmt.Errorf("write %q: %w", o.path(o.name), err)
	o.file.Close() // an error doesn't matter any more
	o.file, o.sent = nil, 0
	if o.safe == 0 {
		o.remove(o.name)
		o.name = ""
	}
	return err
}

// create begins a file with what is safe of the current one, and puts it in its
// place.
func (o *output) create() error {
	o.last.n++
	name := o.last.hidden()
	file, err := o.files.Create(o.path(name))
	switch {
	case errors.Is(err, fs.ErrExist): // not ours
		return err
	case err != nil: // it may be there nevertheless
		o.remove(name)
		return err
	}
	if err := o.salvage(file); err != nil {
		file.Close() // the file goes anyway
		o.remove(name)
		return err
	}
	if o.name != "" {
		o.remove(o.name)
	}
	o.name, o.file = name, file
	return nil
}

// salvage copies what is safe of the current file, and syncs it.
func (o *output) salvage(to filesystem.Writer) error {
	if o.safe == 0 {
		return nil
	}
	from, err := o.files.Open(o.path(o.name))
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := io.Copy(to, io.NewSectionReader(from, 0, o.safe)); err != nil {
		return err
	}
	return to.Sync()
}

// remove removes a file, now or later.
func (o *output) remove(name string) {
	o.litter = append(o.litter, name)
	_ = o.sweep()
}

// sweep removes the litter. What can't be removed stays on the list.
func (o *output) sweep() (err error) {
	o.litter = slices.DeleteFunc(o.litter, func(name string) bool {
		e := o.files.Remove(o.path(name))
		if gone := e == nil || errors.Is(e, fs.ErrNotExist); gone {
			return true
		}
		err = errors.Join(err, e)
		return false
	})
	return err
}

// discard removes everything that wasn't handed out.
func (o *output) discard() error {
	if o.file != nil {
		o.file.Close() // the file goes anyway
	}
	if o.name != "" {
		o.litter = append(o.litter, o.name)
	}
	for _, p := range o.ended {
		o.litter = append(o.litter, p.Name)
	}
	return o.sweep()
}

func (o *output) path(name string) string { return path.Join(o.dir, name) }
