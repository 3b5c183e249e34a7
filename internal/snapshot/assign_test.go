package snapshot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

// job is a job of one operator with the given uid in its one task. It can have state
// of every kind.
func job(uid string, p, maxParallelism int, derived bool) *graph.JobGraph {
	id := idOf(uid)
	op := graph.Operator{ID: id, UID: uid, Name: uid, Kind: graph.Source, Keyed: true, Commits: true, Parallelism: p, MaxParallelism: maxParallelism, Derived: derived}
	return &graph.JobGraph{Tasks: []graph.Task{{ID: id, Parallelism: p, MaxParallelism: maxParallelism, Operators: []graph.Operator{op}}}}
}

func idOf(uid string) (id graph.ID) {
	copy(id[:], uid)
	return id
}

// again is the checkpoint that the subtasks of an assignment would write.
func again(a Assignment, p int) *Checkpoint {
	op := Operator{ID: idOf("op"), UID: "op", Parallelism: p, MaxParallelism: a.MaxParallelism[idOf("op")]}
	for i := range p {
		s := a.Subtasks[graph.Subtask{Task: op.ID, Index: i}][op.ID]
		op.Subtasks = append(op.Subtasks, s)
	}
	return &Checkpoint{Operators: []Operator{op}}
}

// items reads list "name" of a state.
func items(s State, name string) (all []string) {
	for _, l := range s.Lists {
		at := l.Offset
		for _, n := range l.Lengths {
			if l.Name == name {
				all = append(all, string(l.File.Data[at:at+int64(n)]))
			}
			at += int64(n)
		}
	}
	return all
}

// S59: 2 -> 3 -> 1 -> 4 leaves the items of every list and the splits as they
// were, in their order, and each key group with exactly one subtask.
func TestRescalingLosesAndDoublesNothing(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: 2, MaxParallelism: 128}}}
		var rows, names, splits []string
		for i := range 2 {
			s := State{Keyed: []state.Handle{{First: i * 64, Last: i*64 + 63, Files: []state.File{inlineFile("k")}}}}
			for _, name := range []string{"rows", "names"} {
				var data string
				l := List{Declared: state.Declared{Name: name, Kind: state.SplitKind}, Offset: 1}
				for range rng.IntN(7) {
					item := strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(4))
					data += item
					l.Lengths = append(l.Lengths, uint32(len(item)))
				}
				l.File = inlineFile("." + data)
				s.Lists = append(s.Lists, l)
			}
			rows = append(rows, items(s, "rows")...)
			names = append(names, items(s, "names")...)
			for range rng.IntN(6) {
				splits = append(splits, fmt.Sprint(len(splits)))
				s.Splits = append(s.Splits, []byte(splits[len(splits)-1]))
			}
			cp.Operators[0].Subtasks = append(cp.Operators[0].Subtasks, s)
		}
		for _, p := range []int{3, 1, 4, 1 + rng.IntN(9)} {
			a, err := Assign(cp, job("op", p, 128, true), Permission{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			cp = again(a, p)
			var gotRows, gotNames, gotSplits []string
			var groups []int
			for i, s := range cp.Operators[0].Subtasks {
				gotRows = append(gotRows, items(s, "rows")...)
				gotNames = append(gotNames, items(s, "names")...)
				for _, b := range s.Splits {
					gotSplits = append(gotSplits, string(b))
				}
				for _, h := range s.Keyed {
					for g := h.First; g <= h.Last; g++ {
						if g*p/128 != i {
							t.Fatalf("seed %d: p=%d: subtask %d has key group %d", seed, p, i, g)
						}
						groups = append(groups, g)
					}
				}
				if n := len(s.Splits); n < len(splits)/p || n > len(splits)/p+1 {
					t.Fatalf("seed %d: p=%d: subtask %d has %d of %d splits", seed, p, i, n, len(splits))
				}
			}
			if !slices.Equal(gotRows, rows) || !slices.Equal(gotNames, names) || !slices.Equal(gotSplits, splits) {
				t.Fatalf("seed %d: p=%d: rows %q, want %q; names %q, want %q; splits %q, want %q",
					seed, p, gotRows, rows, gotNames, names, gotSplits, splits)
			}
			if len(groups) != 128 || len(slices.Compact(slices.Sorted(slices.Values(groups)))) != 128 {
				t.Fatalf("seed %d: p=%d: key groups %v", seed, p, groups)
			}
		}
	}
}

