package weir

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// sort out sends words to one stream or another by their length.
func sortOut(long Tag[int]) func(op *Op[string, string]) Handler[string] {
	return func(op *Op[string, string]) Handler[string] {
		emitLong := long.Of(op)
		return Handler[string]{Record: func(s string) error {
			if len(s) > 3 {
				emitLong(len(s))
			} else {
				op.Emit(s)
			}
			return nil
		}}
	}
}

func TestSideOutputsOfAUnionAreOne(t *testing.T) {
	long := NewTag[int]("long")
	var short []string
	var lengths []int
	r, _ := launch(t, context.Background(), func(job *Job) error {
		in := KeyBy(FromSlice(job, "in", []string{"to", "whom", "it", "concerns"}), func(s string) string { return s })
		a, b := Process(in, "a", sortOut(long)), Process(in, "b", sortOut(NewTag[int]("long")))
		Collect(Union(a, b), "short", &short)
		Collect(Side(Union(a, b), long), "lengths", &lengths)
		return nil
	})
	err := wait(t, r)
	slices.Sort(short)
	slices.Sort(lengths)
	if err != nil || !slices.Equal(short, []string{"it", "it", "to", "to"}) || !slices.Equal(lengths, []int{4, 4, 8, 8}) {
		t.Errorf("%v: %q, %d", err, short, lengths)
	}
}

// A tag that an operator never emits to is an empty stream, not a mistake, and so
// is one that nobody looks at.
func TestTagsNeedNotBeUsed(t *testing.T) {
	var none []bool
	err := Run(context.Background(), func(job *Job) error {
		in := FromSlice(job, "in", []string{"to", "whom"})
		out := Process(KeyBy(in, func(s string) string { return s }), "sort", sortOut(NewTag[int]("long")))
		Collect(Side(out, NewTag[bool]("never")), "none", &none)
		return nil
	})
	if err != nil || len(none) > 0 {
		t.Errorf("%v: %v", err, none)
	}
}

func TestMistakesWithSidesAreFoundWhenTheJobIsBuilt(t *testing.T) {
	nothing := func(*Out[int]) Handler[int] { return Handler[int]{Record: func(int) error { return nil }} }
	err := Run(context.Background(), func(job *Job) error {
		in := FromSlice(job, "in", []int{1})
		out := Operate(in, "out", nothing)
		Do(Side(out, NewTag[int]("count")), "fine", func(int) error { return nil })
		Do(Side(out, NewTag[int]("count")), "fine, too", func(int) error { return nil })
		Do(Side(out, NewTag[string]("count")), "other type", func(string) error { return nil })
		Do(Side(out, Tag[string]{}), "no name", func(string) error { return nil })
		Do(Side(out, NewTag[chan int]("untold")), "no codec", func(chan int) error { return nil })
		Do(Side(Map(in, "map", func(n int) int { return n }), NewTag[int]("of map")), "none", func(int) error { return nil })
		return nil
	})
	wants(t, err,
		`side "count" at `, `operator "out" has another side output of that name, whose records aren't of type string`,
		`side at `, "its tag has no name",
		`side "untold" at `, "its records can't travel",
		`side "of map" at `, `operator "map" has no side outputs`,
		"side_test.go:",
	)
	if n := strings.Count(err.Error(), `side "count" at `); n != 1 {
		t.Errorf("%d mistakes with count, want 1: %v", n, err)
	}
}

// What the build can't see, since it doesn't run constructors, fails the job when
// it starts, before any record.
func TestEmittingAnotherTypeThanIsReadFailsTheStart(t *testing.T) {
	records := 0
	r, _ := launch(t, context.Background(), func(job *Job) error {
		job.Restart.Strategy = "none"
		in := FromSlice(job, "in", []string{"to", "whom"})
		seen := Map(in, "map", func(s string) string { records++; return s })
		out := Process(KeyBy(seen, func(s string) string { return s }), "sort", sortOut(NewTag[int]("long")))
		Do(Side(out, NewTag[string]("long")), "do", func(string) error { return errors.New("a record") })
		return nil
	})
	wants(t, wait(t, r), `operator "sort": side output "long": it emits records of type int, and there is a tag of that name with another type`)
	if records > 0 {
		t.Errorf("%d records", records)
	}
}
