package snapshot

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

// Memory is storage for jobs without a checkpoint directory: checkpoints last as
// long as the process, and everything in them is inline. The zero value is
// ready for use.
type Memory struct {
	mu  sync.Mutex        // guards all
	all map[uint64][]byte // metadata
}

// Begin implements Storage.
func (m *Memory) Begin(uint64) error { return nil }

// Dir implements Storage.
func (m *Memory) Dir(uint64) string { return "" }

// Store implements Storage. It keeps the encoded form, as files would: what it
// gives back shares nothing with what it was given.
func (m *Memory) Store(cp Checkpoint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[cp.Number] != nil {
		return fmt.Errorf("store checkpoint %d: %w", cp.Number, fs.ErrExist)
	}
	if m.all == nil {
		m.all = map[uint64][]byte{}
	}
	m.all[cp.Number] = Encode(cp)
	return nil
}

// Release implements Storage.
func (m *Memory) Release(uint64, Task) error { return nil }

// Discard implements Storage.
func (m *Memory) Discard(n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, n)
	return nil
}

// Latest implements Storage.
func (m *Memory) Latest(context.Context, bool) (Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) == 0 {
		return Found{}, nil
	}
	found := Found{Complete: slices.Sorted(maps.Keys(m.all))}
	found.Highest = found.Complete[len(found.Complete)-1]
	cp, err := Decode(m.all[found.Highest])
	found.Checkpoint = &cp
	return found, err
}

// Clean implements Storage.
func (m *Memory) Clean(uint64) error { return nil }

// Clear implements Storage.
func (m *Memory) Clear() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = nil
	return nil
}
