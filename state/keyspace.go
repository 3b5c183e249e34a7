package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/keygroup"
)

// ErrUndeclared says that a snapshot holds a state that the operator doesn't
// declare.
var ErrUndeclared error = mistake{errors.New("the operator doesn't declare it (-allowNonRestoredState drops it)")}

// ErrMistake says that the operator itself is to blame: it declares its state
// wrongly, or other than it is stored. To try again is of no use.
var ErrMistake = errors.New("mistake in the declaration of state")

// mistake is an error that is ErrMistake and doesn't say so.
type mistake struct{ error }

func (m mistake) Unwrap() error      { return m.error }
func (mistake) Is(target error) bool { return target == ErrMistake }

// A Keyspace is all keyed state of one operator in one subtask. The operator's
// constructor declares states on it; then it is sealed and, perhaps, restored.
//
// It belongs to the subtask's goroutine. Handles of its states speak of the
// current key, which is set before every record.
type Keyspace[K comparable] struct {
	key     K
	hash    uint64
	codec   codec.Key[K]
	owned   keygroups
	store   Store
	columns []column // ordered by name
	sealed  bool
	err     error
}

// Keyed is an operator with a key.
type Keyed[K comparable] interface{ Keyspace() *Keyspace[K] }

// A column is one state of a keyspace.
type column struct {
	Declared
	freeze func() capturing
	// load takes an entry of a snapshot, unless its key is another keyspace's: the part
	// of its key behind the state's name, and its value.
	load func(key, value []byte) error
}

// NewKeyspace returns the keyspace of the key groups first to last, both
// inclusive, of maxParallelism.
func NewKeyspace[K comparable](key codec.Key[K], maxParallelism, first, last int, store Store) *Keyspace[K] {
	return &Keyspace[K]{codec: key, owned: keygroups{maxParallelism, first, last}, store: store}
}

// owns reports whether a key with that hash is in the keyspace's key groups.
func (ks *Keyspace[K]) owns(hash uint64) bool {
	g := keygroup.Of(hash, ks.owned.max)
	return ks.owned.first <= g && g <= ks.owned.last
}

// Set sets the current key. Hash is its hash by the keyspace's codec.
func (ks *Keyspace[K]) Set(k K, hash uint64) { ks.key, ks.hash = k, hash }

// Key returns the current key.
func (ks *Keyspace[K]) Key() K { return ks.key }

// Seal ends the declaration of states; one that comes later is an error.
func (ks *Keyspace[K]) Seal() { ks.sealed = true }

// Err returns the first thing that went wrong: in a declaration or in the store.
func (ks *Keyspace[K]) Err() error { return ks.err }

// declare adds a state, unless something is wrong with it: then that is the
// keyspace's error. Err is what was wrong already.
func (ks *Keyspace[K]) declare(c column, err error) {
	at, twice := ks.find(c.Name)
	if err = declarable(c.Name, twice, ks.sealed, err); err == nil {
		ks.columns = slices.Insert(ks.columns, at, c)
	} else if ks.err == nil {
		ks.err = err
	}
}

// find returns where the state of a name is, or would be.
func (ks *Keyspace[K]) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(ks.columns, name, func(c column, name string) int { return cmp.Compare(c.Name, name) })
}

// declarable says what is wrong with a declaration.
func declarable(name string, twice, sealed bool, err error) error {
	switch {
	case name == "" || strings.Contains(name, "\x00"):
		err = errors.New("a name is not empty and has no zero byte")
	case sealed:
		err = errors.New("declared too late: a constructor declares its states before it returns")
	case twice:
		err = errors.New("declared twice")
	}
	if err != nil {
		return mistake{fmt.Errorf("state %q: %w", name, err)}
	}
	return nil
}

// Freeze begins a snapshot of everything as it is now. It takes the same short
// time however much there is.
func (ks *Keyspace[K]) Freeze() *Frozen {
	f := &Frozen{owned: ks.owned, store: ks.store}
	f.handle = Handle{First: ks.owned.first, Last: ks.owned.last, Key: ks.codec.Schema()}
	for _, c := range ks.columns {
		f.handle.States = append(f.handle.States, c.Declared)
		f.captures = append(f.captures, c.freeze())
	}
	return f
}

// A Frozen is a keyspace as it was at a moment, on its way to storage. First
// Capture is called until it is done, then Write. One that isn't wanted any more
// before Capture is done must be dropped, else the tables go on collecting for it.
type Frozen struct {
	handle   Handle
	owned    keygroups
	store    Store
	captures []capturing
	captured int // the captures that are complete
}

// Capture does a part of the capturing, of about budget slots of tables, at
// least one. It is called on the keyspace's goroutine, between records. It
// reports whether there is nothing left to do.
func (f *Frozen) Capture(budget int) (done bool) {
	for f.captured < len(f.captures) {
		if budget = f.captures[f.captured].step(budget); budget <= 0 {
			return false
		}
		f.captured++
	}
	return true
}

// Drop ends the capturing before it is complete. It is called on the keyspace's
// goroutine, at any time, also while Write runs elsewhere or after it.
func (f *Frozen) Drop() {
	for _, c := range f.captures {
		c.drop()
	}
}

// Write sorts and writes what was captured, and says where it is. It is called
// once, after Capture is done, on any goroutine.
func (f *Frozen) Write(ctx context.Context, to Target) (Handle, error) {
	var runs []sorted
	n := 0
	for _, c := range f.captures {
		run := c.sort(f.owned)
		runs = append(runs, run)
		n += run.len()
	}
	if n == 0 {
		return f.handle, ctx.Err()
	}
	h, err := f.store.Write(ctx, to, f.handle, f.entries(ctx, runs))
	if err != nil {
		return Handle{}, fmt.Errorf("write keyed state: %w", err)
	}
	return h, nil
}

// entries yields everything in order: by key group, then state, then key.
func (f *Frozen) entries(ctx context.Context, runs []sorted) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for g := f.owned.first; g <= f.owned.last && ctx.Err() == nil; g++ {
			for _, run := range runs {
				if !run.each(g, yield) {
					return
				}
			}
		}
	}
}
