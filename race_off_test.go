//go:build !race

package weir

// raced says that the race detector is on.
const raced = false
