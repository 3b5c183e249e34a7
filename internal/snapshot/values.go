package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/table"
)

// A Value is an entry of a state as a person reads it, in JSON.
type Value struct {
	Subtask int             `json:"subtask"`
	Key     json.RawMessage `json:"key,omitempty"`     // of keyed state
	UserKey json.RawMessage `json:"userKey,omitempty"` // of a map or broadcast
	Value   json.RawMessage `json:"value"`
}

// ErrNoKey says that a key was asked for of a state that has none.
var ErrNoKey = errors.New("the state isn't keyed")

// Has reports whether the operator saved a state of that name.
func (op Operator) Has(name string) bool {
	for d := range op.Declared {
		if d.Name == name {
			return true
		}
	}
	return false
}

// Declared yields the states of the operator, each once.
func (op Operator) Declared(yield func(state.Declared) bool) {
	seen := map[string]bool{}
	fresh := func(d state.Declared) bool {
		was := seen[d.Name]
		seen[d.Name] = true
		return was || yield(d)
	}
	for _, s := range op.Subtasks {
		for _, h := range s.Keyed {
			for _, d := range h.States {
				if !fresh(d) {
					return
				}
			}
		}
		for _, l := range s.Lists {
			if !fresh(l.Declared) {
				return
			}
		}
	}
}

// Values reads a state without the code that wrote it, and gives every entry to
// yield until that returns false. If key isn't nil, it gives those of one key only:
// JSON, or a string as it is.
func (op Operator) Values(ctx context.Context, from state.Origin, name string, key *string, yield func(Value) bool) error {
	for i, s := range op.Subtasks {
		give := func(v Value) bool {
			v.Subtask = i
			return yield(v)
		}
		more, err := s.values(ctx, from, name, key, give)
		if err != nil {
			return fmt.Errorf("state %q of %s, subtask %d: %w", name, title(op), i, err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// values reports whether more is wanted.
func (s State) values(ctx context.Context, from state.Origin, name string, key *string, yield func(Value) bool) (more bool, err error) {
	more = true
	for _, h := range s.Keyed {
		for _, d := range h.States {
			if more && err == nil && d.Name == name {
				more, err = keyedValues(ctx, from, h, d, key, yield)
			}
		}
	}
	for _, l := range s.Lists {
		switch {
		case !more || err != nil || l.Name != name:
		case key != nil:
			err = ErrNoKey
		default:
			more, err = l.values(ctx, from, yield)
		}
	}
	return more, err
}

// readers are what reads the parts of an entry.
type readers struct{ key, userKey, value *codec.Stored }

// readersOf returns those of a state; what has no schema has no reader.
func readersOf(key codec.Schema, d state.Declared) (r readers, err error) {
	for _, part := range []struct {
		to     **codec.Stored
		schema codec.Schema
	}{{&r.key, key}, {&r.userKey, d.UserKey}, {&r.value, d.Value}} {
		if part.schema != (codec.Schema{}) && err == nil {
			*part.to, err = codec.ForStored(part.schema)
		}
	}
	return r, err
}

// read reads a value from the key and the value of an entry, and wants nothing
// to be left of them.
func (r readers) read(key, value []byte) (v Value, err error) {
	for _, part := range []struct {
		by  *codec.Stored
		src *[]byte
		to  *json.RawMessage
	}{{r.key, &key, &v.Key}, {r.userKey, &key, &v.UserKey}, {r.value, &value, &v.Value}} {
		if part.by == nil {
			continue
		}
		var n int
		if *part.to, n, err = part.by.Decode(*part.src); err != nil {
			return v, err
		}
		*part.src = (*part.src)[n:]
	}
	if len(key)+len(value) > 0 {
		err = fmt.Errorf("%w: an entry is longer than its schema says", ErrCorrupt)
	}
	return v, err
}

func keyedValues(ctx context.Context, from state.Origin, h state.Handle, d state.Declared, key *string, yield func(Value) bool) (more bool, err error) {
	r, err := readersOf(h.Key, d)
	if err != nil {
		return false, err
	}
	var sought []byte // no encoding of a key is the prefix of another
	switch {
	case key != nil && r.key == nil:
		return false, ErrNoKey
	case key != nil:
		if sought, err = r.key.Encode(*key); err != nil {
			return false, err
		}
	}
	var all []*table.Iterator
	for _, f := range h.Files {
		b, err := from.Open(ctx, f)
		if err != nil {
			return false, err
		}
		defer b.Close()
		t, err := table.Open(b, b.Size())
		if err != nil {
			return false, err
		}
		all = append(all, t.All())
	}
	it := table.Merge(all...)
	for it.Next() {
		group, name, rest, ok := cutEntryKey(it.Key())
		switch {
		case !ok:
			return false, fmt.Errorf("%w: %x is no key of an entry", ErrCorrupt, it.Key())
		case it.Deleted(), group < h.First, group > h.Last, string(name) != d.Name, !bytes.HasPrefix(rest, sought):
			continue
		}
		v, err := r.read(rest, it.Value())
		if err != nil || !yield(v) {
			return false, err
		}
	}
	return true, it.Err()
}

func (l List) values(ctx context.Context, from state.Origin, yield func(Value) bool) (more bool, err error) {
	r, err := readersOf(codec.Schema{}, l.Declared)
	if err != nil {
		return false, err
	}
	b, err := from.Open(ctx, l.File)
	if err != nil {
		return false, err
	}
	defer b.Close()
	at := l.Offset
	for _, length := range l.Lengths {
		item := make([]byte, length)
		if n, err := b.ReadAt(item, at); n < len(item) {
			return false, err
		}
		at += int64(length)
		v, err := r.item(item)
		if err != nil || !yield(v) {
			return false, err
		}
	}
	return true, nil
}

// item reads an item of a list: of a broadcast, the user key and the value lie one
// after the other.
func (r readers) item(item []byte) (Value, error) {
	n := 0
	if r.userKey != nil {
		var err error
		if _, n, err = r.userKey.Decode(item); err != nil {
			return Value{}, err
		}
	}
	return r.read(item[:n], item[n:])
}

// A Position is a split that a reader was in: it goes on after the first Skip
// records behind Split.
type Position struct {
	Subtask int             `json:"subtask"`
	Skip    uint64          `json:"skip"`
	Split   json.RawMessage `json:"split"`
}

// Positions returns where the readers of a source were, and the splits that
// none had got yet.
func (op Operator) Positions() (at []Position, waiting []json.RawMessage, err error) {
	if op.Schemas.Split == (codec.Schema{}) {
		return nil, nil, nil
	}
	r, err := readersOf(codec.Schema{}, state.Declared{Value: op.Schemas.Split})
	if err != nil {
		return nil, nil, err
	}
	for i, s := range op.Subtasks {
		for _, b := range s.Splits {
			skip, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, nil, fmt.Errorf("%w: a split of %s has no position", ErrCorrupt, title(op))
			}
			v, err := r.read(nil, b[n:])
			if err != nil {
				return nil, nil, fmt.Errorf("split of %s: %w", title(op), err)
			}
			at = append(at, Position{i, skip, v.Value})
		}
	}
	if op.Enumerator != nil {
		for _, b := range op.Enumerator.Splits {
			v, err := r.read(nil, b)
			if err != nil {
				return nil, nil, fmt.Errorf("split of %s: %w", title(op), err)
			}
			waiting = append(waiting, v.Value)
		}
	}
	return at, waiting, nil
}
