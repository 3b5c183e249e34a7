package executor

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
)

// A Goroutine can be looked at by others, for when it doesn't return.
type Goroutine struct{ id atomic.Uint64 }

// Here says that it is the caller's, unless that is known.
func (g *Goroutine) Here() {
	if g.id.Load() != 0 {
		return
	}
	var buf [32]byte
	head := buf[:runtime.Stack(buf[:], false)] // "goroutine 7 [running]:..."
	id, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	n, _ := strconv.ParseUint(string(id), 10, 64)
	g.id.Store(n)
}

// Forget says that another may follow.
func (g *Goroutine) Forget() { g.id.Store(0) }

// Stack returns where it is now, and nothing if it has ended.
func (g *Goroutine) Stack() string {
	buf := make([]byte, 1<<16)
	n := runtime.Stack(buf, true)
	for ; n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	head := "goroutine " + strconv.FormatUint(g.id.Load(), 10) + " "
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(stack, []byte(head)) {
			return string(stack)
		}
	}
	return ""
}
