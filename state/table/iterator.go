package table

import (
	"bytes"
	"fmt"
)

// mostAhead is how many bytes are read at once where all are wanted, unless one
// block is longer.
const mostAhead = 512 << 10

// An Iterator walks a table in the order of keys:
//
//	for it.Next() {
//		use(it.Key(), it.Value())
//	}
//	return it.Err()
//
// It needs no Close.
type Iterator struct {
	t     *Reader
	at    cursor
	block int  // the next block to enter
	held  bool // at stands on an entry that Next hasn't given yet
	err   error

	chunk []byte // the blocks from first on and below past, as they were read
	first int
	past  int
	ahead int64  // how many bytes to read next
	plain []byte // the entered block, if it was compressed
}

// Next steps to the next entry, and reports whether there is one.
func (it *Iterator) Next() bool {
	if it.held {
		it.held = false
		return true
	}
	for it.err == nil {
		ok, err := it.at.next()
		if ok {
			return true
		}
		if !it.leave(err) || !it.enter() {
			return false
		}
	}
	return false
}

// leave checks that the block that has ended ended as the index says.
func (it *Iterator) leave(err error) bool {
	if err == nil && it.block > 0 && it.at.entries != nil && !bytes.Equal(it.at.key, it.span().last) {
		err = fmt.Errorf("it ends with key %x, the index says %x", it.at.key, it.span().last)
	}
	return it.fail(err)
}

// enter opens the next block, and reports whether there is one.
func (it *Iterator) enter() bool {
	if it.err != nil || it.block == len(it.t.blocks) {
		it.at = cursor{}
		return false
	}
	if it.block >= it.past && !it.fill() {
		return false
	}
	it.block++
	base, s := it.t.blocks[it.first].begin, it.span()
	return it.fail(it.open(it.chunk[s.begin-base : s.end-base]))
}

// open opens a block as it was written.
func (it *Iterator) open(sealed []byte) error {
	block, err := unseal(sealed)
	if err == nil && it.t.expand != nil {
		it.plain, err = it.t.expand.DecodeAll(block, it.plain[:0])
		block = it.plain
	}
	if err != nil {
		return err
	}
	return it.at.open(block)
}

// fill reads the chunk that begins with the next block.
func (it *Iterator) fill() bool {
	blocks := it.t.blocks
	begin, end := blocks[it.block].begin, blocks[it.block].end
	it.first, it.past = it.block, it.block+1
	for it.past < len(blocks) && blocks[it.past].end-begin <= it.ahead {
		end = blocks[it.past].end
		it.past++
	}
	it.ahead = min(2*it.ahead, mostAhead)
	if int64(cap(it.chunk)) < end-begin {
		it.chunk = make([]byte, end-begin)
	}
	it.chunk = it.chunk[:end-begin]
	it.err = it.t.read(it.chunk, begin)
	return it.err == nil
}

// span is where the entered block lies.
func (it *Iterator) span() span { return it.t.blocks[it.block-1] }

func (it *Iterator) where() string { return fmt.Sprintf("block %d", it.block-1) }

// fail notes what is wrong with the entered block, and reports whether all is well.
func (it *Iterator) fail(err error) bool {
	if err != nil {
		it.err = corrupt(it.where(), it.span().begin, "%v", err)
	}
	return err == nil
}

// Key returns the entry's key, valid until the next call of Next.
func (it *Iterator) Key() []byte { return it.at.key }

// Value returns the entry's value, valid until the next call of Next.
func (it *Iterator) Value() []byte { return it.at.value }

// Deleted reports whether the entry is a tombstone.
func (it *Iterator) Deleted() bool { return it.at.deleted }

// Err returns the error that ended the walk, if it was one.
func (it *Iterator) Err() error { return it.err }
