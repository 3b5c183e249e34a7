package codec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

type point struct{ X, Y int64 }

type gaps struct {
	Small int8
	Large int64
	Flag  bool
	_     [3]func()
	Half  float32
}

// padded has bytes at its end that mean nothing.
type padded struct {
	Large int64
	Small int8
}

type cents int32

type Base struct{ ID string }

type everything struct {
	Base
	Bool    bool
	Int     int
	Cents   cents
	Uint16  uint16
	Float   float64
	Complex complex64
	Name    string
	Blob    []byte
	Words   []string
	Points  []point
	Gaps    [2]gaps
	Counts  map[string]int64
	Nested  map[point]map[bool][]string
	Set     map[uint8]struct{}
	Next    *point
	Deep    **string
	Tree    []*gaps
	At      time.Time
	Spent   time.Duration
	Addr    netip.Addr
	Addrs   []*netip.Addr
	Nothing struct{}
	None    [0]string
	Empties []struct{}
}

func sample() everything {
	text := "deep"
	deep := &text
	addr := netip.MustParseAddr("2001:db8::1")
	return everything{
		Base: Base{"id"}, Bool: true, Int: -1, Cents: -250, Uint16: 7, Float: math.Inf(-1), Complex: 1 - 2i,
		Name: "name\x00", Blob: []byte{1, 2}, Words: []string{"", "b"}, Points: []point{{1, 2}, {3, 4}},
		Gaps:   [2]gaps{{Small: -1, Large: 1 << 40, Flag: true, Half: 0.5}},
		Counts: map[string]int64{"a": 1, "": 2, "a\x00": 3},
		Nested: map[point]map[bool][]string{{1, 2}: {true: {"x"}, false: nil}, {-1, 0}: nil},
		Set:    map[uint8]struct{}{3: {}, 1: {}},
		Next:   &point{5, 6}, Deep: &deep, Tree: []*gaps{nil, {Small: 1}},
		At:    time.Date(2024, 2, 29, 12, 0, 0, 1, time.FixedZone("", 5400)),
		Spent: time.Hour, Addr: addr, Addrs: []*netip.Addr{&addr, nil},
		Empties: make([]struct{}, 3),
	}
}

// mustFor and mustKey are For and KeyFor of types that have a codec.
func mustFor[T any](t testing.TB) Codec[T] {
	t.Helper()
	c, err := For[T]()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustKey[K any](t testing.TB) Key[K] {
	t.Helper()
	c, err := KeyFor[K]()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// roundTrip encodes v behind some bytes and decodes it into a value that holds
// something else already.
func roundTrip[T any](t *testing.T, v, into T) T {
	t.Helper()
	c := mustFor[T](t)
	encoded := c.Append([]byte("before"), &v)[len("before"):]
	n, err := c.Decode(append(bytes.Clone(encoded), "behind"...), &into)
	if err != nil {
		t.Fatalf("decode % x: %v", encoded, err)
	}
	if n != len(encoded) {
		t.Fatalf("decoded %d of %d bytes", n, len(encoded))
	}
	if again := c.Append(nil, &into); !bytes.Equal(again, encoded) {
		t.Fatalf("encoded again:\n% x, want\n% x", again, encoded)
	}
	return into
}

func same[T any](t *testing.T, v, into T) {
	t.Helper()
	if got := roundTrip(t, v, into); !reflect.DeepEqual(got, v) {
		t.Errorf("%T came back as\n%+v, want\n%+v", v, got, v)
	}
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	same(t, true, false)
	same(t, int8(-3), 1)
	same(t, -3, 1)
	same(t, uint64(math.MaxUint64), 1)
	same(t, cents(-250), 0)
	same(t, float32(0.1), 0)
	same(t, complex(1, math.Inf(1)), 0)
	same(t, "", "x")
	same(t, strings.Repeat("long", 1000), "x")
	same(t, []byte("bytes"), nil)
	same(t, [3]int16{1, -2, 3}, [3]int16{})
	same(t, [2]string{"a", ""}, [2]string{})
	same(t, point{1, -2}, point{3, 4})
	same(t, gaps{Small: 1, Large: 2, Flag: true, Half: 3}, gaps{})
	same(t, []gaps{{Small: 1}, {Large: 2}}, nil)
	same(t, map[string][]int{"a": {1}, "b": nil}, map[string][]int{"c": nil})
	same(t, struct{}{}, struct{}{})
	same(t, []struct{}{{}, {}}, nil)
	same(t, map[struct{}]string{{}: "only"}, nil)
	same(t, netip.MustParsePrefix("10.0.0.0/8"), netip.Prefix{})
	same(t, own{"new"}, own{"old"})
	same(t, []padded{{1, 2}, {3, 4}}, nil)
	same(t, sample(), everything{})
	same(t, everything{At: time.Unix(0, 0).UTC()}, sample())
}

func TestNilAndEmptyAreToldApart(t *testing.T) {
	same(t, []byte{}, nil)
	same(t, []byte(nil), []byte{1})
	same(t, []string{}, nil)
	same(t, []string(nil), []string{"x"})
	same(t, map[string]int{}, nil)
	same(t, map[string]int(nil), map[string]int{"x": 1})
	same(t, []*point{nil, {}}, nil)
}

func TestEveryBitOfAFloatComesBack(t *testing.T) {
	for _, bits := range []uint64{0, 1 << 63, math.Float64bits(math.NaN()), 0x7ff8000000000123} {
		if got := math.Float64bits(roundTrip(t, math.Float64frombits(bits), 0)); got != bits {
			t.Errorf("float %#x came back as %#x", bits, got)
		}
	}
}

func TestTimeKeepsInstantAndZoneAndDropsTheMonotonicClock(t *testing.T) {
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.Now(), time.Now().UTC(),
		time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", -2999)),
		time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.FixedZone("", 14*3600)),
	} {
		got := roundTrip(t, at, time.Now())
		if got.Format(time.RFC3339Nano) != at.Format(time.RFC3339Nano) {
			t.Errorf("%v came back as %v", at, got)
		}
		if strings.Contains(got.String(), "m=") {
			t.Errorf("%v has kept its monotonic clock", got)
		}
	}
}

