package state

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// offset is an item of a list.
type offset struct {
	Topic string
	At    int64
}

func newOffsets(t *testing.T) (*op[string], *Split[offset], *Split[string]) {
	o := newOp[string](t, nil)
	return o, NewSplit[offset](o, "offsets"), NewSplit[string](o, "names")
}

func TestListsAreDealtOutAnew(t *testing.T) {
	o, offsets, names := newOffsets(t)
	offsets.Append(offset{"a", 1}, offset{"b", 2}, offset{"c", 3})
	names.Append("x")
	frozen := o.lists.Freeze()
	offsets.Clear()
	offsets.Append(offset{"d", 4})
	o, offsets, names = newOffsets(t)
	for _, l := range frozen {
		for _, items := range [][][]byte{l.Items[:1], l.Items[1:]} {
			if err := o.lists.Restore(l.Name, l.Schema, items); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := slices.Collect(offsets.All()); !slices.Equal(got, []offset{{"a", 1}, {"b", 2}, {"c", 3}}) || names.Len() != 1 {
		t.Errorf("restored %v and %d names", got, names.Len())
	}
}

func TestListsThatDoNotFitAreRefused(t *testing.T) {
	o, offsets, _ := newOffsets(t)
	offsets.Append(offset{"a", 1})
	l := o.lists.Freeze()[0]
	for _, test := range []struct {
		name  string
		items [][]byte
		want  string
	}{
		{"others", l.Items, `restore list "others": the operator doesn't declare it`},
		{"names", l.Items, `restore list "names": stored as {Topic string; At int64} (weir/1), declared as string (weir/1)`},
		{"offsets", [][]byte{l.Items[0][:2]}, `restore list "offsets": item 0: `},
		{"offsets", [][]byte{append(l.Items[0], 0)}, `restore list "offsets": item 0: there is more than the value`},
	} {
		err := o.lists.Restore(test.name, l.Schema, test.items)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || errors.Is(err, ErrUndeclared) != (test.name == "others") {
			t.Errorf("restore %q: %v, want %q", test.name, err, test.want)
		}
	}
}
