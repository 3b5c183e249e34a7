package main

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"time"
)

// rounds is how often both sides of a row run; the best round counts.
const rounds = 3

// A program processes the records 0 to n-1 and returns a checksum of everything
// that has come out at its end.
type program func(n uint64) (check uint64, err error)

// A contest is a row that compares the rates of two programs.
type contest struct {
	engine, other program
	with          string                             // what the other program is
	unit          string                             // of the rates; empty: records/s
	least         time.Duration                      // that a measurement lasts
	prepare       func(about uint64) (uint64, error) // the input of both, and how much it is; nil: nothing to do
}

func throughput(name string, c contest) row {
	return row{name, c.measure}
}

func (c contest) measure(lasting time.Duration) (r result, err error) {
	n, err := c.calibrate(max(lasting, c.least))
	if err != nil {
		return r, err
	}
	var best, compared time.Duration
	for range rounds {
		b, want, err := timed(c.other, n)
		if err != nil {
			return r, err
		}
		a, got, err := timed(c.engine, n)
		if err != nil {
			return r, err
		}
		if got != want {
			return r, fmt.Errorf("wrong result: checksum %x of %d records, want %x", got, n, want)
		}
		best, compared = shorter(best, a), shorter(compared, b)
	}
	rate, ratio := perSecond(n, compared), compared.Seconds()/best.Seconds()
	return result{Rate: perSecond(n, best), Unit: cmp.Or(c.unit, "records/s"), ComparedWith: &c.with, ComparedRate: &rate, Ratio: &ratio}, nil
}

// calibrate finds out how many records keep the other program busy for a while.
// Setting up takes a part of that, so it comes closer by and by.
func (c contest) calibrate(lasting time.Duration) (n uint64, err error) {
	for n = 1 << 14; ; {
		if c.prepare != nil {
			if n, err = c.prepare(n); err != nil {
				return n, err
			}
		}
		took, _, err := timed(c.other, n)
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

// least measures something several times, with no garbage of others to collect;
// the smallest figure counts.
func least(unit string, once func(lasting time.Duration) (float64, error)) func(time.Duration) (result, error) {
	return func(lasting time.Duration) (result, error) {
		best := math.Inf(1)
		for range rounds {
			runtime.GC()
			v, err := once(lasting)
			if err != nil {
				return result{}, err
			}
			best = min(best, v)
		}
		return result{Rate: best, Unit: unit}, nil
	}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