func TestDecodedValuesDoNotReferToTheSource(t *testing.T) {
	c := mustFor[everything](t)
	want := sample()
	src := c.Append(nil, &want)
	var got everything
	if _, err := c.Decode(src, &got); err != nil {
		t.Fatal(err)
	}
	clear(src)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("clearing the source changed the value to %+v", got)
	}
}

func TestMapsAreEncodedInTheOrderOfTheirKeys(t *testing.T) {
	c := mustFor[map[int64]bool](t)
	m := map[int64]bool{}
	for i := range int64(100) {
		m[50-i] = i%2 == 0
	}
	want := c.Append(nil, &m)
	for range 20 {
		if got := c.Append(nil, &m); !bytes.Equal(got, want) {
			t.Fatalf("encoded as\n% x, before as\n% x", got, want)
		}
	}
	keys := mustKey[int64](t)
	first := int64(-49)
	if k := keys.Append(nil, &first); !bytes.Equal(want[1:9], k) {
		t.Errorf("the first key is % x, want % x", want[1:9], k)
	}
}

// The bytes of values are for ever: a snapshot of any age must be read.
func TestEncodingsStayAsTheyAre(t *testing.T) {
	zone := time.FixedZone("", 3600)
	pin(t, true, "01")
	pin(t, int32(-2), "feffffff")
	pin(t, 1, "0100000000000000")
	pin(t, float64(1), "000000000000f03f")
	pin(t, "weir", "0477656972")
	pin(t, []byte(nil), "00")
	pin(t, []byte{}, "01")
	pin(t, []byte{9}, "0209")
	pin(t, []int16{1, -1}, "030100ffff")
	pin(t, [2]bool{true, false}, "0100")
	pin(t, map[int16]string{1: "a", -1: ""}, "037fff0080010161")
	pin(t, map[string]bool(nil), "00")
	pin(t, gaps{Small: 1, Large: 2, Flag: true, Half: 1}, "010200000000000000010000803f")
	pin(t, []padded{{1, 2}, {3, 4}}, "03"+"010000000000000002"+"030000000000000004")
	pin(t, struct{ P, Q *int8 }{P: new(int8)}, "010000")
	pin(t, time.Unix(1, 2).In(zone), "010000000000000002000000100e0000")
	pin(t, netip.MustParseAddr("1.2.3.4"), "0401020304")
	pin(t, struct{}{}, "00")
}

func pin[T any](t *testing.T, v T, want string) {
	t.Helper()
	if got := hex.EncodeToString(mustFor[T](t).Append(nil, &v)); got != want {
		t.Errorf("%T %v is encoded as %s, want %s", v, v, got, want)
	}
}

