package state

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// offset is an item of a list.
type offset struct {
	Topic string
	At    int64
}

// restoredFrom is an operator that is restored from lists.
func restoredFrom(t *testing.T, parts ...FrozenList) *op[string] {
	o := newOp[string](t, nil)
	o.lists = *NewLists(parts, nil)
	return o
}

// A list holds all that was saved of it, in order, as soon as it is declared:
// whichever list is declared first, and however many parts it comes in.
func TestListsAreRestoredWhenTheyAreDeclared(t *testing.T) {
	o := newOp[string](t, nil)
	offsets, names := NewSplit[offset](o, "offsets"), NewUnion[string](o, "names")
	offsets.Append(offset{"a", 1}, offset{"b", 2}, offset{"c", 3})
	names.Append("x")
	frozen := o.lists.Freeze()
	offsets.Clear()
	offsets.Append(offset{"d", 4})
	first, rest := frozen[0], frozen[0]
	first.Items, rest.Items = first.Items[:1], rest.Items[1:]

	o = restoredFrom(t, first, frozen[1], rest)
	names = NewUnion[string](o, "names")
	offsets = NewSplit[offset](o, "offsets")
	if got := slices.Collect(offsets.All()); !slices.Equal(got, []offset{{"a", 1}, {"b", 2}, {"c", 3}}) || names.Len() != 1 {
		t.Errorf("restored %v and %d names", got, names.Len())
	}
	if dropped, err := o.lists.Seal(false); len(dropped) > 0 || err != nil {
		t.Error(dropped, err)
	}
}

// A list that was saved as another kind or with another schema is refused, and the
// error says as what; so is one that nobody declares, unless that is allowed.
func TestListsThatDoNotFitAreRefused(t *testing.T) {
	o := newOp[string](t, nil)
	NewSplit[offset](o, "offsets").Append(offset{"a", 1})
	NewBroadcast[uint16, string](o, "rules").Put(7, "seven")
	frozen := o.lists.Freeze()
	offsets, rules := frozen[0], frozen[1]
	short, long, unread := offsets, offsets, errors.New("storage is away")
	short.Items, long.Items = [][]byte{offsets.Items[0][:2]}, [][]byte{append(slices.Clone(offsets.Items[0]), 0)}
	shortRule := rules
	shortRule.Items = [][]byte{rules.Items[0][:1]}
	for _, test := range []struct {
		saved   FrozenList
		declare func(*op[string])
		want    string
		mistake bool
	}{
		{offsets, func(o *op[string]) { NewSplit[offset](o, "others") }, `restore state "offsets": the operator doesn't declare it`, true},
		{offsets, func(o *op[string]) { NewSplit[string](o, "offsets") },
			`restore state "offsets": stored as split of {Topic string; At int64} (weir/1), declared as split of string (weir/1)`, true},
		{offsets, func(o *op[string]) { NewUnion[offset](o, "offsets") },
			`restore state "offsets": stored as split of {Topic string; At int64} (weir/1), declared as union of {Topic string; At int64} (weir/1)`, true},
		{rules, func(o *op[string]) { NewUnion[string](o, "rules") },
			`restore state "rules": stored as broadcast of uint16 (weir-key/1) to string (weir/1), declared as union of string (weir/1)`, true},
		{rules, func(o *op[string]) { NewBroadcast[uint32, string](o, "rules") },
			`restore state "rules": stored as broadcast of uint16 (weir-key/1) to string (weir/1), declared as broadcast of uint32 (weir-key/1) to string (weir/1)`, true},
		{short, func(o *op[string]) { NewSplit[offset](o, "offsets") }, `restore state "offsets": item 0: `, false},
		{long, func(o *op[string]) { NewSplit[offset](o, "offsets") }, `restore state "offsets": item 0: there is more than the value`, false},
		{shortRule, func(o *op[string]) { NewBroadcast[uint16, string](o, "rules") }, `restore state "rules": item 0: `, false},
	} {
		o := restoredFrom(t, test.saved)
		test.declare(o)
		_, err := o.lists.Seal(false)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || errors.Is(err, ErrMistake) != test.mistake || err != o.lists.Err() {
			t.Errorf("%v, want %q", err, test.want)
		}
	}

	o = restoredFrom(t, offsets, rules, offsets)
	NewBroadcast[uint16, string](o, "rules")
	if dropped, err := o.lists.Seal(true); !slices.Equal(dropped, []string{"offsets"}) || err != nil {
		t.Errorf("dropped %q, %v", dropped, err)
	}

	o = newOp[string](t, nil)
	o.lists = *NewLists(nil, unread)
	NewSplit[offset](o, "offsets")
	if _, err := o.lists.Seal(false); !errors.Is(err, unread) {
		t.Error(err)
	}
}

// S73 of broadcasts: what is there, in what order, and what of it comes when the map
// is changed while it is walked.
func TestBroadcastIsAMapInOrder(t *testing.T) {
	o := newOp[string](t, nil)
	rules := NewBroadcast[int8, string](o, "rules")
	for _, k := range []int8{5, -3, 0, 7} {
		rules.Put(k, "")
	}
	rules.Put(5, "five")
	rules.Remove(7)
	rules.Remove(99)
	if v, ok := rules.Lookup(0); v != "" || !ok || rules.Len() != 3 || rules.Get(5) != "five" || rules.Get(7) != "" {
		t.Error(maps.Collect(rules.All()))
	}
	if _, ok := rules.Lookup(7); ok {
		t.Error("7 is still there")
	}
	var walked []int8
	for k := range rules.All() {
		walked = append(walked, k)
		rules.Put(k+10, "new")
		rules.Remove(0)
	}
	frozen := o.lists.Freeze()
	restored := NewBroadcast[int8, string](restoredFrom(t, frozen...), "rules")
	for _, rules := range []*Broadcast[int8, string]{rules, restored} {
		var keys []int8
		for k := range rules.All() {
			keys = append(keys, k)
		}
		if !slices.Equal(walked, []int8{-3, 5}) || !slices.Equal(keys, []int8{-3, 5, 7, 15}) || rules.Get(5) != "five" {
			t.Errorf("walked %v, then %v", walked, maps.Collect(rules.All()))
		}
		for range rules.All() {
			rules.Clear()
		}
		if rules.Len() != 0 {
			t.Errorf("cleared, %d are left", rules.Len())
		}
	}
}

// Copies of a broadcast are the same bytes, in whichever order they came about.
func TestCopiesOfABroadcastAreEqual(t *testing.T) {
	var copies [2]FrozenList
	for i, keys := range [][]string{{"b", "", "ab", "c", "a"}, {"c", "a", "x", "b", "ab", ""}} {
		o := newOp[string](t, nil)
		rules := NewBroadcast[string, int](o, "rules")
		for _, k := range keys {
			rules.Put(k, len(k))
		}
		rules.Remove("x")
		copies[i] = o.lists.Freeze()[0]
	}
	if len(copies[0].Items) != 5 || !slices.EqualFunc(copies[0].Items, copies[1].Items, slices.Equal) {
		t.Errorf("%q and %q", copies[0].Items, copies[1].Items)
	}
}
