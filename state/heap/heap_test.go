package heap_test

import (
	"sync"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/heap"
	"github.com/weirstream/weir/state/statetest"
)

func TestBackend(t *testing.T) { statetest.Run(t, heap.Backend{}) }

type op struct {
	ks   *state.Keyspace[uint64]
	keys codec.Key[uint64]
}

func (o *op) Keyspace() *state.Keyspace[uint64] { return o.ks }
func (o *op) at(k uint64)                       { o.ks.Set(k, o.keys.Hash(&k)) }

func open(t testing.TB) *op {
	keys, err := codec.KeyFor[uint64]()
	if err != nil {
		t.Fatal(err)
	}
	store, err := heap.Backend{}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &op{state.NewKeyspace(keys, 128, 0, 127, store), keys}
}

// profile has every kind of reference that a handler could change in place.
type profile struct {
	Last  *visit
	Pages map[string]int64
	Path  []int64
}

type visit struct{ At int64 }

func (p profile) is(n int64) bool {
	return p.Last.At == n && p.Pages["home"] == n && len(p.Path) == 2 && p.Path[0] == n
}

func (p profile) become(n int64) { p.Last.At, p.Pages["home"], p.Path[0] = n, n, n }

// S70: the snapshot is captured and written while the handler changes values in
// place, and declares another state; run with -race. S71: so is the next one, of
// values that were fetched and changed between the two.
func TestWhatIsChangedWhileItIsWrittenIsWrittenAsItWas(t *testing.T) {
	const keys, snapshots = 100_000, 2
	o := open(t)
	profiles := state.NewValue[profile](o, "profile")
	for k := range uint64(keys) {
		o.at(k)
		profiles.Set(profile{&visit{}, map[string]int64{"home": 0}, []int64{0, 1}})
	}
	var wait sync.WaitGroup
	var files [snapshots]statetest.Files
	var handles [snapshots]state.Handle
	next := uint64(0)
	change := func(to int64, n int) {
		for range n {
			o.at(next % keys)
			next += 7919
			p := profiles.Get()
			p.become(to)
			profiles.Set(p)
		}
	}
	for i := range snapshots {
		change(int64(i), keys) // each key once
		f := o.ks.Freeze()
		state.NewValue[int64](o, string(rune('a'+i))).Set(1)
		for !f.Capture(512) {
			change(-1, 200)
		}
		wait.Go(func() {
			var err error
			if handles[i], err = f.Write(t.Context(), &files[i]); err != nil {
				t.Error(err)
			}
		})
		change(-2, keys)
	}
	wait.Wait()
	for i, h := range handles {
		restored := open(t)
		was := state.NewValue[profile](restored, "profile")
		for s := range i {
			state.NewValue[int64](restored, string(rune('a'+s)))
		}
		if _, err := restored.ks.Restore(t.Context(), []state.Handle{h}, &files[i], false); err != nil {
			t.Fatal(err)
		}
		for k := range uint64(keys) {
			if restored.at(k); !was.Get().is(int64(i)) {
				t.Fatalf("snapshot %d, key %d: %+v", i, k, was.Get())
			}
		}
	}
}
