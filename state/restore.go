package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirstream/weir/codec"
)

// Restore loads what handles hold of the keyspace's own keys. Their key groups may be
// of another number of all. A state that
// is in them and isn't declared is ErrUndeclared, unless allowDropped; then its
// name is returned. Restore is called before the first record.
func (ks *Keyspace[K]) Restore(ctx context.Context, from []Handle, at Origin, allowDropped bool) (dropped []string, err error) {
	dropped, err = ks.match(from, allowDropped)
	if err == nil {
		err = ks.load(ctx, from, at)
	}
	if err != nil {
		return nil, fmt.Errorf("restore keyed state: %w", err)
	}
	return dropped, nil
}

// match checks that what was stored can be read into what is declared.
func (ks *Keyspace[K]) match(from []Handle, allowDropped bool) (dropped []string, err error) {
	for _, h := range from {
		if h.Key != ks.codec.Schema() {
			return nil, mistake{fmt.Errorf("keys: stored as %s, declared as %s", describe(h.Key), describe(ks.codec.Schema()))}
		}
		for _, stored := range h.States {
			c := ks.column(stored.Name)
			switch {
			case c != nil && c.Declared != stored:
				return nil, mistake{fmt.Errorf("state %q: stored as %s, declared as %s", stored.Name, stored, c.Declared)}
			case c == nil && !allowDropped:
				return nil, fmt.Errorf("state %q: %w", stored.Name, ErrUndeclared)
			case c == nil && !slices.Contains(dropped, stored.Name):
				dropped = append(dropped, stored.Name)
			}
		}
	}
	return dropped, nil
}

func (ks *Keyspace[K]) load(ctx context.Context, from []Handle, at Origin) error {
	from = slices.DeleteFunc(slices.Clone(from), func(h Handle) bool { return len(h.Files) == 0 })
	first, last := math.MaxInt, 0
	for _, h := range from {
		first, last = min(first, h.First), max(last, h.Last)
	}
	var c *column // of the entry before
	for e, err := range ks.store.Read(ctx, from, at, first, last) {
		if err != nil {
			return err
		}
		name, key, ok := bytes.Cut(e.Key[min(2, len(e.Key)):], []byte{0})
		if !ok {
			return fmt.Errorf("key %x: it names no state", e.Key)
		}
		if c == nil || c.Name != string(name) {
			c = ks.column(string(name))
		}
		if c == nil {
			continue // dropped
		}
		if err := c.load(key, e.Value); err != nil {
			return fmt.Errorf("state %q: key %x: %w", c.Name, e.Key, err)
		}
	}
	return ctx.Err()
}

// column returns the state of a name, or nil.
func (ks *Keyspace[K]) column(name string) *column {
	if at, found := ks.find(name); found {
		return &ks.columns[at]
	}
	return nil
}

// String says what a state is, as in "map of string (weir-key/1) to int64 (weir/1)".
func (d Declared) String() string {
	if d.UserKey != (codec.Schema{}) {
		return fmt.Sprintf("%s of %s to %s", d.Kind, describe(d.UserKey), describe(d.Value))
	}
	return fmt.Sprintf("%s of %s", d.Kind, describe(d.Value))
}

func describe(s codec.Schema) string { return fmt.Sprintf("%s (%s)", s.Type, s.Codec) }

// decode decodes a whole value.
func decode[T any](c codec.Codec[T], src []byte, v *T) error {
	n, err := c.Decode(src, v)
	if err == nil && n < len(src) {
		err = errLonger
	}
	return err
}

var errLonger = errors.New("there is more than the value")