// Every subtask gets the union lists of all, in order, and one of the copies of
// each broadcast, at whatever parallelism, the same one included. What a subtask
// does with a union list here is what users are told to: it keeps every p-th item.
func TestSharedListsReachEverySubtask(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := 1 + rng.IntN(5)
		cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: p, MaxParallelism: 128}}}
		var union []string // what all have together, in order
		for i := range p {
			n := rng.IntN(4)
			own := make([]string, n)
			for j := range own {
				own[j] = fmt.Sprintf("%d.%d", i, j)
			}
			union = append(union, own...)
			cp.Operators[0].Subtasks = append(cp.Operators[0].Subtasks, State{Ended: rng.IntN(2) == 0, Lists: []List{
				listOf("rows", state.SplitKind, fmt.Sprint("row ", i)), listOf("shared", state.UnionKind, own...),
				listOf("rules", state.BroadcastKind, "a", fmt.Sprint("copy ", i)), listOf("more", state.UnionKind),
			}})
		}
		for _, next := range []int{p, 1, 4, 1 + rng.IntN(9)} {
			a, err := Assign(cp, job("op", next, 128, true), Permission{})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			old := cp.Operators[0].Subtasks
			cp = again(a, next)
			var kept []string
			for i := range cp.Operators[0].Subtasks {
				s := &cp.Operators[0].Subtasks[i]
				copied := items(*s, "rules")
				if got := items(*s, "shared"); !slices.Equal(got, union) {
					t.Fatalf("seed %d: %d -> %d: subtask %d has %q, want %q", seed, p, next, i, got, union)
				}
				if want := items(old[i%p], "rules"); !slices.Equal(copied, want) {
					t.Fatalf("seed %d: %d -> %d: subtask %d has %q, want %q", seed, p, next, i, copied, want)
				}
				var own []string
				for j := i; j < len(union); j += next {
					own = append(own, union[j])
				}
				kept = append(kept, own...)
				s.Lists = slices.DeleteFunc(s.Lists, func(l List) bool { return l.Name == "shared" })
				s.Lists = append(s.Lists, listOf("shared", state.UnionKind, own...))
			}
			p, union = next, kept
		}
	}
}

// listOf is a list of the items in a file of its own.
func listOf(name, kind string, items ...string) List {
	l := List{Declared: state.Declared{Name: name, Kind: kind}, File: inlineFile(strings.Join(items, ""))}
	for _, item := range items {
		l.Lengths = append(l.Lengths, uint32(len(item)))
	}
	return l
}

// S65: an operator knows whether it was in the checkpoint, also in a subtask that
// gets no share of what it saved; one that is new in the job knows that it wasn't.
func TestWhoWasInTheCheckpointKnows(t *testing.T) {
	cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: 1, MaxParallelism: 128, Subtasks: []State{{Splits: [][]byte{{1}}}}}}}
	restored := job("op", 3, 128, true)
	restored.Tasks[0].Operators = append(restored.Tasks[0].Operators, graph.Operator{ID: idOf("new"), Parallelism: 3, MaxParallelism: 128})
	a, err := Assign(cp, restored, Permission{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		task := a.Subtasks[graph.Subtask{Task: idOf("op"), Index: i}]
		if s, ok := task[idOf("op")]; !ok || i > 0 && len(s.Splits) > 0 {
			t.Errorf("subtask %d: %v, %v", i, s, ok)
		}
		if _, ok := task[idOf("new")]; ok {
			t.Errorf("subtask %d: the new operator has state", i)
		}
	}
}

