package main

import (
	"fmt"
	"runtime"
	"time"
)

// rounds is how often both sides of a row run; the best round counts.
const rounds = 3

// A program processes the records 0 to n-1 and returns a checksum of everything
// that has come out at its end.
type program func(n uint64) (check uint64, err error)

// throughput is a row that measures records a second. A measurement lasts at
// least as long as least says.
func throughput(name string, engine program, with string, other program, least time.Duration) row {
	return row{name, func(lasting time.Duration) (r result, err error) {
		n, err := calibrate(other, max(lasting, least))
		if err != nil {
			return r, err
		}
		var best, compared time.Duration
		for range rounds {
			b, want, err := timed(other, n)
			if err != nil {
				return r, err
			}
			a, got, err := timed(engine, n)
			if err != nil {
				return r, err
			}
			if got != want {
				return r, fmt.Errorf("wrong result: checksum %x of %d records, want %x", got, n, want)
			}
			best, compared = shorter(best, a), shorter(compared, b)
		}
		rate, ratio := perSecond(n, compared), compared.Seconds()/best.Seconds()
		return result{Rate: perSecond(n, best), Unit: "records/s", ComparedWith: &with, ComparedRate: &rate, Ratio: &ratio}, nil
	}}
}

// calibrate finds out how many records keep a program busy for a while. Setting up
// takes a part of that, so it comes closer by and by.
func calibrate(p program, lasting time.Duration) (n uint64, err error) {
	for n = 1 << 14; ; {
		took, _, err := timed(p, n)
		if err != nil || took > lasting*2/3 {
			return n, err
		}
		n = uint64(float64(n) * min(8, lasting.Seconds()/took.Seconds()))
	}
}

// timed runs a program, with no garbage of others to collect.
func timed(p program, n uint64) (took time.Duration, check uint64, err error) {
	runtime.GC()
	began := time.Now()
	check, err = p(n)
	return time.Since(began), check, err
}

// shorter is the shorter of two times, of which a may not be known yet.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func perSecond(n uint64, took time.Duration) float64 { return float64(n) / took.Seconds() }
