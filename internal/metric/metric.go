// Package metric counts what a job does, for whoever looks at it while it runs.
package metric

import "sync/atomic"

// A Counter counts records. Its owner adds to it a slice of them at a time;
// anyone may read it.
type Counter struct {
	n atomic.Int64
	_ [56]byte // owners on different processors don't share a cache line
}

// Add adds n records.
func (c *Counter) Add(n int) { c.n.Add(int64(n)) }

// Value returns how many there have been.
func (c *Counter) Value() int64 { return c.n.Load() }

// Records is how many records have come in by the sources and gone out at the
// ends of a job.
type Records struct{ In, Out int64 }

// Plus returns the sum.
func (r Records) Plus(s Records) Records { return Records{r.In + s.In, r.Out + s.Out} }
