package file

import (
	"context"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/record"
)

// A paced reader keeps to a rate.
type paced struct {
	*reader
	pace *connector.Pace
}

// Read implements connector.Reader.
func (p *paced) Read(ctx context.Context, at *Split, into *record.Batch[string]) error {
	room, err := p.pace.Wait(ctx)
	if err != nil {
		return err
	}
	before := into.Len()
	err = p.read(ctx, at, into, min(cap(into.Values)-before, room))
	p.pace.Took(into.Len() - before)
	return err
}
