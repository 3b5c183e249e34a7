//go:build amd64 || arm64

package state

import "unsafe"

// prefetch has the processor fetch the cache lines at the first n addresses, and
// waits for none of them.
//
//go:noescape
func prefetch(at *[Together]unsafe.Pointer, n int)
