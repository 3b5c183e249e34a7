// Package statetest is what every state backend must do, as tests.
package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/keygroup"
	"github.com/weirstream/weir/state"
)

// Run tests a backend.
func Run(t *testing.T, backend state.Backend) {
	for name, test := range map[string]func(*suite){
		"what was written comes back":             (*suite).roundTrip,
		"key groups move between subtasks":        (*suite).rescale,
		"nothing is no file":                      (*suite).nothing,
		"empty, nil and clear":                    (*suite).empty,
		"a changed declaration is refused":        (*suite).changed,
		"a state that is gone is refused":         (*suite).undeclared,
		"damage is noticed":                       (*suite).damage,
		"a failing target leaves nothing":         (*suite).failing,
		"the end of the context ends the writing": (*suite).canceled,
	} {
		t.Run(name, func(t *testing.T) { test(&suite{T: t, backend: backend, files: &Files{}}) })
	}
}

const maxParallelism = 60

type suite struct {
	*testing.T
	backend state.Backend
	files   *Files
}

// operator is an operator in one subtask.
type operator[K comparable] struct {
	ks   *state.Keyspace[K]
	keys codec.Key[K]
}

func (o *operator[K]) Keyspace() *state.Keyspace[K] { return o.ks }
func (o *operator[K]) at(k K)                       { o.ks.Set(k, o.keys.Hash(&k)) }

func open[K comparable](s *suite, subtask, parallelism int) *operator[K] {
	keys, err := codec.KeyFor[K]()
	s.check(err)
	store, err := s.backend.Open(s.Context())
	s.check(err)
	first, last := keygroup.Range(subtask, parallelism, maxParallelism)
	return &operator[K]{state.NewKeyspace(keys, maxParallelism, first, last, store), keys}
}

func (s *suite) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// save takes a snapshot.
func (s *suite) save(f *state.Frozen) state.Handle {
	s.Helper()
	for !f.Capture(500) {
	}
	h, err := f.Write(s.Context(), s.files)
	s.check(err)
	return h
}

// refused restores where that must be an error, which names what it is about.
func refused[K comparable](s *suite, op *operator[K], h state.Handle, about ...string) error {
	s.Helper()
	_, err := op.ks.Restore(s.Context(), []state.Handle{h}, s.files, false)
	for _, text := range about {
		if err == nil || !strings.Contains(err.Error(), text) {
			s.Errorf("restore: %v; want an error about %q", err, about)
		}
	}
	return err
}

// orders is an operator that uses states of all kinds.
type orders struct {
	*operator[string]
	count    state.Value[int64]
	names    state.List[string]
	prices   state.Map[uint16, float64]
	earliest state.Reducing[int32]
	mean     state.Aggregating[int32, sum, float64]
}

// sum is the accumulator of a mean.
type sum struct{ Of, N int64 }

var mean = state.Aggregate[int32, sum, float64]{
	Add:    func(s sum, v int32) sum { return sum{s.Of + int64(v), s.N + 1} },
	Result: func(s sum) float64 { return float64(s.Of) / float64(s.N) },
}

func (s *suite) orders(subtask, parallelism int) orders {
	op := open[string](s, subtask, parallelism)
	o := orders{op, state.NewValue[int64](op, "count"), state.NewList[string](op, "names"), state.NewMap[uint16, float64](op, "prices"),
		state.NewReducing(op, "earliest", func(a, b int32) int32 { return min(a, b) }), state.NewAggregating(op, "mean", mean)}
	s.check(o.ks.Err())
	return o
}

const manyOrders = 3000

func orderKey(i int) string { return fmt.Sprintf("an order with a long key %d", i) }

func (o orders) fill() {
	for i := range manyOrders {
		o.at(orderKey(i))
		o.count.Set(int64(i))
		o.names.Append(fmt.Sprint("a", i), fmt.Sprint("b", i))
		for j := range i % 4 {
			o.prices.Put(uint16(j*100), float64(i)/2)
		}
		o.earliest.Add(int32(i))
		o.earliest.Add(int32(i - 5))
		o.mean.Add(int32(i))
		o.mean.Add(int32(i + 1))
	}
}

// verify checks the keys that fill made and that the operator owns.
func (s *suite) verify(o orders, subtask, parallelism int) {
	s.Helper()
	first, last := keygroup.Range(subtask, parallelism, maxParallelism)
	for i := range manyOrders {
		k := orderKey(i)
		o.at(k)
		if g := keygroup.Of(o.keys.Hash(&k), maxParallelism); g < first || last < g {
			if _, ok := o.count.Lookup(); ok || o.names.Len() > 0 || o.prices.Len() > 0 || o.mean.Get() != 0 {
				s.Fatalf("%s is of key group %d and yet in subtask %d of %d", k, g, subtask, parallelism)
			}
			continue
		}
		n, names := o.count.Get(), slices.Collect(o.names.All())
		if n != int64(i) || !slices.Equal(names, []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}) || o.earliest.Get() != int32(i-5) || o.prices.Len() != i%4 {
			s.Fatalf("%s: %d, %q, %d prices, earliest %d", k, n, names, o.prices.Len(), o.earliest.Get())
		}
		if m := o.mean.Get(); m != float64(i)+0.5 {
			s.Fatalf("%s: the mean is %g", k, m)
		}
		for u, p := range o.prices.All() {
			if p != float64(i)/2 || int(u) >= i%4*100 {
				s.Fatalf("%s: price %d is %g", k, u, p)
			}
		}
	}
}

