package file

import (
	"context"
	"time"

	"github.com/weirstream/weir/record"
)

// A paced reader keeps to a rate, in steps of about 10 ms, or of one line where
// these are rarer.
type paced struct {
	*reader
	rate float64 // lines in a second
	due  time.Time
}

// lag is how far a paced reader may be behind and still catch up.
const lag = 100 * time.Millisecond

// Read implements connector.Reader.
func (p *paced) Read(ctx context.Context, at *Split, into *record.Batch[string]) error {
	if now := time.Now(); now.Sub(p.due) > lag {
		p.due = now
	}
	if err := sleep(ctx, time.Until(p.due)); err != nil {
		return err
	}
	before := into.Len()
	err := p.read(ctx, at, into, min(cap(into.Values)-before, int(p.rate/100)))
	p.due = p.due.Add(time.Duration(float64(into.Len()-before) / p.rate * float64(time.Second)))
	return err
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
