package codec

import "golang.org/x/sys/cpu"

// wide says that the processor mixes eight words at once.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ

// mixWide does what mixAll does for a number of seeds at the front, and returns how
// many. Decision 0012 says what it is worth.
func mixWide(seeds, mixed []uint64) int {
	n := len(seeds) &^ 7
	if !wide || n == 0 {
		return 0
	}
	mixEights(&seeds[0], &mixed[0], n)
	return n
}

// unmixWide is to unmixAll what mixWide is to mixAll.
func unmixWide(mixed, seeds []uint64) int {
	n := len(mixed) &^ 7
	if !wide || n == 0 {
		return 0
	}
	unmixEights(&mixed[0], &seeds[0], n)
	return n
}

//go:noescape
func mixEights(seeds, mixed *uint64, n int)

//go:noescape
func unmixEights(mixed, seeds *uint64, n int)