func (s *suite) roundTrip() {
	o := s.orders(0, 1)
	o.fill()
	h := s.save(o.ks.Freeze())
	o.fill() // changes what it will, later
	restored := s.orders(0, 1)
	dropped, err := restored.ks.Restore(s.Context(), []state.Handle{h}, s.files, false)
	s.check(err)
	if len(dropped) > 0 {
		s.Errorf("dropped %q", dropped)
	}
	s.verify(restored, 0, 1)
}

func (s *suite) rescale() {
	o := s.orders(0, 1)
	o.fill()
	handles := []state.Handle{s.save(o.ks.Freeze())}
	for _, parallelism := range []int{3, 7, 2, maxParallelism, 1} {
		var next []state.Handle
		for i := range parallelism {
			o := s.orders(i, parallelism)
			_, err := o.ks.Restore(s.Context(), handles, s.files, false)
			s.check(err)
			s.verify(o, i, parallelism)
			next = append(next, s.save(o.ks.Freeze()))
		}
		handles = next
	}
}

func (s *suite) nothing() {
	o := s.orders(0, 1)
	o.at("a")
	o.count.Set(1)
	o.count.Clear()
	h := s.save(o.ks.Freeze())
	if len(h.Files) > 0 || len(s.files.content) > 0 {
		s.Errorf("%d files for nothing", len(s.files.content))
	}
	_, err := s.orders(0, 2).ks.Restore(s.Context(), []state.Handle{h}, s.files, false)
	s.check(err)
}

// empty: S73, backends agree on what isn't there.
func (s *suite) empty() {
	o := s.orders(0, 1)
	o.at("a")
	o.count.Set(0)
	o.names.Append("x")
	o.names.Set(nil)
	o.names.Append()
	o.mean.Add(0)
	o.mean.Clear()
	o.prices.Put(1, 0)
	o.prices.Put(2, 2)
	o.prices.Put(3, 3)
	for u := range o.prices.All() {
		o.prices.Put(u+10, 1)
		o.prices.Remove(2)
	}
	o.at("b")
	o.prices.Put(1, 1)
	for range o.prices.All() {
		o.prices.Clear()
	}
	h := s.save(o.ks.Freeze())
	restored := s.orders(0, 1)
	_, err := restored.ks.Restore(s.Context(), []state.Handle{h}, s.files, false)
	s.check(err)
	for _, o := range []orders{o, restored} {
		o.at("a")
		if n, ok := o.count.Lookup(); n != 0 || !ok {
			s.Errorf("a zero value: %d, %v; want it to be there", n, ok)
		}
		if o.names.Len() != 0 {
			s.Errorf("a list set to nil has %d items", o.names.Len())
		}
		if m := o.mean.Get(); m != 0 {
			s.Errorf("the mean of nothing is %g", m)
		}
		var keys []uint16
		for u := range o.prices.All() {
			keys = append(keys, u)
		}
		if want := []uint16{1, 3, 11, 13}; !slices.Equal(keys, want) {
			s.Errorf("a map changed while it was walked has %d, want %d", keys, want)
		}
		if o.at("b"); o.prices.Len() != 0 {
			s.Errorf("a map cleared while it was walked has %d entries", o.prices.Len())
		}
	}
}

func (s *suite) changed() {
	op := open[string](s, 0, 1)
	state.NewValue[int64](op, "count").Set(1)
	h := s.save(op.ks.Freeze())

	other := open[string](s, 0, 1)
	state.NewValue[int32](other, "count")
	refused(s, other, h, `"count"`, "value of int64", "value of int32")

	other = open[string](s, 0, 1)
	state.NewReducing(other, "count", func(a, b int64) int64 { return a + b })
	refused(s, other, h, `"count"`, "value of int64", "reducing of int64")

	other = open[string](s, 0, 1)
	state.NewAggregating(other, "count", state.Aggregate[int32, int64, float64]{})
	refused(s, other, h, `"count"`, "value of int64", "aggregating of int64")

	number := open[uint64](s, 0, 1)
	state.NewValue[int64](number, "count")
	refused(s, number, h, "string", "uint64")
}

