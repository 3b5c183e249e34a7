package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirstream/weir/filesystem"
	runs "github.com/weirstream/weir/internal/run"
	"github.com/weirstream/weir/internal/snapshot"
)

func list(ctx context.Context, args []string, stdout io.Writer) error {
	uri, err := parse(flag.NewFlagSet("checkpoint list", flag.ContinueOnError), args, "DIR",
		"Lists the runs of jobs in a checkpoint directory, the last one first, and their checkpoints.\n"+
			"A run has ended as it says; \"open\" is one that is alive or was killed. SIZE is bytes of state.", stdout)
	if err != nil {
		return err
	}
	files, dir, err := resolve(uri)
	if err != nil {
		return err
	}
	all, unread := runs.Open(files, dir).All()
	dirs, err := directories(files, dir, all)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tID\tRUN\tCHECKPOINT\tTIME\tSIZE\tKIND\tCHECKPOINT IS")
	for _, d := range dirs {
		if err := d.print(w, files); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), unread)
}

// A directory is where checkpoints lie: that of a run, or with savepoints.
type directory struct {
	path     string
	job, end string // of its run; empty if there is none on record
	id       string
	flat     map[string]bool // ids of the runs whose checkpoints lie there with others'
}

// directories returns those of all runs, and what else there is: runs without a
// record, and the directory itself, which may hold savepoints or be a run's.
func directories(files filesystem.FileSystem, dir string, all []runs.Run) ([]directory, error) {
	var dirs []directory
	known, flat := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		known[r.ID] = true
		d := directory{path: r.Dir(dir), job: r.Job, end: cmp.Or(string(r.End), "open"), id: r.ID}
		if r.Flat {
			flat[r.ID] = true
			d.flat = flat
		}
		dirs = append(dirs, d)
	}
	entries, err := files.List(dir)
	for _, e := range entries {
		if e.Dir && len(e.Name) == 32 && !known[e.Name] {
			dirs = append(dirs, directory{path: path.Join(dir, e.Name), id: e.Name})
		}
	}
	return append(dirs, directory{path: dir, flat: flat}), err
}

// shows says whether a checkpoint, which may be unreadable, is one of the directory's.
func (d directory) shows(cp snapshot.Checkpoint) bool {
	return d.flat == nil || cp.JobID == d.id || d.id == "" && !d.flat[cp.JobID]
}

// print prints a line for each checkpoint of a directory; for a run without one
// it says that.
func (d directory) print(w io.Writer, files filesystem.FileSystem) error {
	entries, err := files.List(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e filesystem.Entry) bool { return !isCheckpoint(e) })
	slices.SortFunc(entries, func(a, b filesystem.Entry) int {
		return cmp.Or(cmp.Compare(number(a.Name), number(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	none := true
	for _, e := range entries {
		if cp, _, err := snapshot.Load(files, path.Join(d.path, e.Name)); d.shows(cp) {
			none = false
			d.printOne(w, e.Name, cp, err)
		}
	}
	if none && d.id != "" {
		fmt.Fprintf(w, "%s\t%s\t%s\t-\t-\t-\t-\tnone there\n", or(d.job), d.id, or(d.end))
	}
	return nil
}

// printOne prints the line of a checkpoint, or of one that can't be read.
func (d directory) printOne(w io.Writer, name string, cp snapshot.Checkpoint, err error) {
	if err != nil {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t-\t-\t-\t%s\n", or(d.job), or(d.id), or(d.end), name, condition(err))
		return
	}
	kind := "checkpoint"
	if cp.Savepoint {
		kind = "savepoint"
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\tcomplete\n", cp.JobName, cp.JobID, or(d.end), name,
		time.Unix(0, cp.Began).UTC().Format(time.RFC3339), cp.Bytes(), kind)
}

// condition says in a word why a checkpoint has no metadata that can be read.
func condition(err error) string {
	if errors.Is(err, snapshot.ErrNoMetadata) {
		return "incomplete"
	}
	return "broken"
}

func isCheckpoint(e filesystem.Entry) bool {
	return e.Dir && (number(e.Name) > 0 || strings.HasPrefix(e.Name, "savepoint-"))
}

// number returns that of a chk- directory, 0 for others.
func number(name string) uint64 {
	digits, is := strings.CutPrefix(name, "chk-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !is || err != nil {
		return 0
	}
	return n
}

func or(s string) string { return cmp.Or(s, "-") }
