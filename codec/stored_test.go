package codec_test

import (
	"encoding/json"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
)

// stored encodes a value and reads it back by its schema alone.
func stored[T any](t *testing.T, v T, want string) {
	t.Helper()
	c, err := codec.For[T]()
	if err != nil {
		t.Fatal(err)
	}
	read(t, c.Schema(), c.Append(nil, &v), want)
}

func read(t *testing.T, s codec.Schema, b []byte, want string) *codec.Stored {
	t.Helper()
	r, err := codec.ForStored(s)
	if err != nil {
		t.Fatal(err)
	}
	got, n, err := r.Decode(append(b, "more"...))
	if err != nil || n != len(b) || string(got) != want || !json.Valid(got) {
		t.Errorf("%s: %d of %d bytes, %s, %v; want %s", s, n, len(b), got, err, want)
	}
	if _, _, err := r.Decode(b[:len(b)-1]); err == nil {
		t.Errorf("%s: reads from too few bytes", s)
	}
	return r
}

type place struct {
	Name string
	At   *[2]float32
}

func TestStoredValuesAreReadByTheirSchema(t *testing.T) {
	stored(t, true, "true")
	stored(t, -7, "-7")
	stored(t, uint64(math.MaxUint64), "18446744073709551615")
	stored(t, float32(0.5), "0.5")
	stored(t, math.Inf(1), `"+Inf"`)
	stored(t, complex(1, 2), `"(1+2i)"`)
	stored(t, "a \"b\"\n", `"a \"b\"\n"`)
	stored(t, []byte{1, 255}, `"01ff"`)
	stored(t, []byte(nil), "null")
	stored(t, []int16{1, -1}, "[1,-1]")
	stored(t, [3]bool{true}, "[true,false,false]")
	stored(t, [0]int{}, "[]")
	stored(t, struct{}{}, "{}")
	stored(t, []place{{"here", &[2]float32{1, 2}}, {"there", nil}}, `[{"Name":"here","At":[1,2]},{"Name":"there","At":null}]`)
	stored(t, map[string][]int{"b": nil, "a": {}}, `{"a":[],"b":null}`)
	stored(t, map[[2]int8]place{{1, 2}: {}}, `{"[1,2]":{"Name":"","At":null}}`)
	stored(t, map[string]map[uint8]struct{ A, B uint8 }{"x": {3: {4, 5}}}, `{"x":{"3":{"A":4,"B":5}}}`)
	stored(t, time.Unix(1, 5).In(time.FixedZone("", 3600)), `"1970-01-01T01:00:01.000000005+01:00"`)
	stored(t, struct {
		From []netip.Addr
		To   netip.Addr
	}{[]netip.Addr{netip.AddrFrom4([4]byte{1, 2, 3, 4})}, netip.Addr{}}, `{"From":["01020304"],"To":""}`)
}

type route struct {
	To  string
	Via [2]int16
	Up  bool
}

func TestStoredKeysAreReadAndWritten(t *testing.T) {
	storedKey(t, "a\x00b", "a\x00b", `"a\u0000b"`)
	storedKey(t, int32(-5), "-5", "-5")
	storedKey(t, route{"x", [2]int16{1, -1}, true}, `{"To":"x","Via":[1,-1],"Up":true}`, `{"To":"x","Via":[1,-1],"Up":true}`)
}

func storedKey[K any](t *testing.T, k K, typed, want string) {
	t.Helper()
	c, err := codec.KeyFor[K]()
	if err != nil {
		t.Fatal(err)
	}
	b := c.Append(nil, &k)
	got, err := read(t, c.Schema(), b, want).Encode(typed)
	if err != nil || string(got) != string(b) {
		t.Errorf("%s is %x, %v; want %x", typed, got, err, b)
	}
}

// TestWrongSchemasAreRefused holds that a text that is no type is an error, never a panic.
func TestWrongSchemasAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "int", "[]", "[3", "[x]int8", "[-1]int8", "[999999999999]int8", "[2147483647][2147483647]int8", "map[string", "map[[]int8]int8", "map[float32]int8",
		"*", "{", "{A}", "{A int8", "{A int8;B int8}", "{A int8; A int8}", "{a int8}", "{_ int8}", "{A B int8}", "int8 ", "int8}", "[]binary:x.Y]",
	} {
		if _, err := codec.ForStored(codec.Schema{Codec: "weir/1", Type: text}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, s := range []codec.Schema{{"weir/9", "int8"}, {"weir-key/1", "time"}, {"weir-key/1", "[]int8"}} {
		if _, err := codec.ForStored(s); err == nil {
			t.Errorf("%s is taken", s)
		}
	}
	numbers, err := codec.ForStored(codec.Schema{Codec: "weir-key/1", Type: "uint8"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := numbers.Encode("300"); err == nil {
		t.Error("300 is taken for a uint8")
	}
}