func (s *suite) undeclared() {
	o := s.orders(0, 1)
	o.fill()
	h := s.save(o.ks.Freeze())
	op := open[string](s, 0, 1)
	count := state.NewValue[int64](op, "count")
	if err := refused(s, op, h, `"earliest"`, "-allowNonRestoredState"); !errors.Is(err, state.ErrUndeclared) {
		s.Errorf("%v isn't ErrUndeclared", err)
	}
	dropped, err := op.ks.Restore(s.Context(), []state.Handle{h}, s.files, true)
	s.check(err)
	if want := []string{"earliest", "mean", "names", "prices"}; !slices.Equal(dropped, want) {
		s.Errorf("dropped %q, want %q", dropped, want)
	}
	if op.at(orderKey(7)); count.Get() != 7 {
		s.Errorf("count is %d, want 7", count.Get())
	}
}

// damage flips bits and cuts files.
func (s *suite) damage() {
	o := s.orders(0, 1)
	o.fill()
	h := s.save(o.ks.Freeze())
	r := rand.New(rand.NewPCG(1, 2))
	whole := s.files.content[h.Files[0].Name]
	for range 15 {
		damaged := bytes.Clone(whole)
		at := r.IntN(len(whole))
		damaged[at] ^= 1 << r.IntN(8)
		s.files.content[h.Files[0].Name] = damaged
		refused(s, s.orders(0, 1).operator, h, h.Files[0].Name)
		s.files.content[h.Files[0].Name] = whole[:at]
		refused(s, s.orders(0, 1).operator, h, h.Files[0].Name)
	}
	delete(s.files.content, h.Files[0].Name)
	if err := refused(s, s.orders(0, 1).operator, h, h.Files[0].Name); !errors.Is(err, fs.ErrNotExist) {
		s.Errorf("restore without the file: %v", err)
	}
}

func (s *suite) failing() {
	o := s.orders(0, 1)
	o.fill()
	full := errors.New("disk full")
	for _, after := range []int{0, 1, 1000, 100_000} {
		s.files.room, s.files.full = after, full
		f := o.ks.Freeze()
		for !f.Capture(500) {
		}
		if _, err := f.Write(s.Context(), s.files); !errors.Is(err, full) {
			s.Errorf("a disk with room for %d bytes: %v", after, err)
		}
		if n := len(s.files.content) + s.files.begun; n != 0 {
			s.Errorf("a disk with room for %d bytes: %d files left behind", after, n)
		}
	}
	s.files.full = nil
	h := s.save(o.ks.Freeze())
	restored := s.orders(0, 1)
	_, err := restored.ks.Restore(s.Context(), []state.Handle{h}, s.files, false)
	s.check(err)
	s.verify(restored, 0, 1)
}

func (s *suite) canceled() {
	o := s.orders(0, 1)
	o.fill()
	f := o.ks.Freeze()
	for !f.Capture(500) {
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := f.Write(ctx, s.files); !errors.Is(err, context.Canceled) {
		s.Errorf("write: %v", err)
	}
	if n := len(s.files.content) + s.files.begun; n != 0 {
		s.Errorf("%d files left behind", n)
	}
}

// Files is a target and an origin in memory. The zero Files is empty.
type Files struct {
	content map[string][]byte
	begun   int   // files that are neither finished nor aborted
	made    int   // files ever
	full    error // unless nil, what writing fails with after room bytes
	room    int
}

// Create implements state.Target.
func (fs *Files) Create(context.Context) (state.TargetFile, error) {
	fs.begun++
	fs.made++
	return &file{fs: fs, name: fmt.Sprintf("file %d", fs.made)}, nil
}

// Compressed implements state.Target.
func (fs *Files) Compressed() bool { return false }

// Open implements state.Origin.
func (fs *Files) Open(_ context.Context, f state.File) (state.Blob, error) {
	content, ok := fs.content[f.Name]
	if !ok {
		return nil, &notFound{f.Name}
	}
	return blob{bytes.NewReader(content)}, nil
}

type notFound struct{ name string }

func (e *notFound) Error() string        { return fmt.Sprintf("open %q: no such file", e.name) }
func (e *notFound) Is(target error) bool { return target == fs.ErrNotExist }

type file struct {
	bytes.Buffer
	fs   *Files
	name string
}

func (f *file) Write(p []byte) (int, error) {
	if f.fs.full != nil && f.Len()+len(p) > f.fs.room {
		return 0, f.fs.full
	}
	return f.Buffer.Write(p)
}

func (f *file) Finish() (state.File, error) {
	f.fs.begun--
	if f.fs.content == nil {
		f.fs.content = map[string][]byte{}
	}
	f.fs.content[f.name] = f.Bytes()
	return state.File{Name: f.name, Size: int64(f.Len()), Checksum: crc32.Checksum(f.Bytes(), crc32.MakeTable(crc32.Castagnoli))}, nil
}

func (f *file) Abort() { f.fs.begun-- }

type blob struct{ *bytes.Reader }

func (b blob) Close() error { return nil }
func (b blob) Size() int64  { return b.Reader.Size() }
