package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/state"
)

// Place is where checkpoints are written, or one savepoint. Its methods may block; of
// two about one checkpoint, one is called after the other has returned.
type Place interface {
	// Begin makes room for a checkpoint, before anything is written for it.
	Begin(n uint64) error
	// Dir is the URI of the directory that a checkpoint's files go to, empty
	// where they are all kept inline.
	Dir(n uint64) string
	// Store makes a checkpoint complete: whole, or not at all. After ErrUnknown
	// it may be either, and nothing of it may be deleted.
	Store(cp Checkpoint) error
	// Release deletes what one subtask wrote for a checkpoint that was dropped.
	Release(n uint64, t Task) error
	// Discard deletes a checkpoint. What is gone already is fine.
	Discard(n uint64) error
}

// Storage is where the checkpoints of one job lie.
type Storage interface {
	Place
	// Latest finds the newest checkpoint that verifies. One that is missing a
	// file or is corrupt is passed over, or, without fallback, an error; so is
	// everything else, and so is it if none of several verifies.
	Latest(ctx context.Context, fallback bool) (Found, error)
	// Clean removes what dead processes left behind below checkpoint n, which is
	// complete: unfinished checkpoints, and files in no checkpoint.
	Clean(n uint64) error
	// Clear deletes all checkpoints and the job's directory.
	Clear() error
}

// Found is what Latest has found.
type Found struct {
	Checkpoint *Checkpoint // nil if there is none
	Dir        string      // URI of its directory
	Complete   []uint64    // all that have metadata, oldest first
	Highest    uint64      // number of the newest, complete or not; 0 if there is none
	Skipped    []error     // newer ones that didn't verify, newest first, and why
}

// ErrUnknown says that a write may have happened or not.
var ErrUnknown = errors.New("outcome unknown")

const (
	metadataName = "_metadata"
	unfinished   = "._metadata.inprogress." // and something random
	withdrawn    = "._metadata.deleted."    // so too
)

// Directory is storage in a file system, laid out as Flink does it:
//
//	<job's directory>/chk-<n>/_metadata      last, by a rename
//	                         /<uuid>         files of this checkpoint
//	                 /shared/<uuid>          files of several
//	                 /taskowned/             files that are never deleted
type Directory struct {
	Files  filesystem.FileSystem
	Path   string        // of the job's directory in Files
	URI    string        // of the same, for workers
	Random func() uint64 // safe for concurrent use
	Log    *slog.Logger
}

// Begin implements Storage.
func (d *Directory) Begin(n uint64) error {
	for _, dir := range []string{d.join("shared"), d.join("taskowned"), d.chk(n)} {
		if err := d.Files.MakeDir(dir); err != nil {
			return fmt.Errorf("begin checkpoint %d: %w", n, err)
		}
	}
	return nil
}

// Dir implements Storage.
func (d *Directory) Dir(n uint64) string { return d.URI + "/" + chkName(n) }

// Store implements Storage.
func (d *Directory) Store(cp Checkpoint) error {
	return d.folder(cp.Number).store(cp)
}

func (f folder) store(cp Checkpoint) error {
	temp := f.join(unfinished + uuid(f.random))
	err := writeFile(f.files, temp, Encode(cp))
	if err != nil {
		return errors.Join(fmt.Errorf("store checkpoint %d: %w", cp.Number, err), remove(f.files, temp))
	}
	err = f.files.Rename(temp, f.join(metadataName))
	switch {
	case errors.Is(err, fs.ErrExist):
		return errors.Join(fmt.Errorf("store checkpoint %d: %w", cp.Number, err), remove(f.files, temp))
	case err != nil:
		return fmt.Errorf("store checkpoint %d: %w: %w", cp.Number, ErrUnknown, err)
	}
	return nil
}

