package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector/file"
)

// firstRecordRow says how long it takes from the start of a job until its sink gets
// something, where the input is in so many files.
func firstRecordRow(name string, files int) row {
	return row{name, func(lasting time.Duration) (result, error) {
		dir, err := os.MkdirTemp("", "weir-bench-")
		if err != nil {
			return result{}, err
		}
		defer os.RemoveAll(dir)
		for i := range files {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d", i)), []byte("a line\n"), 0o666); err != nil {
				return result{}, err
			}
		}
		return least("ms", func(time.Duration) (float64, error) { return firstRecord(dir) })(lasting)
	}}
}

func firstRecord(dir string) (ms float64, err error) {
	var first atomic.Int64
	began := time.Now()
	err = weir.Run(context.Background(), func(job *weir.Job) error {
		lines := weir.From(job, "lines", file.Lines(dir))
		counts := weir.Count(weir.KeyBy(lines, func(line string) string { return line }), "count")
		weir.Do(counts, "take", func(weir.Pair[string, int64]) error {
			first.CompareAndSwap(0, int64(time.Since(began)))
			return nil
		})
		return nil
	})
	return milliseconds(time.Duration(first.Load())), err
}
