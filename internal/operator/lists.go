package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

// Lists returns the operator's state that doesn't belong to keys. What was saved of
// it is read when it is asked for first; the lists' error says how that went.
func (c *Context) Lists() *state.Lists {
	if c.lists == nil {
		c.lists = state.NewLists(c.readLists())
	}
	return c.lists
}

func (c *Context) readLists() (saved []state.FrozenList, err error) {
	if c.Restored == nil {
		return nil, nil
	}
	for _, l := range c.Restored.Lists {
		items, err := c.readList(l)
		if err != nil {
			return nil, fmt.Errorf("restore state %q: %w", l.Name, err)
		}
		saved = append(saved, state.FrozenList{Declared: l.Declared, Items: items})
	}
	return saved, nil
}

// sealLists ends the declaration of lists.
func (c *Context) sealLists() error {
	dropped, err := c.Lists().Seal(c.DropUnclaimed)
	for _, name := range dropped {
		c.Logger.Warn("state dropped: the operator doesn't declare it any more", "state", name)
	}
	return err
}

func (c *Context) readList(l snapshot.List) (items [][]byte, err error) {
	blob, err := c.Origin.Open(c, l.File)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	at := l.Offset
	for _, n := range l.Lengths {
		item := make([]byte, n)
		if _, err := blob.ReadAt(item, at); err != nil {
			return nil, err
		}
		items, at = append(items, item), at+int64(n)
	}
	return slices.Clip(items), nil
}

func writeList(ctx context.Context, to state.Target, l state.FrozenList) (written snapshot.List, err error) {
	written = snapshot.List{Declared: l.Declared}
	f, err := to.Create(ctx)
	if err != nil {
		return written, err
	}
	for _, item := range l.Items {
		if _, err := f.Write(item); err != nil {
			f.Abort()
			return written, err
		}
		written.Lengths = append(written.Lengths, uint32(len(item)))
	}
	written.File, err = f.Finish()
	return written, err
}
