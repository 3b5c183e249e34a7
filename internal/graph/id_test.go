package graph

import (
	"strings"
	"testing"
)

// TestIDsAreFlinks holds ids against those that Flink gives.
func TestIDsAreFlinks(t *testing.T) {
	for uid, want := range map[string]string{
		"source-id":            "bd9c186e89cc37a76d776844dfa8ccba",
		"mapper-id":            "c9cecfed5cae9d489451c50e442666e3",
		"sink-id":              "b2bc5a6680a755404d35a7edb8fc77f4",
		"a":                    "897859f6655555855a890e51483ab5e6",
		"CheckpointingSource2": "1f2b5df5a66154aca61fcb26193792be",
	} {
		if got := hash([]byte(uid)).String(); got != want {
			t.Errorf("uid %q: got %s, want %s", uid, got, want)
		}
	}
}

// TestCollisionNamesBoth has two uids with one id, which nobody has seen yet.
func TestCollisionNamesBoth(t *testing.T) {
	nodes := []Node{
		{UID: "x", Name: "x", Where: "job.go:1"},
		{UID: "y", Name: "why", Where: "job.go:2"},
		{UID: "x", Name: "z", Where: "job.go:3"},
		{Name: "unreached"}, {Name: "unreached too"},
	}
	errs := distinct(nodes, []ID{{1}, {1}, {1}, {}, {}})
	if len(errs) != 2 {
		t.Fatalf("got %d errors, want 2: %v", len(errs), errs)
	}
	for i, names := range [][]string{{`"x" at job.go:1`, `"why" at job.go:2`}, {`uid "x"`, `"x" at job.go:1`, `"z" at job.go:3`}} {
		for _, name := range names {
			if !strings.Contains(errs[i].Error(), name) {
				t.Errorf("%q doesn't name %s", errs[i], name)
			}
		}
	}
}

// TestDerivedMaxParallelism has the examples that Flink's rule is known by.
func TestDerivedMaxParallelism(t *testing.T) {
	for parallelism, want := range map[int]int{1: 128, 2: 128, 85: 128, 86: 256, 170: 256, 200: 512, 1000: 2048, 21845: 32768, 32768: 32768} {
		if got := derive(parallelism); got != want {
			t.Errorf("parallelism %d: got %d, want %d", parallelism, got, want)
		}
	}
}