func TestNothingMovesAtTheSameParallelism(t *testing.T) {
	cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: 3, MaxParallelism: 128, Subtasks: []State{
		{Splits: [][]byte{[]byte("a"), []byte("b")}}, {Ended: true}, {Pending: []Pending{{Checkpoint: 1}}},
	}}}}
	a, err := Assign(cp, job("op", 3, 128, true), Permission{})
	if err != nil {
		t.Fatal(err)
	}
	got := again(a, 3).Operators[0].Subtasks
	if len(got[0].Splits) != 2 || len(got[1].Splits) != 0 || !got[1].Ended || got[0].Ended || got[2].Ended || got[2].Pending != nil {
		t.Errorf("%+v", got)
	}
}

func TestEndedSurvivesRescalingOnlyIfAllHad(t *testing.T) {
	for _, last := range []bool{false, true} {
		cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: 2, MaxParallelism: 128, Subtasks: []State{{Ended: true}, {Ended: last}}}}}
		a, err := Assign(cp, job("op", 3, 128, true), Permission{})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range again(a, 3).Operators[0].Subtasks {
			if s.Ended != last {
				t.Errorf("last %v: subtask %d: %v", last, i, s.Ended)
			}
		}
	}
}

func TestPendingGoesToTheCommitterInOrder(t *testing.T) {
	cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: 2, MaxParallelism: 128, Subtasks: []State{
		{Pending: []Pending{{Checkpoint: 1, Data: []byte("a")}, {Checkpoint: 2, Data: []byte("b")}}},
		{Pending: []Pending{{Checkpoint: 1, Subtask: 1, Data: []byte("c")}}},
	}}}}
	a, err := Assign(cp, job("op", 1, 128, true), Permission{})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, p := range a.Pending[idOf("op")] {
		got += string(p.Data)
	}
	if got != "abc" {
		t.Error(got)
	}
}

// S49: state of an operator that is gone is refused, naming it and the flag.
func TestStateOfALostOperatorIsRefused(t *testing.T) {
	cp := &Checkpoint{Operators: []Operator{
		{ID: idOf("src"), UID: "src", Parallelism: 1, MaxParallelism: 128, Subtasks: []State{{Splits: [][]byte{{1}}}}},
		{ID: idOf("m"), UID: "m", Parallelism: 1, MaxParallelism: 128, Subtasks: []State{{Keyed: []state.Handle{{Files: []state.File{{Name: "x", Size: 300}}}}}}},
		{ID: idOf("out"), UID: "out", Parallelism: 1, MaxParallelism: 128, Subtasks: []State{{Pending: []Pending{{Data: []byte("abc")}}}}},
		{ID: idOf("map"), UID: "map", Parallelism: 1, MaxParallelism: 128, Subtasks: []State{{Ended: true}}},
		{ID: idOf("empty"), UID: "empty", Parallelism: 1, MaxParallelism: 128, Subtasks: []State{
			{Keyed: []state.Handle{{Last: 127}}, Lists: []List{listOf("rows", state.SplitKind)}}}},
	}}
	_, err := Assign(cp, job("src", 1, 128, true), Permission{})
	if err == nil {
		t.Fatal("not refused")
	}
	for _, want := range []string{`uid "m"`, `uid "out"`, "300 bytes", "-allowNonRestoredState"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q isn't in %q", want, err)
		}
	}
	if strings.Contains(err.Error(), `"map"`) || strings.Contains(err.Error(), `"empty"`) {
		t.Errorf("an operator without state is refused: %v", err)
	}
	a, err := Assign(cp, job("src", 1, 128, true), Permission{Drop: true})
	if err != nil || len(a.Dropped) != 2 || a.Dropped[0].UID != "m" || a.Dropped[0].Bytes() != 300 {
		t.Error(a.Dropped, err)
	}
}

