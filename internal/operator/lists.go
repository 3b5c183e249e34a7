package operator

import (
	"context"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

// Lists returns the operator's state that doesn't belong to keys. What was saved
// of a list is read when it is declared.
func (c *Context) Lists() *state.Lists {
	if c.lists == nil {
		c.lists = state.NewLists(c.savedLists())
	}
	return c.lists
}

func (c *Context) savedLists() (saved []state.SavedList) {
	if c.Restored == nil {
		return nil
	}
	for _, l := range c.Restored.Lists {
		saved = append(saved, state.SavedList{Declared: l.Declared, Read: func() ([][]byte, error) { return c.readList(l) }})
	}
	return saved
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
