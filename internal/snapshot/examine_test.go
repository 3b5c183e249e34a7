package snapshot

import (
	"bytes"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/state/table"
)

// keyed returns a handle of a file that holds entries under the given keys.
func keyed(t *testing.T, first, last int, keys ...string) state.Handle {
	var b bytes.Buffer
	w := table.NewWriter(&b, nil)
	for _, k := range keys {
		if err := w.Add([]byte(k), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	file := state.File{Data: b.Bytes(), Size: int64(b.Len()), Checksum: crc32.Checksum(b.Bytes(), castagnoli)}
	return state.Handle{First: first, Last: last, Files: []state.File{file}, States: []state.Declared{{Name: "s", Kind: "value"}}}
}

// TestExamineSeesWhatChecksumsDont holds that a checkpoint whose checksums are right is still
// broken if key groups or states in it make no sense.
func TestExamineSeesWhatChecksumsDont(t *testing.T) {
	low, high := keyed(t, 0, 3, "\x00\x01s\x00k"), keyed(t, 4, 7, "\x00\x05s\x00k")
	for _, test := range []struct {
		name        string
		first, last State
		want        string // empty: all is well
	}{
		{"whole", State{Keyed: []state.Handle{low}}, State{Keyed: []state.Handle{high}}, ""},
		{"in pieces", State{Keyed: []state.Handle{keyed(t, 2, 3), keyed(t, 0, 1)}}, State{Keyed: []state.Handle{high}}, ""},
		{"ended", State{Ended: true}, State{Keyed: []state.Handle{high}}, ""},
		{"missing", State{}, State{Keyed: []state.Handle{high}}, "subtask 0: incomplete or corrupt: its key groups end at -1 instead of 3"},
		{"cut off", State{Keyed: []state.Handle{low}}, State{Keyed: []state.Handle{keyed(t, 4, 6)}}, "end at 6 instead of 7"},
		{"a gap", State{Keyed: []state.Handle{keyed(t, 0, 1), keyed(t, 3, 3)}}, State{Keyed: []state.Handle{high}}, "key group 2 is missing"},
		{"twice", State{Keyed: []state.Handle{low, low}}, State{Keyed: []state.Handle{high}}, "key group 0 is missing, there twice"},
		{"exchanged", State{Keyed: []state.Handle{high}}, State{Keyed: []state.Handle{low}}, "subtask 1: "},
		{"no such group", State{Keyed: []state.Handle{low}}, State{Keyed: []state.Handle{keyed(t, 4, 7, "\x00\x08s\x00k")}}, "key group 8 of 8"},
		{"no such state", State{Keyed: []state.Handle{low}}, State{Keyed: []state.Handle{keyed(t, 4, 7, "\x00\x04z\x00k")}}, `state "z"`},
		{"no key", State{Keyed: []state.Handle{low}}, State{Keyed: []state.Handle{keyed(t, 4, 7, "\x00\x04s")}}, "is no key of an entry"},
	} {
		op := Operator{UID: "op", Parallelism: 2, MaxParallelism: 8, Subtasks: []State{test.first, test.last}}
		var got strings.Builder
		for _, err := range Examine(t.Context(), Origin{}, Checkpoint{Operators: []Operator{op}}) {
			got.WriteString(err.Error() + "\n")
		}
		if (test.want == "") != (got.Len() == 0) || !strings.Contains(got.String(), test.want) {
			t.Errorf("%s: %q, want %q", test.name, got.String(), test.want)
		}
	}
}