// An operator that keeps its uid and becomes another kind of operator doesn't lose
// what it had without being asked.
func TestStateOfAnotherKindOfOperatorIsRefused(t *testing.T) {
	for want, s := range map[int64]State{
		300: {Keyed: []state.Handle{{Files: []state.File{{Name: "x", Size: 300}}}}},
		2:   {Splits: [][]byte{{1, 2}}},
		3:   {Pending: []Pending{{Data: []byte("abc")}}},
	} {
		cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: 1, MaxParallelism: 128, Subtasks: []State{s}}}}
		other := job("op", 1, 128, true)
		other.Tasks[0].Operators[0] = graph.Operator{ID: idOf("op"), Parallelism: 1, MaxParallelism: 128}
		_, err := Assign(cp, other, Permission{})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`uid "op" has %d bytes`, want)) || !strings.Contains(err.Error(), "-allowNonRestoredState") {
			t.Errorf("%d bytes: %v", want, err)
		}
		a, err := Assign(cp, other, Permission{Drop: true})
		if err != nil || len(a.Dropped) != 1 || a.Dropped[0].Bytes() != want {
			t.Errorf("%d bytes: dropped %+v, %v", want, a.Dropped, err)
		}
		other.Tasks[0].Operators[0] = graph.Operator{ID: idOf("op"), Keyed: s.Keyed != nil, Commits: s.Pending != nil, Parallelism: 1, MaxParallelism: 128}
		if s.Splits != nil {
			other.Tasks[0].Operators[0].Kind = graph.Source
		}
		if a, err := Assign(cp, other, Permission{}); err != nil || len(a.Dropped) > 0 {
			t.Errorf("%d bytes where they belong: dropped %+v, %v", want, a.Dropped, err)
		}
	}
}

// S56: of the ids of an operator one has state; it doesn't matter which.
func TestStateUnderAFormerIDIsTheOperators(t *testing.T) {
	saved := func(uid string, bytes int64) Operator {
		op := Operator{ID: idOf(uid), UID: uid, Parallelism: 1, MaxParallelism: 128, Subtasks: []State{{}}}
		if bytes > 0 {
			op.Subtasks[0].Keyed = []state.Handle{{Last: 127, Files: []state.File{{Name: "x", Size: bytes}}}}
		}
		return op
	}
	now := job("op", 1, 128, true)
	now.Tasks[0].Operators[0].Former = []graph.ID{idOf("b"), idOf("a")}
	for name, test := range map[string]struct {
		saved []Operator
		want  string // from whom
	}{
		"present":               {[]Operator{saved("op", 1)}, "op"},
		"former":                {[]Operator{saved("a", 1)}, "a"},
		"the present is empty":  {[]Operator{saved("op", 0), saved("a", 1)}, "a"},
		"the former are empty":  {[]Operator{saved("a", 0), saved("op", 1), saved("b", 0)}, "op"},
		"another former has it": {[]Operator{saved("a", 1), saved("b", 0)}, "a"},
		"none has any":          {[]Operator{saved("b", 0), saved("op", 0)}, "op"},
		"two":                   {[]Operator{saved("op", 1), saved("b", 1)}, ""},
		"two former ones":       {[]Operator{saved("a", 1), saved("b", 1)}, ""},
	} {
		a, err := Assign(&Checkpoint{Operators: test.saved}, now, Permission{Drop: test.want == ""})
		switch {
		case test.want == "":
			if err == nil || !strings.Contains(err.Error(), `operator "op" takes over`) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || len(a.Restored) != 1 || a.Restored[0].Saved.UID != test.want:
			t.Errorf("%s: %+v, %v", name, a.Restored, err)
		}
	}
}

