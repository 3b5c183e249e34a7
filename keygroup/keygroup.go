// Package keygroup decides which subtask owns a key.
//
// A key's hash gives its key group, and a run of key groups belongs to each
// subtask. The number of key groups, called max, is fixed for an operator's
// whole life: it is also the most subtasks the operator can have. So when the
// parallelism changes, groups move from one subtask to another and no group is
// ever cut in two:
//
//	max 10, parallelism 4:  | 0 1 2 | 3 4 | 5 6 7 | 8 9 |
//	max 10, parallelism 2:  | 0 1 2   3 4 | 5 6 7   8 9 |
package keygroup

import "math/bits"

// Limit is the largest number of key groups an operator can have.
const Limit = 32768

// Of is the key group, in [0, max), of a key with the given hash. The high bits
// of the hash choose it, which leaves the low bits to hash tables. It has a type
// parameter because Go (1.26) inlines no other function of a package into generic
// code of a second one that a third one instantiates, and there it is called for
// every record.
func Of[H ~uint64](hash H, max int) int {
	group, _ := bits.Mul64(uint64(hash), uint64(max))
	return int(group)
}

// Subtask is the index of the subtask that owns a key group.
func Subtask(group, parallelism, max int) int {
	return group * parallelism / max
}

// Range is the run of key groups that a subtask owns, both ends inclusive. It is
// never empty, since the parallelism is at most max.
func Range(subtask, parallelism, max int) (first, last int) {
	first = (subtask*max + parallelism - 1) / parallelism
	last = ((subtask+1)*max - 1) / parallelism
	return first, last
}

// DefaultMax is the number of key groups of an operator that doesn't say: room to
// grow by half, as a power of two, at least 128 and at most Limit.
func DefaultMax(parallelism int) int {
	return min(max(nextPowerOfTwo(parallelism+parallelism/2), 128), Limit)
}

// nextPowerOfTwo is the smallest power of two that is at least n.
func nextPowerOfTwo(n int) int {
	return 1 << bits.Len(uint(n-1))
}
