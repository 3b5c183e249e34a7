// Package heap is the state backend that keeps everything in memory. What it
// stores are snapshots: each a sorted table with all entries.
package heap

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/table"
)

// Backend is the backend that the configuration calls hashmap.
type Backend struct{}

// Open implements state.Backend.
func (Backend) Open(context.Context) (state.Store, error) { return store{}, nil }

type store struct{}

// Write implements state.Store.
func (store) Write(ctx context.Context, to state.Target, h state.Handle, entries iter.Seq2[[]byte, []byte]) (state.Handle, error) {
	f, err := to.Create(ctx)
	if err != nil {
		return h, err
	}
	if err := write(ctx, f, to.Compressed(), h, entries); err != nil {
		f.Abort()
		return h, err
	}
	file, err := f.Finish()
	if err != nil {
		return h, err
	}
	h.Files = []state.File{file}
	return h, nil
}

func write(ctx context.Context, to io.Writer, compress bool, h state.Handle, entries iter.Seq2[[]byte, []byte]) error {
	about, err := describe(h)
	if err != nil {
		return err
	}
	w := table.NewWriter(to, map[string]string{"weir.keyspace": about})
	if compress {
		w.Compress()
	}
	for key, value := range entries {
		if err := w.Add(key, value); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.Finish()
}

// Read implements state.Store.
func (store) Read(ctx context.Context, from []state.Handle, at state.Origin, first, last int) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for _, h := range from {
			more, err := read(ctx, h, at, first, last, yield)
			if err != nil {
				yield(state.Entry{}, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// read yields a handle's entries; more says that yield wants others.
func read(ctx context.Context, h state.Handle, at state.Origin, first, last int, yield func(state.Entry, error) bool) (more bool, err error) {
	var files []*table.Iterator
	begin := binary.BigEndian.AppendUint16(nil, uint16(max(first, h.First)))
	for _, f := range h.Files {
		blob, err := at.Open(ctx, f)
		if err != nil {
			return false, err
		}
		defer blob.Close()
		t, err := open(blob, f)
		if err != nil {
			return false, fmt.Errorf("file %q: %w", f.Name, err)
		}
		files = append(files, t.Seek(begin))
	}
	merged := table.Merge(files...)
	for merged.Next() {
		key := merged.Key()
		if len(key) < 2 || int(binary.BigEndian.Uint16(key)) > min(last, h.Last) {
			break
		}
		if !merged.Deleted() && !yield(state.Entry{Key: key, Value: merged.Value()}, nil) {
			return false, nil
		}
	}
	if err := merged.Err(); err != nil {
		return false, fmt.Errorf("files %v: %w", names(h), err)
	}
	return true, ctx.Err()
}

func open(blob state.Blob, f state.File) (*table.Reader, error) {
	if blob.Size() != f.Size {
		return nil, fmt.Errorf("%w: it has %d bytes instead of %d", table.ErrCorrupt, blob.Size(), f.Size)
	}
	return table.Open(blob, f.Size)
}

func names(h state.Handle) (names []string) {
	for _, f := range h.Files {
		names = append(names, f.Name)
	}
	return names
}

// A keyspace is the property of a file that says what its entries are.
type keyspace struct {
	First  int      `json:"first"`
	Last   int      `json:"last"`
	Key    schema   `json:"key"`
	States []column `json:"states"`
}

type column struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Value   schema  `json:"value"`
	UserKey *schema `json:"userKey,omitempty"`
}

type schema struct {
	Codec string `json:"codec"`
	Type  string `json:"type"`
}

func describe(h state.Handle) (string, error) {
	about := keyspace{First: h.First, Last: h.Last, Key: schema(h.Key)}
	for _, s := range h.States {
		c := column{Name: s.Name, Kind: s.Kind, Value: schema(s.Value)}
		if s.UserKey != (codec.Schema{}) {
			user := schema(s.UserKey)
			c.UserKey = &user
		}
		about.States = append(about.States, c)
	}
	text, err := json.Marshal(about)
	return string(text), err
}
