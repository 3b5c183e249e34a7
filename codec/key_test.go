package codec

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

type account struct {
	Country string
	Number  int32
	Open    bool
	_       float64
	Tag     [3]uint8
}

// The bytes and the hash of keys are for ever: they decide where state is found.
func TestKeysAndHashesStayAsTheyAre(t *testing.T) {
	pinKey(t, uint64(0), "0000000000000000", 0xe220a8397b1dcdaf)
	pinKey(t, uint64(1), "0000000000000001", 0x910a2dec89025cc1)
	pinKey(t, int64(-1), "7fffffffffffffff", 0xe4d971771b652c20)
	pinKey(t, 42, "800000000000002a", 0xbdd732262feb6e95)
	pinKey(t, int32(-1), "7fffffff", 0xe4d971771b652c20)
	pinKey(t, uint32(42), "0000002a", 0xbdd732262feb6e95)
	pinKey(t, int16(-2), "7ffe", 0xf3203e9039f4a821)
	pinKey(t, uint16(258), "0102", 0x1e09f8a031519da4)
	pinKey(t, int8(-128), "00", 0x91de0036e7e6bc39)
	pinKey(t, uint8(255), "ff", 0x338c507146283fb4)
	pinKey(t, true, "01", 0x910a2dec89025cc1)
	pinKey(t, "", "0001", 0x2d06800538d394c2)
	pinKey(t, "weir", "776569720001", 0x09831dc741817118)
	pinKey(t, "a\x00b", "6100ff620001", 0xd5a06cd078125351)
	pinKey(t, [2]int16{1, -1}, "80017fff", 0x5b6cae6985c5f414)
	pinKey(t, [16]byte{1, 15: 2}, "01000000000000000000000000000002", 0x87bdea5385e89b62)
	pinKey(t, account{Country: "DE", Number: -5, Open: true, Tag: [3]uint8{7, 8, 9}}, "444500017ffffffb01070809", 0x98ba7f5211b1be79)
	pinKey(t, struct{}{}, "00", 0xc44bdff4074eecdb)
}

func pinKey[K any](t *testing.T, k K, encoding string, hash uint64) {
	t.Helper()
	c := mustKey[K](t)
	if got := hex.EncodeToString(c.Append(nil, &k)); got != encoding {
		t.Errorf("%T %v is encoded as %s, want %s", k, k, got, encoding)
	}
	if got := c.Hash(&k); got != hash {
		t.Errorf("%T %v has hash %#x, want %#x", k, k, got, hash)
	}
}

func TestKeysSortAsTheirEncodings(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ordered(t, random, randomInteger[int64])
	ordered(t, random, randomInteger[uint64])
	ordered(t, random, randomInteger[int32])
	ordered(t, random, randomInteger[uint16])
	ordered(t, random, randomInteger[int8])
	ordered(t, random, randomText)
	sorted(t, random, compareAccounts, func(r *rand.Rand) account {
		return account{
			Country: randomText(r), Number: int32(r.IntN(3) - 1), Open: r.IntN(2) == 0,
			Tag: [3]uint8{uint8(r.IntN(2)), uint8(r.IntN(2)), uint8(r.IntN(2))},
		}
	})
	sorted(t, random, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}, func(r *rand.Rand) [2]string { return [2]string{randomText(r), randomText(r)} })
}

func ordered[K cmp.Ordered](t *testing.T, random *rand.Rand, draw func(*rand.Rand) K) {
	t.Helper()
	sorted(t, random, cmp.Compare[K], draw)
}

// sorted draws pairs of keys and compares them by their own order and by their
// encodings.
func sorted[K comparable](t *testing.T, random *rand.Rand, compare func(a, b K) int, draw func(*rand.Rand) K) {
	t.Helper()
	c := mustKey[K](t)
	for range 5000 {
		a, b := draw(random), draw(random)
		x, y := c.Append(nil, &a), c.Append(nil, &b)
		if got, want := bytes.Compare(x, y), compare(a, b); got != want {
			t.Fatalf("%v and %v compare as %d, their encodings % x and % x as %d", a, b, want, x, y, got)
		}
		if a != b && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
			t.Fatalf("of % x and % x one is the prefix of the other", x, y)
		}
		var back K
		if n, err := c.Decode(append(bytes.Clone(x), 0, 1), &back); err != nil || n != len(x) || back != a {
			t.Fatalf("%v came back as %v after %d of %d bytes: %v", a, back, n, len(x), err)
		}
	}
}

func compareAccounts(a, b account) int {
	number := func(open bool) int {
		if open {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Country, b.Country), cmp.Compare(a.Number, b.Number),
		cmp.Compare(number(a.Open), number(b.Open)), bytes.Compare(a.Tag[:], b.Tag[:]))
}

func randomInteger[K int64 | uint64 | int32 | uint16 | int8](r *rand.Rand) K {
	return K(r.Uint64() >> r.IntN(64))
}

// randomText is short and made of the bytes that the encoding treats apart.
func randomText(r *rand.Rand) string {
	b := make([]byte, r.IntN(4))
	for i := range b {
		b[i] = "\x00\x01\x02\xfe\xffa"[r.IntN(6)]
	}
	return string(b)
}

