package state

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/keygroup"
)

var seed = flag.Uint64("seed", 0, "seed of the random walks; 0 takes a new one")

// account is a value with references that a handler changes in place.
type account struct {
	Owner *owner
	Log   []uint32
}

type owner struct{ Visits int64 }

// world is an operator with a state of every kind.
type world struct {
	*op[uint64]
	sum     Value[int64]
	account Value[account]
	words   List[string]
	marks   List[account]
	seen    Map[string, int32]
	owners  Map[uint16, owner]
	total   Reducing[float64]
	common  Aggregating[string, tops, int]
	many    *Table[uint64, int64]
}

// tops is an accumulator that Add changes in place: how often each word came.
type tops struct{ Words map[string]int }

var byWord = Aggregate[string, tops, int]{
	Add: func(t tops, word string) tops {
		if t.Words == nil {
			t.Words = map[string]int{}
		}
		t.Words[word]++
		return t
	},
	Result: func(t tops) int { return slices.Max(slices.Collect(maps.Values(t.Words))) },
}

func newWorld(t testing.TB, m *memory, i, n int) *world {
	w := &world{op: newSubtask[uint64](t, m, i, n)}
	w.sum = NewValue[int64](w, "sum")
	w.account = NewValue[account](w, "account")
	w.words = NewList[string](w, "words")
	w.marks = NewList[account](w, "marks")
	w.seen = NewMap[string, int32](w, "seen")
	w.owners = NewMap[uint16, owner](w, "owners")
	w.total = NewReducing(w, "total", func(a, b float64) float64 { return a + b })
	w.common = NewAggregating(w, "common", byWord)
	w.many = NewTable[int64](w, "many")
	w.ks.Seal()
	if err := w.ks.Err(); err != nil {
		t.Fatal(err)
	}
	return w
}

// model is what one key of a world should hold.
type model struct {
	sum     int64
	visits  int64
	log     []uint32
	account bool
	words   []string
	marks   []int64
	seen    map[string]int32
	owners  map[uint16]int64
	total   float64
	common  map[string]int
	many    int64
}

func (m model) clone() model {
	m.log, m.words, m.marks = slices.Clone(m.log), slices.Clone(m.words), slices.Clone(m.marks)
	m.seen, m.owners = maps.Clone(m.seen), maps.Clone(m.owners)
	m.common = maps.Clone(m.common)
	return m
}

// step does something random to a random key, in the world and in the model.
func (w *world) step(r *rand.Rand, keys uint64, models map[uint64]model) {
	k := r.Uint64N(keys)
	w.at(k)
	m := models[k]
	if m.seen == nil {
		m.seen, m.owners, m.common = map[string]int32{}, map[uint16]int64{}, map[string]int{}
	}
	n := r.Uint32()
	word := string(rune('a' + n%20))
	switch r.IntN(24) {
	case 0, 1, 2:
		m.sum += int64(n)
		w.sum.Set(w.sum.Get() + int64(n))
	case 3:
		m.sum = 0
		w.sum.Clear()
	case 4, 5, 6: // a value that is changed in place
		a, ok := w.account.Lookup()
		if !ok {
			a = account{Owner: &owner{}, Log: make([]uint32, 0, 4)}
		}
		a.Owner.Visits++
		a.Log = append(a.Log, n)
		a.Log[0] = n
		w.account.Set(a)
		m.visits, m.log, m.account = m.visits+1, append(m.log, n), true
		m.log[0] = n
	case 7:
		w.account.Clear()
		m.visits, m.log, m.account = 0, nil, false
	case 8, 9:
		w.words.Append(word, word+word)
		m.words = append(m.words, word, word+word)
	case 10:
		w.words.Set([]string{word})
		m.words = []string{word}
	case 11:
		w.words.Clear()
		m.words = nil
	case 12: // items that are changed in place
		for a := range w.marks.All() {
			a.Owner.Visits++
		}
		w.marks.Append(account{Owner: &owner{int64(n)}})
		for i := range m.marks {
			m.marks[i]++
		}
		m.marks = append(m.marks, int64(n))
	case 13, 14, 15:
		w.seen.Put(word, w.seen.Get(word)+1)
		m.seen[word]++
	case 16:
		w.seen.Remove(word)
		delete(m.seen, word)
	case 17:
		if n%4 == 0 {
			w.seen.Clear()
			clear(m.seen)
		}
		w.owners.Put(uint16(n%50), owner{int64(n)})
		m.owners[uint16(n%50)] = int64(n)
	case 18:
		for u := range w.owners.All() {
			if u%2 == 0 {
				w.owners.Remove(u)
			}
		}
		maps.DeleteFunc(m.owners, func(u uint16, _ int64) bool { return u%2 == 0 })
	case 19:
		w.total.Add(float64(n))
		m.total += float64(n)
	case 20, 21: // an accumulator that is changed in place
		w.common.Add(word)
		m.common[word]++
	case 22:
		w.common.Clear()
		clear(m.common)
	case 23:
		w.addToMany(r, keys, models)
		return
	}
	models[k] = m
}

