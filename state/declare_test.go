package state

import (
	"strings"
	"testing"
	"time"
)

// TestDeclarationsThatAreWrong: what is wrong with a declaration is the
// operator's error, which names the state and the reason.
func TestDeclarationsThatAreWrong(t *testing.T) {
	for _, test := range []struct {
		declare func(*op[string])
		want    string
	}{
		{func(o *op[string]) { NewValue[time.Time](o, "at"); NewSplit[int](o, "at") }, ""},
		{func(o *op[string]) { NewValue[int](o, "") }, `state "": a name is not empty`},
		{func(o *op[string]) { NewValue[int](o, "a\x00b") }, `state "a\x00b": a name is not empty`},
		{func(o *op[string]) { NewValue[int](o, "a"); NewList[int](o, "a") }, `state "a": declared twice`},
		{func(o *op[string]) { o.ks.Seal(); NewValue[int](o, "a") }, `state "a": declared too late`},
		{func(o *op[string]) { NewValue[any](o, "a") }, `state "a": value: `},
		{func(o *op[string]) { NewMap[float64, int](o, "a") }, `state "a": map: `},
		{func(o *op[string]) { NewSplit[int](o, "a"); NewSplit[string](o, "a") }, `state "a": declared twice`},
		{func(o *op[string]) { NewAggregating(o, "a", Aggregate[int, any, int]{}) }, `state "a": aggregating: `},
		{func(o *op[string]) { NewSplit[func()](o, "a") }, `state "a": split: `},
		{func(o *op[string]) { NewUnion[func()](o, "a") }, `state "a": union: `},
		{func(o *op[string]) { NewUnion[int](o, "a"); NewBroadcast[int, int](o, "a") }, `state "a": declared twice`},
		{func(o *op[string]) { NewBroadcast[string, any](o, "a") }, `state "a": broadcast: `},
		{func(o *op[string]) { NewBroadcast[float64, int](o, "a") }, `state "a": broadcast: `},
		{func(o *op[string]) { o.lists.Seal(false); NewSplit[int](o, "a") }, `state "a": declared too late`},
	} {
		o := newOp[string](t, nil)
		test.declare(o)
		err := o.ks.Err()
		if err == nil {
			err = o.lists.Err()
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// TestAWrongDeclarationStillWorks until the engine asks: the constructor goes on
// and may use what it declared.
func TestAWrongDeclarationStillWorks(t *testing.T) {
	o := newOp[string](t, nil)
	a, b := NewValue[any](o, "a"), NewSplit[any](o, "b")
	c := NewBroadcast[struct {
		Name   string
		Weight float64
	}, any](o, "c")
	a.Set(1)
	b.Append(1)
	c.Put(struct {
		Name   string
		Weight float64
	}{}, 1)
	if a.Get() != 1 || b.Len() != 1 || c.Len() != 1 || o.ks.Err() == nil || o.lists.Err() == nil {
		t.Errorf("%v, %d, %d, %v, %v", a.Get(), b.Len(), c.Len(), o.ks.Err(), o.lists.Err())
	}
	if n := len(o.ks.Freeze().captures) + len(o.lists.Freeze()); n != 0 {
		t.Errorf("%d states frozen", n)
	}
}