func TestLongEncodingsOfTheirOwn(t *testing.T) {
	for _, n := range []int{0, 127, 128, 20000} {
		same(t, []own{{strings.Repeat("x", n)}, {"behind"}}, nil)
	}
}

// own has an encoding of its own, with all that is allowed: methods on pointer
// and value, unexported fields.
type own struct{ text string }

func (o own) MarshalBinary() ([]byte, error) {
	if o.text == "bad" {
		return nil, errors.New("bad text")
	}
	return []byte(o.text), nil
}
func (o *own) UnmarshalBinary(b []byte) error { o.text += string(b); return nil }

func TestAFailingEncodingOfItsOwnPanicsWithTheReason(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); err == nil || err.Error() != "encode codec.own: bad text" {
			t.Errorf("recovered %v", err)
		}
	}()
	mustFor[own](t).Append(nil, &own{"bad"})
}

func TestSchemaNamesTheStructureAlone(t *testing.T) {
	for _, c := range []struct {
		got  Schema
		want string
	}{
		{mustFor[int](t).Schema(), "weir/1 int64"},
		{mustFor[cents](t).Schema(), "weir/1 int32"},
		{mustFor[[]byte](t).Schema(), "weir/1 []uint8"},
		{mustFor[gaps](t).Schema(), "weir/1 {Small int8; Large int64; Flag bool; Half float32}"},
		{mustFor[map[point][4]*Base](t).Schema(), "weir/1 map[{X int64; Y int64}][4]*{ID string}"},
		{mustFor[struct{ At time.Time }](t).Schema(), "weir/1 {At time}"},
		{mustFor[netip.Addr](t).Schema(), "weir/1 binary:net/netip.Addr"},
		{mustFor[struct{}](t).Schema(), "weir/1 {}"},
		{mustKey[uint](t).Schema(), "weir-key/1 uint64"},
		{mustKey[struct {
			A [2]string
			_ float64
			B cents
		}](t).Schema(), "weir-key/1 {A [2]string; B int32}"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("schema %q, want %q", got, c.want)
		}
	}
	type other struct{ X, Y int64 }
	if a, b := mustFor[point](t).Schema(), mustFor[other](t).Schema(); a != b {
		t.Errorf("schemas %v and %v of equal structures differ", a, b)
	}
}

type payment struct {
	ID   string
	meta string //lint:ignore U1000 it is what is refused
}

type node struct {
	Value int
	Next  []*node
}

type stamped struct {
	time.Time
	Name string
}

type stamp struct{ time.Time }

type hidden struct{ Visible }
type Visible struct {
	lost int //lint:ignore U1000 so is this
}

func TestTypesThatWouldLoseSomethingAreRefused(t *testing.T) {
	refused[payment](t, "payment.meta: unexported field: it would be lost when records travel; "+
		"export it or give the type MarshalBinary and UnmarshalBinary")
	refused[hidden](t, "hidden.Visible.lost: unexported field")
	refused[struct{ point }](t, ".point: unexported field")
	refused[struct{ In []map[string]payment }](t, ".In[][].meta: unexported field")
	refused[struct{ Err error }](t, ".Err: error is an interface")
	refused[any](t, "^interface {} is an interface")
	refused[struct{ F *func() }](t, ".F: func() can't be written down")
	refused[chan int](t, "chan int can't be written down")
	refused[uintptr](t, "uintptr can't be written down")
	refused[node](t, "^node.Next[]: codec.node holds itself")
	refused[*point](t, "*codec.point: a pointer")
	refused[map[float64]int](t, "[key]: float64 is no key")
	refused[stamped](t, "stamped.Time: an embedded time.Time makes its MarshalBinary that of the whole struct")
	same(t, stamp{time.Unix(1, 2).UTC()}, stamp{})
}

// refused wants a text in the error, with ^ before it at its beginning.
func refused[T any](t *testing.T, want string) {
	t.Helper()
	if _, err := For[T](); err == nil || !strings.Contains("^"+err.Error(), want) {
		t.Errorf("codec for %v: error %v, want %q", reflect.TypeFor[T](), err, want)
	}
}

