package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// kind is a type of values with its range. Its String completes "want ...".
type kind interface {
	// read returns the zero value of its type, and false, where the text is none of its values.
	read(text string) (value any, ok bool)
	String() string
}

// several is a kind that a YAML sequence may be given to.
type several interface{ several() }

const infinite = "infinite"

// duration is a time.Duration. A bare number is in milliseconds. A max of 0 is none.
type duration struct {
	min, max time.Duration
	off      bool // -1 is allowed, and read as 0
}

func (d duration) read(text string) (any, bool) {
	if d.off && text == "-1" {
		return time.Duration(0), true
	}
	value, ok := readDuration(text)
	if !ok || value < d.min || d.max > 0 && value > d.max {
		return time.Duration(0), false
	}
	return value, true
}

func (d duration) String() string {
	most := ""
	if d.max > 0 {
		most = writeDuration(d.max)
	}
	return "a duration " + bounds(writeDuration(d.min), most) + orOff(d.off)
}

// size is an int64 number of bytes. A max of 0 is none.
type size struct {
	min, max int64
	infinite bool // "infinite" is allowed, and read as math.MaxInt64
}

func (s size) read(text string) (any, bool) {
	if s.infinite && strings.EqualFold(text, infinite) {
		return int64(math.MaxInt64), true
	}
	value, ok := readSize(text)
	if !ok || value < s.min || s.max > 0 && value > s.max {
		return int64(0), false
	}
	return value, true
}

func (s size) String() string {
	most := ""
	if s.max > 0 {
		most = writeSize(s.max)
	}
	return "a size " + bounds(writeSize(s.min), most) + orInfinite(s.infinite)
}

// integer is an int. A max of 0 is none.
type integer struct {
	min, max int
	off      bool // -1 is allowed, and read as 0
	infinite bool // "infinite" is allowed, and read as math.MaxInt
}

func (n integer) read(text string) (any, bool) {
	if n.off && text == "-1" {
		return 0, true
	}
	if n.infinite && strings.EqualFold(text, infinite) {
		return math.MaxInt, true
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < n.min || n.max > 0 && value > n.max {
		return 0, false
	}
	return value, true
}

func (n integer) String() string {
	most := ""
	if n.max > 0 {
		most = strconv.Itoa(n.max)
	}
	return "a whole number " + bounds(strconv.Itoa(n.min), most) + orOff(n.off) + orInfinite(n.infinite)
}

// number is a float64. A max of 0 is none.
type number struct{ min, max float64 }

func (n number) read(text string) (any, bool) {
	value, err := strconv.ParseFloat(text, 64)
	inside := value >= n.min && !math.IsInf(value, 0) && (n.max == 0 || value <= n.max) // false for NaN
	if err != nil || !inside {
		return 0.0, false
	}
	return value, true
}

func (n number) String() string {
	most := ""
	if n.max > 0 {
		most = fmt.Sprint(n.max)
	}
	return "a number " + bounds(fmt.Sprint(n.min), most)
}

// boolean is a bool.
type boolean struct{}

func (boolean) read(text string) (any, bool) {
	value := strings.EqualFold(text, "true")
	return value, value || strings.EqualFold(text, "false")
}

func (boolean) String() string { return "true or false" }

// text is a string that isn't empty.
type text struct{}

func (text) read(text string) (any, bool) { return text, text != "" }
func (text) String() string               { return "some text" }

// choice is a string, one of a few. Upper and lower case are the same.
type choice struct {
	values []string
	also   map[string]string // other spellings, with the value that they mean
}

func oneOf(values ...string) choice { return choice{values: values} }

func (c choice) read(text string) (any, bool) {
	for _, value := range c.values {
		if strings.EqualFold(text, value) {
			return value, true
		}
	}
	value, ok := c.also[strings.ToLower(text)]
	return value, ok
}

func (c choice) String() string { return "one of " + strings.Join(c.values, ", ") }

// list is a []string: a YAML sequence, or items with ';' between them.
type list struct{}

func (list) several() {}

func (list) read(text string) (any, bool) {
	if text == "" {
		return []string(nil), false
	}
	items := strings.Split(text, ";")
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
	}
	return items, true
}