// addToMany adds to the numbers of some random keys at once.
func (w *world) addToMany(r *rand.Rand, keys uint64, models map[uint64]model) {
	var at, hashes [Together]uint64
	var to [Together]*int64
	n := 1 + r.IntN(Together)
	for i := range n {
		at[i] = r.Uint64N(keys)
		hashes[i] = w.keys.Hash(&at[i])
	}
	w.many.Refs(at[:n], hashes[:n], to[:])
	for i, k := range at[:n] {
		m := models[k]
		m.many += int64(i) + 1
		*to[i] += int64(i) + 1
		models[k] = m
	}
}

// check compares a key with its model.
func (w *world) check(t *testing.T, k uint64, m model) {
	t.Helper()
	w.at(k)
	a, ok := w.account.Lookup()
	visits := int64(0)
	if ok {
		visits = a.Owner.Visits
	}
	var marks []int64
	for a := range w.marks.All() {
		marks = append(marks, a.Owner.Visits)
	}
	if w.sum.Get() != m.sum || ok != m.account || visits != m.visits || !slices.Equal(a.Log, m.log) ||
		!slices.Equal(slices.Collect(w.words.All()), m.words) || !slices.Equal(marks, m.marks) || w.total.Get() != m.total {
		t.Fatalf("key %d: %d %v %v, want %+v", k, w.sum.Get(), a, slices.Collect(w.words.All()), m)
	}
	n := int64(0)
	if v := w.many.find(k, w.keys.Hash(&k)); v != nil {
		n = *v
	}
	if n != m.many {
		t.Fatalf("key %d: %d among many, want %d", k, n, m.many)
	}
	most := 0
	for _, n := range m.common {
		most = max(most, n)
	}
	if got := w.common.Get(); got != most {
		t.Fatalf("key %d: the commonest word came %d times, want %v", k, got, m.common)
	}
	if w.seen.Len() != len(m.seen) || w.owners.Len() != len(m.owners) {
		t.Fatalf("key %d: maps of %d and %d, want %v, %v", k, w.seen.Len(), w.owners.Len(), m.seen, m.owners)
	}
	last := ""
	for u, v := range w.seen.All() {
		if v != m.seen[u] || u <= last {
			t.Fatalf("key %d: seen[%s] = %d after %s, want %v", k, u, v, last, m.seen)
		}
		last = u
	}
	for u, v := range w.owners.All() {
		if v.Visits != m.owners[u] {
			t.Fatalf("key %d: owners[%d] = %d, want %v", k, u, v, m.owners)
		}
	}
}

// pending is a snapshot under way, and what should be in it.
type pending struct {
	*Frozen
	models map[uint64]model
}

// TestSnapshotsHoldTheMomentOfTheirFreeze walks at random: changes, freezes,
// captures a few entries at a time of whichever snapshot, drops some, with several
// snapshots under way at once. S70, S71: every snapshot holds what was there at its freeze,
// also what was changed in place before and after it.
func TestSnapshotsHoldTheMomentOfTheirFreeze(t *testing.T) {
	seed := *seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3 {
		walk(t, r, 10+r.Uint64N(3000))
	}
}

func walk(t *testing.T, r *rand.Rand, keys uint64) {
	m := &memory{}
	w := newWorld(t, m, 0, 1)
	models := map[uint64]model{}
	var under []pending
	for range 150 {
		for range r.IntN(200) {
			w.step(r, keys, models)
		}
		switch n := r.IntN(10); {
		case n < 3 && len(under) < 4:
			was := maps.Clone(models)
			for k, m := range was {
				was[k] = m.clone()
			}
			under = append(under, pending{w.ks.Freeze(), was})
		case n < 9 && len(under) > 0:
			i := r.IntN(len(under))
			if p := under[i]; p.Capture(r.IntN(3000)) {
				under = slices.Delete(under, i, i+1)
				restored(t, r, m, written(t, p.Frozen, m), p.models)
			}
		case len(under) > 0:
			i := r.IntN(len(under))
			under[i].Drop()
			under = slices.Delete(under, i, i+1)
		}
	}
	for k, m := range models {
		w.check(t, k, m)
	}
}

// restored restores a snapshot in three subtasks, merges the snapshots of
// these in one, and looks at both.
func restored(t *testing.T, r *rand.Rand, m *memory, h Handle, models map[uint64]model) {
	t.Helper()
	var thirds []Handle
	for i := range 3 {
		w := newWorld(t, m, i, 3)
		if _, err := w.ks.Restore(context.Background(), []Handle{h}, m, false); err != nil {
			t.Fatal(err)
		}
		for k, model := range models {
			if g := keygroup.Of(w.keys.Hash(&k), 128); w.ks.owned.first <= g && g <= w.ks.owned.last {
				w.check(t, k, model)
			} else {
				w.check(t, k, modelOfNothing)
			}
		}
		thirds = append(thirds, snapshot(t, w.op, m))
	}
	whole := newWorld(t, m, 0, 1)
	if _, err := whole.ks.Restore(context.Background(), thirds, m, false); err != nil {
		t.Fatal(err)
	}
	for k, model := range models {
		whole.check(t, k, model)
	}
	again := snapshot(t, whole.op, m)
	same := func(a, b Entry) bool { return string(a.Key) == string(b.Key) && string(a.Value) == string(b.Value) }
	if (len(h.Files) > 0) && !slices.EqualFunc(m.files[h.Files[0].Name], m.files[again.Files[0].Name], same) {
		t.Fatal("the snapshot of what was restored is another one")
	}
}

var modelOfNothing model