func TestBytesThatAreNoEncodingAreAnError(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{
		{"a bool of 2", decodes[bool](t, "\x02")},
		{"a filler of 1", decodes[struct{}](t, "\x01")},
		{"a string longer than the rest", decodes[string](t, "\x05abc")},
		{"a string of 2^63 bytes", decodes[string](t, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")},
		{"a length that never ends", decodes[[]string](t, strings.Repeat("\xff", 20))},
		{"a slice of 2^64-2 elements", decodes[[]string](t, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
		{"a slice without its elements", decodes[[]int64](t, "\x03"+strings.Repeat("x", 15))},
		{"many elements of nothing", decodes[[]struct{ _ [1 << 20]byte }](t, "\xff\xff\xff\x7f")},
		{"keys out of order", decodes[map[uint8]bool](t, "\x03\x02\x00\x01\x00")},
		{"a key twice", decodes[map[uint8]bool](t, "\x03\x01\x00\x01\x00")},
		{"a second of 1e9 nanoseconds", decodes[time.Time](t, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\xca\x9a\x3b\x00\x00\x00\x00")},
		{"five bytes for an IP address", decodes[netip.Addr](t, "\x05abcde")},
		{"a key's text without its end", decodesKey[string](t, "abc")},
		{"a key's text that ends in its end", decodesKey[string](t, "abc\x00")},
		{"a key's text with an unknown escape", decodesKey[string](t, "abc\x00\x02\x00\x01")},
		{"a key that ends too early", decodesKey[[2]string](t, "abc\x00\x01a")},
	} {
		if c.err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

// decodes and decodesKey decode a T from src, which is no encoding of one.
func decodes[T any](t *testing.T, src string) error {
	_, err := mustFor[T](t).Decode([]byte(src), new(T))
	return err
}

func decodesKey[K any](t *testing.T, src string) error {
	_, err := mustKey[K](t).Decode([]byte(src), new(K))
	return err
}

func TestAWrongLengthCostsNoMemory(t *testing.T) {
	src := append([]byte("\xff\xff\x03"), bytes.Repeat([]byte{1}, 1<<15)...)
	for _, c := range []struct {
		name string
		err  func() error
	}{
		{"strings", func() error { return decodes[[]string](t, string(src)) }},
		{"structs", func() error { return decodes[[]everything](t, string(src)) }},
		{"map", func() error { return decodes[map[uint64]everything](t, string(src)) }},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.err()
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; err == nil || spent > 1<<20 {
			t.Errorf("%s: %d bytes for an input of %d, error %v", c.name, spent, len(src), err)
		}
	}
}

func TestACodecServesSeveralGoroutines(t *testing.T) {
	c := mustFor[everything](t)
	v := sample()
	want := c.Append(nil, &v)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				var got everything
				if _, err := c.Decode(c.Append(nil, &v), &got); err != nil || !bytes.Equal(c.Append(nil, &got), want) {
					t.Errorf("came back as %+v: %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

func TestTruncatedBytesAreAnError(t *testing.T) {
	c := mustFor[everything](t)
	v := sample()
	src := c.Append(nil, &v)
	for n := range src {
		if _, err := c.Decode(src[:n:n], new(everything)); err == nil {
			t.Fatalf("the first %d of %d bytes were taken for a value", n, len(src))
		}
	}
}

func TestPlainIsWhatACopyKeepsApart(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want bool
	}{
		{"int", Plain[int](), true},
		{"string", Plain[string](), true},
		{"struct", Plain[struct {
			A [3]point
			T time.Time
		}](), true},
		{"slice", Plain[[]int](), false},
		{"struct with a map", Plain[struct{ M map[string]int }](), false},
		{"struct with a pointer", Plain[struct{ P [1]*int }](), false},
		{"address with a pointer inside", Plain[netip.Addr](), false},
		{"private text", Plain[own](), true},
		{"node", Plain[node](), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: plain is %v, want %v", c.name, c.got, c.want)
		}
	}
}

func FuzzDecodeNeverPanics(f *testing.F) {
	v := sample()
	c := mustFor[everything](f)
	whole := c.Append(nil, &v)
	f.Add(whole)
	seed := rand.Uint64()
	f.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		broken := bytes.Clone(whole)
		for range 1 + random.IntN(3) {
			broken[random.IntN(len(broken))] = byte(random.Uint32())
		}
		f.Add(broken)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var got everything
		n, err := c.Decode(src, &got)
		if err != nil {
			return
		}
		again := c.Append(nil, &got)
		var back everything
		if _, err := c.Decode(again, &back); err != nil {
			t.Fatalf("%d bytes % x became % x, which is no encoding: %v", n, src, again, err)
		}
	})
}
