//go:build !race

package codec

import (
	"net/netip"
	"testing"
)

// The race detector makes sync.Pool forget, so it isn't for this file.

func TestAppendAllocatesNothing(t *testing.T) {
	v := sample()
	v.Addr, v.Addrs = netip.Addr{}, nil
	steady(t, "everything", v)
	steady(t, "string", "text")
	steady(t, "point", point{1, 2})
	steady(t, "gaps", gaps{})
	steady(t, "map", map[string]map[string]int{"a": {"b": 1}, "c": {"d": 2}})
}

func steady[T any](t *testing.T, name string, v T) {
	t.Helper()
	c := mustFor[T](t)
	dst := make([]byte, 0, 1<<12)
	if n := testing.AllocsPerRun(100, func() { dst = c.Append(dst[:0], &v) }); n != 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
}