func (list) String() string { return "a list, with ';' between its items" }

// anything is for keys whose values we don't look at.
type anything struct{}

func (anything) several()                     {}
func (anything) read(text string) (any, bool) { return text, true }
func (anything) String() string               { return "anything" }

func bounds(least, most string) string {
	if most == "" {
		return fmt.Sprintf("of %s or more", least)
	}
	return fmt.Sprintf("from %s to %s", least, most)
}

func orOff(allowed bool) string {
	if allowed {
		return ", or -1 for none"
	}
	return ""
}

func orInfinite(allowed bool) string {
	if allowed {
		return ", or " + infinite
	}
	return ""
}

// durationUnits maps the names of units to those of time.ParseDuration; a day has none.
var durationUnits = map[string]string{
	"":   "ms",
	"ns": "ns", "nano": "ns", "nanos": "ns", "nanosecond": "ns", "nanoseconds": "ns",
	"us": "us", "µs": "us", "micro": "us", "micros": "us", "microsecond": "us", "microseconds": "us",
	"ms": "ms", "milli": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"h": "h", "hour": "h", "hours": "h",
	"d": day, "day": day, "days": day,
}

const day = "day"

// readDuration reads "10 min", "1d", "1m30s" (m is a minute), and a bare number of milliseconds.
func readDuration(text string) (time.Duration, bool) {
	var total time.Duration
	parts := 0
	for rest := text; rest != ""; parts++ {
		var number, name string
		number, name, rest = cutQuantity(rest)
		unit, known := durationUnits[strings.ToLower(name)]
		if !known || name == "" && (parts > 0 || rest != "") {
			return 0, false
		}
		factor := time.Duration(1)
		if unit == day {
			unit, factor = "h", 24
		}
		part, err := time.ParseDuration(number + unit)
		if err != nil || part > (math.MaxInt64-total)/factor {
			return 0, false
		}
		total += part * factor
	}
	return total, parts > 0
}

// cutQuantity cuts a number and the name of its unit off the front of the text.
func cutQuantity(text string) (number, unit, rest string) {
	digits := strings.TrimLeft(text, "0123456789.")
	number = text[:len(text)-len(digits)]
	rest = strings.TrimLeft(digits, " ")
	letters := strings.TrimLeftFunc(rest, unicode.IsLetter)
	unit = rest[:len(rest)-len(letters)]
	return number, unit, strings.TrimLeft(letters, " ")
}

func writeDuration(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d >= unit.length && d%unit.length == 0 {
			return fmt.Sprintf("%d %s", d/unit.length, unit.name)
		}
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// sizeUnits maps the names of units to powers of 1024.
var sizeUnits = map[string]int{
	"": 0, "b": 0, "bytes": 0,
	"k": 1, "kb": 1, "kibibytes": 1,
	"m": 2, "mb": 2, "mebibytes": 2,
	"g": 3, "gb": 3, "gibibytes": 3,
	"t": 4, "tb": 4, "tebibytes": 4,
}

// readSize reads "20 kb", "1gb", and a bare number of bytes.
func readSize(text string) (int64, bool) {
	digits, name, rest := cutQuantity(text)
	power, known := sizeUnits[strings.ToLower(name)]
	value, err := strconv.ParseInt(digits, 10, 64)
	factor := int64(1) << (10 * power)
	if !known || rest != "" || err != nil || value > math.MaxInt64/factor {
		return 0, false
	}
	return value * factor, true
}

func writeSize(bytes int64) string {
	names := []string{"b", "kb", "mb", "gb", "tb"}
	power := 0
	for power < len(names)-1 && bytes >= 1024 && bytes%1024 == 0 {
		bytes /= 1024
		power++
	}
	return fmt.Sprintf("%d %s", bytes, names[power])
}
