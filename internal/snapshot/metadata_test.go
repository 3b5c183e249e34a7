package snapshot

import (
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata anew")

// sample is a checkpoint with something of everything.
func sample() Checkpoint {
	long := codec.Schema{Codec: "weir/1", Type: "int64"}
	text := codec.Schema{Codec: "weir/1", Type: "string"}
	return Checkpoint{
		Number:  7,
		JobID:   "0123456789abcdef0123456789abcdef",
		JobName: "word count",
		Began:   1_700_000_000_000_000_000,
		Operators: []Operator{
			{
				ID: graph.ID{1}, UID: "lines", Name: "Source: lines", Parallelism: 2, MaxParallelism: 128,
				Enumerator: &Enumerator{Position: []byte("dir/b"), Splits: [][]byte{[]byte("b.txt"), []byte("c.txt")}},
				Schemas:    Schemas{Split: codec.Schema{Codec: "weir/1", Type: "{Path string, Offset int64}"}},
				Subtasks:   []State{{Splits: [][]byte{[]byte("a.txt@12")}}, {Ended: true}},
			},
			{
				ID: graph.ID{2}, UID: "count", Name: "count", Parallelism: 2, MaxParallelism: 128,
				Subtasks: []State{
					{Keyed: []state.Handle{{
						First: 0, Last: 63, Key: text,
						Files: []state.File{
							{Name: "0b8f2c1e-54c9-4d3b-9a53-6f0c1c4a2f10", Size: 70000, Checksum: 0xdeadbeef},
							{Name: "../shared/9a53c1e0-54c9-4d3b-0b8f-6f0c1c4a2f11", Size: 3, Checksum: 5},
						},
						States: []state.Declared{
							{Name: "count", Kind: "value", Value: long}, {Name: "mean", Kind: "aggregating", Value: long},
							{Name: "seen", Kind: "map", Value: long, UserKey: text},
						},
					}}},
					{Keyed: []state.Handle{{First: 64, Last: 127, Key: text, Files: []state.File{inlineFile("small")}}}},
				},
			},
			{
				ID: graph.ID{3}, Name: "buffer", Parallelism: 1, MaxParallelism: 1,
				Subtasks: []State{{Lists: []List{
					{Declared: state.Declared{Name: "rows", Kind: "split", Value: text}, File: inlineFile("xaaabb"), Offset: 1, Lengths: []uint32{3, 0, 2}},
					{Declared: state.Declared{Name: "seen", Kind: "union", Value: long}, File: inlineFile("12345678"), Lengths: []uint32{8}},
					{Declared: state.Declared{Name: "rules", Kind: "broadcast", Value: long, UserKey: text}},
				}}},
			},
			{
				ID: graph.ID{4}, UID: "out", Name: "Sink: out", Parallelism: 1, MaxParallelism: 32768,
				Schemas: Schemas{Committable: codec.Schema{Codec: "weir/1", Type: "{Path string}"}},
				Subtasks: []State{{Pending: []Pending{
					{Checkpoint: 6, Subtask: 1, Data: []byte(".part-6-1")}, {Checkpoint: 7, Data: []byte(".part-7-0")},
				}}},
			},
		},
	}
}

func inlineFile(data string) state.File {
	return state.File{Data: []byte(data), Size: int64(len(data)), Checksum: crc32.Checksum([]byte(data), castagnoli)}
}

func TestDecodeGivesBackWhatEncodeTook(t *testing.T) {
	for _, cp := range []Checkpoint{{}, {Number: 1<<64 - 1, Savepoint: true}, sample()} {
		got, err := Decode(Encode(cp))
		if err != nil || !reflect.DeepEqual(got, cp) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, cp)
		}
	}
}

// The bytes are for ever: what version 1 once wrote is read by every later program.
func TestReadsMetadataOfVersion1(t *testing.T) {
	const golden = "testdata/metadata.v1"
	if *rewrite {
		if err := os.WriteFile(golden, Encode(sample()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	cp, err := Decode(data)
	if err != nil || !reflect.DeepEqual(cp, sample()) {
		t.Errorf("got %+v, %v", cp, err)
	}
	if string(Encode(sample())) != string(data) {
		t.Error("the same checkpoint is written in other bytes now: that is a new version")
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	data := Encode(sample())
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			if _, err := Decode(data); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
			data[i] ^= 1 << bit
		}
	}
}

// S46: metadata that was cut off while being written is never taken as complete.
func TestEveryTruncationIsFound(t *testing.T) {
	data := Encode(sample())
	for n := range data {
		if _, err := Decode(data[:n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	if _, err := Decode(append(data, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
}

// S67: what a newer program wrote is refused as that.
func TestAnotherVersionIsNamed(t *testing.T) {
	data := Encode(sample())
	binary.LittleEndian.PutUint32(data[len(magic):], 9)
	binary.LittleEndian.PutUint32(data[headSize-4:], crc32.Checksum(data[:headSize-4], castagnoli))
	_, err := Decode(data)
	if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "written by version 9") {
		t.Error(err)
	}
}

// How a list is dealt out is nothing to guess.
func TestUnknownKindOfListIsCorrupt(t *testing.T) {
	cp := sample()
	cp.Operators[2].Subtasks[0].Lists[1].Kind = "onion"
	if _, err := Decode(Encode(cp)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), `"seen"`) || !strings.Contains(err.Error(), `"onion"`) {
		t.Error(err)
	}
}

func TestReferencesStayInTheJobsDirectory(t *testing.T) {
	at := func(name string, savepoint bool) error {
		cp := sample()
		cp.Savepoint = savepoint
		cp.Operators = cp.Operators[1:2]
		cp.Operators[0].Subtasks[0].Keyed[0].Files = []state.File{{Name: name, Size: 1}}
		_, err := Decode(Encode(cp))
		return err
	}
	for _, name := range []string{"x", "../shared/x", "../chk-5/x", "a..b"} {
		if err := at(name, false); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"..", ".", "/x", "../../x", "../shared/../../x", "..//x", "./x", "x/", "..\\x", "x\x00", "..//etc/x"} {
		if err := at(name, false); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := at("../shared/x", true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a savepoint refers to a file outside: %v", err)
	}
}

// FuzzDecode feeds Decode bodies whose checksums are right, so that it gets as
// far as it can.
func FuzzDecode(f *testing.F) {
	whole := Encode(sample())
	body := whole[headSize : len(whole)-4]
	f.Add(body)
	for i := range body {
		spoilt := append([]byte(nil), body...)
		spoilt[i] = 0xff
		f.Add(spoilt)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		data := append(append([]byte(nil), whole[:headSize]...), body...)
		data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
		cp, err := Decode(data)
		if err == nil && string(Encode(cp)) != string(data) {
			t.Errorf("%+v has two encodings", cp)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}
