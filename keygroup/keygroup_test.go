package keygroup

import (
	"math"
	"slices"
	"testing"
)

func TestRangesAreThoseOfFlink(t *testing.T) {
	for _, c := range []struct {
		max  int
		want [][2]int // for each subtask
	}{
		{128, [][2]int{{0, 42}, {43, 85}, {86, 127}}},
		{10, [][2]int{{0, 2}, {3, 4}, {5, 7}, {8, 9}}},
		{128, [][2]int{{0, 25}, {26, 51}, {52, 76}, {77, 102}, {103, 127}}},
		{128, [][2]int{{0, 127}}},
	} {
		var got [][2]int
		for i := range c.want {
			first, last := Range(i, len(c.want), c.max)
			got = append(got, [2]int{first, last})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("max %d, parallelism %d: ranges %v, want %v", c.max, len(c.want), got, c.want)
		}
	}
}

func TestOwnedAgreesWithSubtask(t *testing.T) {
	for _, max := range []int{1, 2, 7, 10, 128, 200, 256, Limit} {
		step := 1 + max/300
		for p := 1; p <= max; p += step {
			next := 0
			for i := range p {
				first, last := Range(i, p, max)
				if first != next || last < first {
					t.Fatalf("max %d, parallelism %d: subtask %d owns %d to %d, but %d is next", max, p, i, first, last, next)
				}
				if a, b := Subtask(first, p, max), Subtask(last, p, max); a != i || b != i {
					t.Fatalf("max %d, parallelism %d: groups %d and %d belong to %d and %d, want %d", max, p, first, last, a, b, i)
				}
				next = last + 1
			}
			if next != max {
				t.Fatalf("max %d, parallelism %d: the ranges end before %d", max, p, next)
			}
		}
	}
}

func TestDefaultMaxLeavesRoomToGrow(t *testing.T) {
	for _, c := range [][2]int{
		{1, 128}, {85, 128}, {86, 256}, {170, 256}, {171, 256}, {172, 512}, {200, 512}, {1000, 2048},
		{21845, 32768}, {21846, 32768}, {32768, 32768},
	} {
		if got := DefaultMax(c[0]); got != c[1] {
			t.Errorf("parallelism %d: %d key groups, want %d", c[0], got, c[1])
		}
	}
}

func TestHighBitsChooseTheGroup(t *testing.T) {
	for _, c := range []struct {
		hash      uint64
		max, want int
	}{
		{0, 128, 0},
		{math.MaxUint64, 128, 127},
		{1 << 57, 128, 1},
		{1<<57 - 1, 128, 0},
		{1 << 63, 10, 5},
		{math.MaxUint64, 1, 0},
		{math.MaxUint64, Limit, Limit - 1},
	} {
		if got := Of(c.hash, c.max); got != c.want {
			t.Errorf("hash %#x of %d groups: group %d, want %d", c.hash, c.max, got, c.want)
		}
	}
}
