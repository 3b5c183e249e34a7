package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"
	"sort"
)

// A block is a run of entries in the order of their keys. Of each key only what
// differs from the key before is stored, but at every restart it is stored
// whole. The places of the restarts follow the entries, so that a block can be
// searched:
//
//	entry*  place of a restart*  number of restarts  checksum
//
// An entry is, in lengths as unsigned varints:
//
//	length shared with the key before
//	length of the rest of the key
//	length of the value, times two, plus one for a tombstone
//	rest of the key, value
const restartEvery = 16

// A builder builds blocks. Keys ascend across blocks.
type builder struct {
	buf      []byte
	restarts []uint32
	run      int // entries since the last restart
	last     []byte
	any      bool // there is a last key
}

// add appends an entry.
func (b *builder) add(key, value []byte, tombstone uint64) error {
	shared := prefix(b.last, key)
	if b.any && (shared == len(key) || shared < len(b.last) && key[shared] < b.last[shared]) {
		return fmt.Errorf("%w: %x after %x", ErrOrder, key, b.last)
	}
	b.any = true
	rest := key[shared:]
	b.last = append(b.last[:shared], rest...)
	if b.run++; b.run > restartEvery || len(b.restarts) == 0 {
		b.restarts = append(b.restarts, uint32(len(b.buf)))
		b.run, shared, rest = 1, 0, key
	}
	size := uint64(len(value))<<1 | tombstone
	if shared|len(rest)|int(size) < 0x80 {
		b.buf = append(b.buf, byte(shared), byte(len(rest)), byte(size))
	} else {
		b.buf = binary.AppendUvarint(b.buf, uint64(shared))
		b.buf = binary.AppendUvarint(b.buf, uint64(len(rest)))
		b.buf = binary.AppendUvarint(b.buf, size)
	}
	b.buf = append(b.buf, rest...)
	b.buf = append(b.buf, value...)
	return nil
}

// finish returns the block up to its checksum, for which there is room, and begins
// another one. It is valid until the next add.
func (b *builder) finish() []byte {
	p := b.buf
	for _, r := range b.restarts {
		p = binary.LittleEndian.AppendUint32(p, r)
	}
	p = slices.Grow(binary.LittleEndian.AppendUint32(p, uint32(len(b.restarts))), 4)
	b.buf, b.restarts, b.run = p[:0], b.restarts[:0], 0
	return p
}

// seal appends the checksum of a block.
func seal(block []byte) []byte {
	return binary.LittleEndian.AppendUint32(block, crc32.Checksum(block, castagnoli))
}

// unseal checks the checksum of a block and returns what is before it.
func unseal(block []byte) ([]byte, error) {
	end := len(block) - 4
	if end < 0 {
		return nil, errShort
	}
	got, want := crc32.Checksum(block[:end], castagnoli), binary.LittleEndian.Uint32(block[end:])
	if got != want {
		return nil, fmt.Errorf("checksum %08x instead of %08x", got, want)
	}
	return block[:end], nil
}

// prefix returns how many bytes a and b have in common at their front.
func prefix(a, b []byte) int {
	most := min(len(a), len(b))
	n := 0
	for n+8 <= most {
		x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:])
		if x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

// A cursor walks a block.
type cursor struct {
	entries  []byte
	restarts []byte
	at       int // where the next entry begins
	key      []byte
	value    []byte
	deleted  bool
}

var errEntry = errors.New("an entry reaches beyond its block")

var errShort = errors.New("too short for a block")

// open stands before the first entry of a block, which is given without its checksum.
func (c *cursor) open(block []byte) error {
	end := len(block) - 4
	if end < 0 {
		return errShort
	}
	restarts := int64(binary.LittleEndian.Uint32(block[end:])) * 4
	if restarts > int64(end) {
		return errors.New("more restarts than there is room for")
	}
	entries := end - int(restarts)
	if entries > 0 && restarts == 0 {
		return errors.New("no restart")
	}
	c.entries, c.restarts = block[:entries:entries], block[entries:end]
	c.at, c.key = 0, c.key[:0]
	return nil
}

// next steps to the next entry. False without an error is the end.
func (c *cursor) next() (bool, error) {
	if c.at >= len(c.entries) {
		return false, nil
	}
	p := c.entries[c.at:]
	var shared, rest, size uint64
	head := 3
	if len(p) >= 3 && (p[0]|p[1]|p[2]) < 0x80 {
		shared, rest, size = uint64(p[0]), uint64(p[1]), uint64(p[2])
	} else {
		var a, b, c int
		shared, a = binary.Uvarint(p)
		rest, b = binary.Uvarint(p[max(a, 0):])
		size, c = binary.Uvarint(p[max(a, 0)+max(b, 0):])
		if a <= 0 || b <= 0 || c <= 0 {
			return false, errEntry
		}
		head = a + b + c
	}
	p = p[head:]
	if shared > uint64(len(c.key)) || rest > uint64(len(p)) || size>>1 > uint64(len(p))-rest {
		return false, errEntry
	}
	end := rest + size>>1
	c.key = append(c.key[:shared], p[:rest]...)
	c.value = p[rest:end:end]
	c.deleted = size&1 != 0
	c.at += head + int(end)
	return true, nil
}

// seek steps to the first entry whose key isn't below key.
func (c *cursor) seek(key []byte) (found bool, err error) {
	jump := func(restart int) (bool, error) {
		c.key = c.key[:0]
		c.at = int(binary.LittleEndian.Uint32(c.restarts[4*restart:]))
		return c.next()
	}
	above := sort.Search(len(c.restarts)/4, func(i int) bool {
		ok, e := jump(i)
		if !ok && err == nil {
			err = errors.Join(e, errors.New("a restart leads nowhere"))
		}
		return bytes.Compare(c.key, key) > 0
	})
	if err != nil {
		return false, err
	}
	found, err = jump(max(above-1, 0))
	for found && bytes.Compare(c.key, key) < 0 {
		found, err = c.next()
	}
	return found, err
}