// S52: one of two operators without uid is gone, or another, or one more: then the
// other's id says nothing, and its state isn't given to whoever has it.
func TestGeneratedIDsBelongToAShape(t *testing.T) {
	operators := func(names ...string) *graph.JobGraph {
		g := &graph.JobGraph{}
		for _, name := range names {
			id, uid := idOf(name), ""
			if name == "given" {
				uid = name
			}
			op := graph.Operator{ID: id, UID: uid, Name: strings.Trim(name, "12"), Keyed: true, Parallelism: 1, MaxParallelism: 128}
			g.Tasks = append(g.Tasks, graph.Task{ID: id, Parallelism: 1, Operators: []graph.Operator{op}})
		}
		return g
	}
	cp := &Checkpoint{}
	for _, name := range []string{"count1", "count2"} {
		cp.Operators = append(cp.Operators, Operator{ID: idOf(name), Name: "count", Parallelism: 1, MaxParallelism: 128,
			Subtasks: []State{{Keyed: []state.Handle{{Last: 127, Files: []state.File{{Name: "x", Size: 1}}}}}}})
	}
	if a, err := Assign(cp, operators("count2", "given", "count1"), Permission{}); err != nil || len(a.Restored) != 2 {
		t.Errorf("the same operators: %+v, %v", a.Restored, err)
	}
	for _, names := range [][]string{{"count1"}, {"count1", "count2", "count3"}, {"count1", "count2", "filter"}} {
		if a, err := Assign(cp, operators(names...), Permission{Drop: true}); err == nil || len(a.Restored) > 0 || !strings.Contains(err.Error(), "without uid") {
			t.Errorf("%q: %+v, %v", names, a.Restored, err)
		}
	}
	renamed := operators("count1", "count2")
	renamed.Tasks[0].Operators[0].Name = "filter"
	if _, err := Assign(cp, renamed, Permission{Drop: true}); err == nil {
		t.Error("another operator has got the state of one without uid")
	}
	renamed.Tasks[0].Operators[0].Former = []graph.ID{idOf("count2")}
	renamed.Tasks[0].Operators[0].ID = idOf("count9")
	renamed.Tasks[1].Operators[0].ID = idOf("count8")
	if a, err := Assign(cp, renamed, Permission{Drop: true}); err != nil || len(a.Restored) != 1 || len(a.Dropped) != 1 {
		t.Errorf("its id is named: %+v, %v", a, err)
	}
}

// S58: a max parallelism that wasn't set is adopted; one that was can't change, unless
// it may: then every subtask looks for its keys in all state.
func TestMaxParallelismIsTheSavedOne(t *testing.T) {
	cp := &Checkpoint{Operators: []Operator{{ID: idOf("op"), UID: "op", Parallelism: 1, MaxParallelism: 128,
		Subtasks: []State{{Keyed: []state.Handle{{Last: 127, Files: []state.File{inlineFile("k")}}}}}}}}
	_, err := Assign(cp, job("op", 2, 256, false), Permission{})
	if err == nil || !strings.Contains(err.Error(), "256") || !strings.Contains(err.Error(), "128") {
		t.Error(err)
	}
	_, err = Assign(cp, job("op", 200, 512, true), Permission{})
	if err == nil || !strings.Contains(err.Error(), "200 exceeds 128") {
		t.Error(err)
	}
	a, err := Assign(cp, job("op", 100, 256, true), Permission{})
	if err != nil || a.MaxParallelism[idOf("op")] != 128 {
		t.Error(a.MaxParallelism, err)
	}
	a, err = Assign(cp, job("op", 2, 256, false), Permission{Rehash: true})
	if err != nil || a.MaxParallelism[idOf("op")] != 256 {
		t.Error(a.MaxParallelism, err)
	}
	for who, s := range a.Subtasks {
		if h := s[idOf("op")].Keyed; len(h) != 1 || h[0].First != 0 || h[0].Last != 127 {
			t.Errorf("subtask %d hashes %+v anew", who.Index, h)
		}
	}
}

func TestWithoutACheckpointEverybodyStartsEmpty(t *testing.T) {
	a, err := Assign(nil, job("op", 2, 128, true), Permission{})
	if err != nil || len(a.Subtasks) != 0 || !maps.Equal(a.MaxParallelism, map[graph.ID]int{idOf("op"): 128}) {
		t.Error(a, err)
	}
}
