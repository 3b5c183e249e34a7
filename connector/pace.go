package connector

import (
	"context"
	"time"
)

// A Pace keeps a reader to a rate, in steps of about 10 ms, or of one record
// where these are rarer.
type Pace struct {
	rate float64
	due  time.Time // when the next step begins
	left int       // records of this one
}

// NewPace returns a pace of so many records a second.
func NewPace(rate float64) *Pace { return &Pace{rate: rate} }

// lag is how far a reader may be behind and still catch up.
const lag = 100 * time.Millisecond

// Wait returns when the next records are due, and how many may be taken; at
// latest when ctx ends, with the context's error.
func (p *Pace) Wait(ctx context.Context) (room int, err error) {
	if p.left > 0 {
		return p.left, ctx.Err()
	}
	now := time.Now()
	if now.Sub(p.due) > lag {
		p.due = now
	}
	if err := sleep(ctx, p.due.Sub(now)); err != nil {
		return 0, err
	}
	p.left = max(1, int(p.rate/100))
	return p.left, nil
}

// Took says that n records were taken.
func (p *Pace) Took(n int) {
	p.left -= n
	p.due = p.due.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
