package config

import (
	"math"
	"testing"
	"time"
)

func TestDurationsReadAsFlinkReadsThem(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10 min": 10 * time.Minute, "500 ms": 500 * time.Millisecond, "1 h": time.Hour, "10 s": 10 * time.Second, "1d": 24 * time.Hour,
		"250": 250 * time.Millisecond, "0": 0, "1 m": time.Minute, "1m30s": 90 * time.Second, "1 h 30 min": 90 * time.Minute,
		"3 Days": 72 * time.Hour, "2 µs": 2 * time.Microsecond, "1.5s": 1500 * time.Millisecond, "9223372036854775807 ns": math.MaxInt64,
	} {
		if got, ok := readDuration(text); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "abc", "-1", "- 1 s", "10 sek", "1 s 5", "5 1 s", "s", "1..5 s", "1e3", "0x10", "9223372036854775808 ns", "106752 d", "100000 d 100000 d", "10 min;"} {
		if got, ok := readDuration(text); ok {
			t.Errorf("%q: %v, want a refusal", text, got)
		}
	}
}

func TestSizesAreBinary(t *testing.T) {
	for text, want := range map[string]int64{
		"20 kb": 20 << 10, "64mb": 64 << 20, "1 gb": 1 << 30, "2 TB": 2 << 40, "100": 100, "1 b": 1, "1728m": 1728 << 20, "3 kibibytes": 3 << 10,
	} {
		if got, ok := readSize(text); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "kb", "-1", "1.5 kb", "1 kb 1 b", "1 qb", "9223372036854775808", "8388608 tb", "0x10"} {
		if got, ok := readSize(text); ok {
			t.Errorf("%q: %v, want a refusal", text, got)
		}
	}
}

func TestKindsKeepToTheirRange(t *testing.T) {
	for _, c := range []struct {
		kind kind
		text string
		want any // nil where the text is refused
	}{
		{duration{min: time.Second, max: time.Minute}, "1 s", time.Second},
		{duration{min: time.Second, max: time.Minute}, "999 ms", nil},
		{duration{min: time.Second, max: time.Minute}, "61 s", nil},
		{duration{min: time.Second, off: true}, "-1", time.Duration(0)},
		{duration{min: time.Second, off: true}, "0", nil},
		{duration{}, "-1", nil},
		{size{max: mb}, "1 mb", mb},
		{size{max: mb}, "1048577", nil},
		{size{infinite: true}, "infinite", int64(math.MaxInt64)},
		{size{}, "infinite", nil},
		{integer{min: 1, max: 9}, "1", 1},
		{integer{min: 1, max: 9}, "0", nil},
		{integer{min: 1, max: 9}, "10", nil},
		{integer{min: 1}, "-1", nil},
		{integer{min: 1, off: true}, "-1", 0},
		{integer{infinite: true}, "Infinite", math.MaxInt},
		{integer{}, "1_000", nil},
		{integer{}, "99999999999999999999", nil},
		{number{max: 1}, "1", 1.0},
		{number{max: 1}, "1.01", nil},
		{number{min: 1}, "0.9", nil},
		{number{min: 1}, "NaN", nil},
		{number{min: 1}, "Inf", nil},
		{boolean{}, "TRUE", true},
		{boolean{}, "false", false},
		{boolean{}, "yes", nil},
		{text{}, "", nil},
		{oneOf("EXACTLY_ONCE"), "exactly_once", "EXACTLY_ONCE"},
		{oneOf("EXACTLY_ONCE"), "ONCE", nil},
		{stateBackends, "filesystem", "hashmap"},
	} {
		got, ok := c.kind.read(c.text)
		if ok != (c.want != nil) || ok && got != c.want {
			t.Errorf("%v: %q: %v %v, want %v", c.kind, c.text, got, ok, c.want)
		}
	}
}

func TestMessagesSayBoundsAsAUserWritesThem(t *testing.T) {
	for want, kind := range map[string]kind{
		"a duration of 10 ms or more, or -1 for none": duration{min: 10 * time.Millisecond, off: true},
		"a duration from 0 ms to 365 d":               duration{max: 365 * 24 * time.Hour},
		"a size from 0 b to 1 mb":                     size{max: mb},
		"a whole number from 1 to 32768":              integer{min: 1, max: maxSubtasks},
		"a whole number of 0 or more, or infinite":    integer{infinite: true},
		"a number from 0 to 1":                        share,
	} {
		if got := kind.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