// S61: what can't be a key everywhere and for ever is refused when the job is
// built.
func TestKeysThatWouldNotMeetAreRefused(t *testing.T) {
	refusedKey[float64](t, "^float64 is no key: NaN doesn't equal itself, and -0 equals 0")
	refusedKey[complex64](t, "complex64 is no key: NaN")
	refusedKey[any](t, "its values could be of any type")
	refusedKey[struct{ E error }](t, ".E: error is no key: its values could be of any type")
	refusedKey[*int](t, "*int is no key: it means something in this process only")
	refusedKey[uintptr](t, "uintptr is no key: it means something in this process only")
	refusedKey[chan int](t, "chan int is no key: it means something in this process only")
	refusedKey[[]byte](t, "[]uint8 is no key: its values can't be compared")
	refusedKey[map[string]int](t, "map[string]int is no key: its values can't be compared")
	refusedKey[func()](t, "func() is no key: its values can't be compared")
	refusedKey[time.Time](t, "^time.Time is no key: equal times differ by zone and clock")
	refusedKey[struct{ Pair [2]struct{ At time.Time } }](t, ".Pair[].At: time.Time is no key")
	refusedKey[payment](t, "^payment.meta: unexported field: it would be lost when keys travel; export it")
	refusedKey[netip.Addr](t, "unexported field")
	refusedKey[node](t, "node.Next: []*codec.node is no key")
}

// refusedKey wants a text in the error, with ^ before it at its beginning.
func refusedKey[K any](t *testing.T, want string) {
	t.Helper()
	if _, err := KeyFor[K](); err == nil || !strings.Contains("^"+err.Error(), want) {
		t.Errorf("key codec for %v: error %v, want %q", reflect.TypeFor[K](), err, want)
	}
}

// uuid has an encoding of its own, which a key ignores: its kind says it all.
type uuid [16]byte

func (u uuid) MarshalBinary() ([]byte, error) { return u[:4], nil }
func (u *uuid) UnmarshalBinary([]byte) error  { return nil }

func TestAKeyIsEncodedByItsKind(t *testing.T) {
	k := uuid{15: 1}
	if got := mustKey[uuid](t).Append(nil, &k); !bytes.Equal(got, k[:]) {
		t.Errorf("encoded as % x", got)
	}
}

// S61: a hash is no identity. These two texts are made to have the same XXH3.
func TestKeysOfEqualHashStayDifferent(t *testing.T) {
	const low, high = 0x1f67b3b7a4a44072 ^ 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82 ^ 0x8e2443f7744608b8 // of XXH3's secret
	text := func(a, b uint64) string {
		return string(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b))
	}
	x := uint64(0x0123456789abcdef)
	a, b := text(low, x^high), text(bits.ReverseBytes64(x)^low, high)
	c := mustKey[string](t)
	if c.Hash(&a) != c.Hash(&b) {
		t.Fatalf("the hashes %#x and %#x differ", c.Hash(&a), c.Hash(&b))
	}
	if bytes.Equal(c.Append(nil, &a), c.Append(nil, &b)) {
		t.Error("the encodings are equal")
	}
}

func TestAnIntegersHashDoesNotDependOnItsWidth(t *testing.T) {
	a, b, c := int8(-7), int32(-7), -7
	if x, y, z := mustKey[int8](t).Hash(&a), mustKey[int32](t).Hash(&b), mustKey[int](t).Hash(&c); x != z || y != z {
		t.Errorf("-7 has the hashes %#x, %#x and %#x", x, y, z)
	}
}

// Every bit of a key must move every bit of its hash: the high ones choose the
// key group, the low ones the place in a table.
func TestEveryBitOfAnIntegerMovesEveryBitOfItsHash(t *testing.T) {
	const samples = 20000
	random := rand.New(rand.NewPCG(1, 2))
	c := mustKey[uint64](t)
	var flips [64][64]int
	for range samples {
		k := random.Uint64() >> random.IntN(50)
		for in := range 64 {
			moved := k ^ 1<<in
			diff := c.Hash(&k) ^ c.Hash(&moved)
			for out := range 64 {
				flips[in][out] += int(diff >> out & 1)
			}
		}
	}
	for in := range 64 {
		for out := range 64 {
			if share := float64(flips[in][out]) / samples; math.Abs(share-0.5) > 0.03 {
				t.Errorf("bit %d moves bit %d in %.1f %% of keys", in, out, 100*share)
			}
		}
	}
}

func TestHashesAllocateNothing(t *testing.T) {
	k := account{Country: "DE", Number: 5}
	text := "some text"
	c, s := mustKey[account](t), mustKey[string](t)
	if n := testing.AllocsPerRun(100, func() { c.Hash(&k); s.Hash(&text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzKeyDecodeNeverPanics(f *testing.F) {
	c := mustKey[account](f)
	whole := c.Append(nil, &account{Country: "D\x00E", Number: 1})
	for n := range whole {
		f.Add(whole[:n])
		f.Add(append(bytes.Clone(whole[:n]), 0xff))
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, src []byte) {
		var k account
		n, err := c.Decode(src, &k)
		if err != nil {
			return
		}
		if again := c.Append(nil, &k); !bytes.Equal(again, src[:n]) {
			t.Fatalf("% x was taken for a key that is encoded as % x", src[:n], again)
		}
	})
}
