package state

import (
	"context"
	"iter"
)

// A Backend says how keyed state is stored.
type Backend interface {
	// Open opens the store of one operator in one subtask.
	Open(ctx context.Context) (Store, error)
}

// A Store is where the tables of one operator in one subtask are written, and
// read when a job is restored. It sees bytes. The keys of a snapshot's entries
// are laid out as docs/format.md says; key groups come first.
type Store interface {
	// Write writes entries as a snapshot and returns h with its Files. The entries
	// come in ascending order of keys, no key twice, at least one; the slices are
	// good until the next one. It is called on a goroutine beside the subtask, for
	// several snapshots at once if need be. The entries end early when ctx ends,
	// and that is an error. After an error nothing stays behind.
	Write(ctx context.Context, to Target, h Handle, entries iter.Seq2[[]byte, []byte]) (Handle, error)
	// Read yields the entries of the key groups first to last that are in any of
	// the handles. No two handles share a key group. An error is the last that it
	// yields; bytes that aren't what was written are one.
	Read(ctx context.Context, from []Handle, at Origin, first, last int) iter.Seq2[Entry, error]
}

// An Entry is a key and its value, encoded. It is good until the next one.
type Entry struct{ Key, Value []byte }
