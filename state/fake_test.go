package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/keygroup"
)

// op is an operator at work, as far as its state is concerned.
type op[K comparable] struct {
	ks    *Keyspace[K]
	lists Lists
	keys  codec.Key[K]
}

func (o *op[K]) Keyspace() *Keyspace[K] { return o.ks }
func (o *op[K]) Lists() *Lists          { return &o.lists }
func (o *op[K]) at(k K)                 { o.ks.Set(k, o.keys.Hash(&k)) }

// newOp is an operator that owns all key groups; subtask i of n owns its share.
func newOp[K comparable](t testing.TB, store Store) *op[K] { return newSubtask[K](t, store, 0, 1) }

func newSubtask[K comparable](t testing.TB, store Store, i, n int) *op[K] {
	t.Helper()
	keys, err := codec.KeyFor[K]()
	if err != nil {
		t.Fatal(err)
	}
	first, last := keygroup.Range(i, n, 128)
	return &op[K]{ks: NewKeyspace(keys, 128, first, last, store), keys: keys}
}

// memory is a store that keeps what is written. It is its own target and origin.
type memory struct{ files map[string][]Entry }

func (m *memory) Create(context.Context) (TargetFile, error) { panic("not used") }
func (m *memory) Compressed() bool                           { panic("not used") }
func (m *memory) Open(context.Context, File) (Blob, error)   { panic("not used") }
func (m *memory) Write(_ context.Context, _ Target, h Handle, entries iter.Seq2[[]byte, []byte]) (Handle, error) {
	var file []Entry
	for k, v := range entries {
		if n := len(file); n > 0 && bytes.Compare(file[n-1].Key, k) >= 0 {
			return h, fmt.Errorf("key %x after %x", k, file[n-1].Key)
		}
		file = append(file, Entry{bytes.Clone(k), bytes.Clone(v)})
	}
	name := fmt.Sprint(len(m.files))
	if m.files == nil {
		m.files = map[string][]Entry{}
	}
	m.files[name] = file
	h.Files = []File{{Name: name}}
	return h, nil
}

func (m *memory) Read(_ context.Context, from []Handle, _ Origin, first, last int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, h := range from {
			for _, e := range m.files[h.Files[0].Name] {
				if g := int(binary.BigEndian.Uint16(e.Key)); first <= g && g <= last && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// snapshot freezes, captures and writes at once.
func snapshot[K comparable](t testing.TB, o *op[K], m *memory) Handle {
	t.Helper()
	f := o.ks.Freeze()
	for !f.Capture(1000) {
	}
	return written(t, f, m)
}

func written(t testing.TB, f *Frozen, m *memory) Handle {
	t.Helper()
	h, err := f.Write(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