func writeFile(files filesystem.FileSystem, name string, data []byte) error {
	w, err := files.Create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err == nil {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

// Release implements Storage.
func (d *Directory) Release(n uint64, t Task) error { return d.folder(n).release(t) }

func (f folder) release(t Task) error {
	var errs []error
	for _, s := range t {
		for file := range s.files {
			if named(file.Name) {
				errs = append(errs, remove(f.files, f.join(file.Name)))
			}
		}
	}
	return errors.Join(append(errs, removeEmpty(f.files, f.path))...)
}

// Discard implements Storage.
func (d *Directory) Discard(n uint64) error { return d.folder(n).discard(n) }

// discard deletes a checkpoint. What isn't ours stays, and so does its directory.
func (f folder) discard(n uint64) error {
	if err := f.withdraw(context.Background(), ours); err != nil {
		return fmt.Errorf("discard checkpoint %d: %w", n, err)
	}
	return nil
}

// withdraw deletes metadata and the files for which of says so, and the directory if
// nothing else is in it. Metadata goes first, and by a rename, which survives a crash
// of the machine as a removal may not: what is half deleted isn't a checkpoint any
// more. Under its new name it goes last, so that whoever finds it can go on.
func (f folder) withdraw(ctx context.Context, of func(filesystem.Entry) bool) error {
	err := f.files.Rename(f.join(metadataName), f.join(withdrawn+uuid(f.random)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := entriesOf(f.files, f.path)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !strings.HasPrefix(e.Name, withdrawn) && of(e) {
			errs = append(errs, remove(f.files, f.join(e.Name)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name, withdrawn) {
			errs = append(errs, remove(f.files, f.join(e.Name)))
		}
	}
	return errors.Join(append(errs, removeEmpty(f.files, f.path))...)
}

// Latest implements Storage.
func (d *Directory) Latest(ctx context.Context, fallback bool) (Found, error) {
	found, err := d.survey()
	if err != nil {
		return Found{}, fmt.Errorf("look for checkpoints in %q: %w", d.Path, err)
	}
	for _, n := range slices.Backward(found.Complete) {
		cp, err := d.verified(ctx, n)
		switch {
		case err == nil:
			found.Checkpoint, found.Dir = &cp, d.Dir(n)
			return found, nil
		case !fallback, !errors.Is(err, ErrCorrupt) && !errors.Is(err, fs.ErrNotExist):
			return found, err
		}
		found.Skipped = append(found.Skipped, err)
	}
	if len(found.Skipped) > 0 {
		return found, fmt.Errorf("none of %d checkpoints in %q can be restored: %w",
			len(found.Skipped), d.Path, errors.Join(found.Skipped...))
	}
	return found, nil
}

// survey finds the checkpoints that there are.
func (d *Directory) survey() (found Found, err error) {
	numbers, err := d.numbers()
	if err != nil || len(numbers) == 0 {
		return Found{}, err
	}
	found.Highest = numbers[len(numbers)-1]
	for _, n := range numbers {
		_, err := d.Files.Stat(path.Join(d.chk(n), metadataName))
		switch {
		case err == nil:
			found.Complete = append(found.Complete, n)
		case !errors.Is(err, fs.ErrNotExist):
			return Found{}, err
		}
	}
	return found, nil
}

// Belongs returns an error if there are checkpoints of another job than the given
// one. Of one that can't be read it isn't known whose it is; so a job that has none yet
// is refused, and one that is resumed isn't.
func (d *Directory) Belongs(jobID string, resumed bool) error {
	found, err := d.survey()
	if err != nil {
		return fmt.Errorf("look for checkpoints in %q: %w", d.Path, err)
	}
	for _, n := range found.Complete {
		cp, _, err := Load(d.Files, d.chk(n))
		switch {
		case err == nil && cp.JobID == jobID, errors.Is(err, ErrCorrupt) && resumed:
		case err == nil:
			return fmt.Errorf("%q is another job's: it holds checkpoint %d of job %q, %s; take another directory, or a directory for each job", d.Path, n, cp.JobName, cp.JobID)
		default:
			return err
		}
	}
	return nil
}

// numbers returns those of all chk- directories, lowest first.
func (d *Directory) numbers() (numbers []uint64, err error) {
	entries, err := entriesOf(d.Files, d.Path)
	for _, e := range entries {
		digits, is := strings.CutPrefix(e.Name, "chk-")
		n, err := strconv.ParseUint(digits, 10, 64)
		if is && e.Dir && err == nil && chkName(n) == e.Name {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

func (d *Directory) verified(ctx context.Context, n uint64) (Checkpoint, error) {
	cp, dir, err := Load(d.Files, d.chk(n))
	if err == nil && cp.Number != n {
		err = fmt.Errorf("checkpoint %q: %w", dir, corrupt("it says that it is checkpoint %d", cp.Number))
	}
	if err == nil {
		err = Verify(ctx, Origin{Files: d.Files, Dir: dir}, cp)
	}
	return cp, err
}

// Clean implements Storage. Files in shared/ stay: a pending checkpoint may be
// about to use them.
func (d *Directory) Clean(n uint64) error {
	numbers, err := d.numbers()
	if err != nil {
		return fmt.Errorf("clean %q: %w", d.Path, err)
	}
	used := map[string]bool{} // paths
	dead := map[uint64]bool{} // without valid metadata
	for _, k := range numbers {
		cp, dir, err := Load(d.Files, d.chk(k))
		switch {
		case err == nil:
			for f := range cp.files {
				used[path.Join(dir, f.Name)] = true
			}
		case errors.Is(err, ErrCorrupt):
			dead[k] = true
		case !errors.Is(err, fs.ErrNotExist): // else it has been discarded meanwhile
			return fmt.Errorf("clean %q: %w", d.Path, err)
		}
	}
	for _, k := range numbers {
		if k < n {
			err = errors.Join(err, d.cleanOne(k, dead[k], used))
		}
	}
	return err
}

func (d *Directory) cleanOne(n uint64, dead bool, used map[string]bool) error {
	entries, err := entriesOf(d.Files, d.chk(n))
	errs := []error{err}
	for _, e := range entries {
		name := path.Join(d.chk(n), e.Name)
		if !ours(e) || used[name] || e.Name == metadataName && !dead {
			continue
		}
		d.Log.Info("remove what a dead process left", "checkpoint", n, "file", name)
		errs = append(errs, remove(d.Files, name))
	}
	if dead {
		errs = append(errs, removeEmpty(d.Files, d.chk(n)))
	}
	return errors.Join(errs...)
}

// Clear implements Storage. What isn't ours stays, with the directories above it.
func (d *Directory) Clear() error {
	numbers, err := d.numbers()
	errs := []error{err}
	for _, n := range numbers {
		errs = append(errs, d.Discard(n))
	}
	for _, dir := range []string{d.join("shared"), d.join("taskowned"), d.Path} {
		errs = append(errs, removeEmpty(d.Files, dir))
	}
	return errors.Join(errs...)
}

func (d *Directory) join(name string) string { return path.Join(d.Path, name) }
func (d *Directory) chk(n uint64) string     { return d.join(chkName(n)) }

func (d *Directory) folder(n uint64) folder { return folder{d.Files, d.chk(n), d.Random} }

func chkName(n uint64) string { return "chk-" + strconv.FormatUint(n, 10) }

// entriesOf is List, with nothing in a directory that isn't there.
func entriesOf(files filesystem.FileSystem, dir string) ([]filesystem.Entry, error) {
	entries, err := files.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// remove is Remove, with success for what is gone already.
func remove(files filesystem.FileSystem, name string) error {
	if err := files.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeEmpty removes a directory, unless there is something in it.
func removeEmpty(files filesystem.FileSystem, dir string) error {
	if entries, err := entriesOf(files, dir); err != nil || len(entries) > 0 {
		return err
	}
	err := remove(files, dir)
	if entries, _ := entriesOf(files, dir); len(entries) > 0 {
		return nil // somebody was quicker
	}
	return err
}

// ours says whether a file in a checkpoint's directory has a name that we give.
func ours(e filesystem.Entry) bool {
	return e.Regular && (e.Name == metadataName || strings.HasPrefix(e.Name, unfinished) || strings.HasPrefix(e.Name, withdrawn) || named(e.Name))
}

// ErrNoMetadata says that a checkpoint was never complete, or isn't any more.
var ErrNoMetadata = corrupt("there is no %s", metadataName)

// Load reads the metadata of a checkpoint, given its directory or the metadata
// file itself, and says which directory its files are relative to.
func Load(files filesystem.FileSystem, at string) (cp Checkpoint, dir string, err error) {
	e, err := files.Stat(at)
	if err != nil {
		return Checkpoint{}, "", fmt.Errorf("checkpoint %q: %w", at, err)
	}
	file := at
	if e.Dir {
		file = path.Join(at, metadataName)
	}
	data, err := readFile(files, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = noMetadata(files, at)
	case err == nil:
		cp, err = Decode(data)
	}
	if err != nil {
		return Checkpoint{}, "", fmt.Errorf("checkpoint %q: %w", at, err)
	}
	return cp, path.Dir(file), nil
}

// noMetadata is ErrNoMetadata, with what a directory holds that might have been meant.
func noMetadata(files filesystem.FileSystem, dir string) error {
	entries, err := files.List(dir)
	if err != nil {
		return errors.Join(ErrNoMetadata, err)
	}
	var below []string
	for _, e := range entries {
		if !e.Dir {
			continue
		}
		if _, err := files.Stat(path.Join(dir, e.Name, metadataName)); err == nil {
			below = append(below, e.Name)
		}
	}
	if below == nil {
		return ErrNoMetadata
	}
	return fmt.Errorf("%w; below it there is one in %s", ErrNoMetadata, strings.Join(below, ", "))
}

func readFile(files filesystem.FileSystem, name string) ([]byte, error) {
	r, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// Verify reads every file that a checkpoint refers to.
func Verify(ctx context.Context, from state.Origin, cp Checkpoint) error {
	seen := map[string]bool{}
	for f := range cp.files {
		if f.Name != "" && seen[f.Name] {
			continue
		}
		seen[f.Name] = true
		b, err := from.Open(ctx, f)
		if err != nil {
			return fmt.Errorf("checkpoint %d: %w", cp.Number, err)
		}
		if err := b.Close(); err != nil {
			return fmt.Errorf("checkpoint %d: %w", cp.Number, err)
		}
	}
	return nil
}
