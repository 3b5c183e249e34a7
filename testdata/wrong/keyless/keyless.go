// Package keyless doesn't compile: it declares keyed state on an operator
// without a key.
package keyless

import (
	"github.com/weirstream/weir"
	"github.com/weirstream/weir/state"
)

// Build is what a user might write.
func Build(job *weir.Job) error {
	weir.Operate(weir.FromSlice(job, "in", []int{1}), "keyless", func(op *weir.Out[int]) weir.Handler[int] {
		count := state.NewValue[int](op, "count")
		return weir.Handler[int]{Record: func(int) error { count.Set(count.Get() + 1); return nil }}
	})
	return nil
}
