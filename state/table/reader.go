package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/klauspost/compress/zstd"
)

// A Reader reads a table. It may be used from several goroutines; an Iterator
// may not.
type Reader struct {
	from       io.ReaderAt
	foot       footer
	blocks     []span
	properties map[string]string
	expand     *zstd.Decoder // nil: blocks aren't compressed
}

// A span is where a block lies, and its last key.
type span struct {
	begin, end int64
	last       []byte
}

// Open reads the footer, the properties and the index of the table that is the
// first size bytes of r. The table's other blocks are checked as they are read.
func Open(r io.ReaderAt, size int64) (*Reader, error) {
	t := &Reader{from: r}
	if size < footerSize {
		return nil, corrupt("footer", 0, "the file has only %d bytes", size)
	}
	var err error
	tail := make([]byte, footerSize)
	foot := size - footerSize
	if err = t.read(tail, foot); err != nil {
		return nil, err
	}
	if t.foot, err = parseFooter(tail, foot); err != nil {
		return nil, err
	}
	rest := make([]byte, foot-t.foot.properties)
	if err = t.read(rest, t.foot.properties); err != nil {
		return nil, err
	}
	index := t.foot.index - t.foot.properties
	if err = t.readProperties(rest[:index]); err != nil {
		return nil, corrupt("properties", t.foot.properties, "%v", err)
	}
	if err = t.readIndex(rest[index:]); err != nil {
		return nil, corrupt("index", t.foot.index, "%v", err)
	}
	if t.foot.version == compressed {
		t.expand, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	}
	return t, err
}

// read fills p from offset on.
func (t *Reader) read(p []byte, offset int64) error {
	n, err := t.from.ReadAt(p, offset)
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return corrupt("file", offset+int64(n), "it ends here")
	}
	return fmt.Errorf("read table at offset %d: %w", offset, err)
}

func (t *Reader) readProperties(block []byte) error {
	t.properties = map[string]string{}
	return each(block, func(c *cursor) error {
		t.properties[string(c.key)] = string(c.value)
		return nil
	})
}

func (t *Reader) readIndex(block []byte) error {
	var end int64
	err := each(block, func(c *cursor) error {
		length, n := binary.Uvarint(c.value)
		if n <= 0 || length > uint64(t.foot.properties-end) {
			return fmt.Errorf("block %d doesn't fit", len(t.blocks))
		}
		s := span{end, end + int64(length), bytes.Clone(c.key)}
		t.blocks = append(t.blocks, s)
		end = s.end
		return nil
	})
	if err == nil && end != t.foot.properties {
		err = fmt.Errorf("the blocks end at %d, the properties begin at %d", end, t.foot.properties)
	}
	return err
}

// each calls do for every entry of a block.
func each(sealed []byte, do func(*cursor) error) error {
	block, err := unseal(sealed)
	if err != nil {
		return err
	}
	var c cursor
	if err := c.open(block); err != nil {
		return err
	}
	for {
		ok, err := c.next()
		if ok {
			err = do(&c)
		}
		if err != nil || !ok {
			return err
		}
	}
}

// Properties returns what was given to NewWriter.
func (t *Reader) Properties() map[string]string { return t.properties }

// Entries returns the number of entries, tombstones included.
func (t *Reader) Entries() uint64 { return t.foot.entries }

// Tombstones returns the number of tombstones.
func (t *Reader) Tombstones() uint64 { return t.foot.tombstones }

// All returns an Iterator before the first entry.
func (t *Reader) All() *Iterator {
	return &Iterator{t: t, ahead: mostAhead}
}

// Seek returns an Iterator before the first entry whose key isn't below key.
func (t *Reader) Seek(key []byte) *Iterator {
	it := &Iterator{t: t, ahead: blockSize}
	it.block = sort.Search(len(t.blocks), func(i int) bool {
		return bytes.Compare(t.blocks[i].last, key) >= 0
	})
	if it.enter() {
		found, err := it.at.seek(key)
		if !found && err == nil {
			err = errors.New("the index promises a key that isn't there")
		}
		it.held = it.fail(err)
	}
	return it
}

// Verify reads everything and reports the first thing that is wrong.
func (t *Reader) Verify() error {
	var seen footer
	var last []byte
	it := t.All()
	for it.Next() {
		if seen.entries > 0 && bytes.Compare(last, it.Key()) >= 0 {
			return corrupt(it.where(), it.span().begin, "key %x after %x", it.Key(), last)
		}
		last = append(last[:0], it.Key()...)
		seen.entries++
		if it.Deleted() {
			seen.tombstones++
		}
	}
	if it.Err() == nil && (seen.entries != t.foot.entries || seen.tombstones != t.foot.tombstones) {
		return fmt.Errorf("%w: %d entries with %d tombstones; the footer says %d with %d",
			ErrCorrupt, seen.entries, seen.tombstones, t.foot.entries, t.foot.tombstones)
	}
	return it.Err()
}
