//go:build !amd64

package codec

const wide = false

func mixWide(_, _ []uint64) int { return 0 }

func unmixWide(_, _ []uint64) int { return 0 }
