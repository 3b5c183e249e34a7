// Package table is the file that state is snapshotted to: entries sorted by key,
// and tombstones, in blocks that each carry a checksum.
//
//	┌───────┬───────┬─ ─ ─┬───────┬────────────┬───────┬────────┐
//	│ block │ block │     │ block │ properties │ index │ footer │
//	└───────┴───────┴─ ─ ─┴───────┴────────────┴───────┴────────┘
//
// Properties and index are blocks too. The blocks before them may be compressed. No byte of a file is unchecked: whatever
// single bit flips, and wherever the file is cut, a reader says so and says
// where. The format is described to the byte in docs/format.md.
package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Versions of the format. They differ in the data blocks, which are compressed in the
// second.
const (
	plain      = 1
	compressed = 2
)

var (
	// ErrCorrupt says that a file isn't what was written.
	ErrCorrupt = errors.New("corrupt table")
	// ErrVersion says that a newer program has written the file.
	ErrVersion = errors.New("unknown version")
	// ErrOrder says that a key was added that isn't above the one before.
	ErrOrder = errors.New("keys out of order")
)

const (
	blockSize  = 32 << 10 // an entry that makes a block this long is its last
	footerSize = 48
	magic      = "weir.tbl"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A footer ends a file. Its size, and the place of version, checksum and magic,
// are the same in every version.
type footer struct {
	entries, tombstones uint64 // entries counts tombstones too
	properties, index   int64  // where these blocks begin
	version             uint32
}

func (f footer) append(dst []byte) []byte {
	at := len(dst)
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, f.entries)
	dst = le.AppendUint64(dst, f.tombstones)
	dst = le.AppendUint64(dst, uint64(f.properties))
	dst = le.AppendUint64(dst, uint64(f.index))
	dst = le.AppendUint32(dst, f.version)
	dst = le.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
	return append(dst, magic...)
}

// parseFooter reads the footer p, which lies at offset.
func parseFooter(p []byte, offset int64) (f footer, err error) {
	le := binary.LittleEndian
	if string(p[40:]) != magic {
		return f, corrupt("footer", offset, "it doesn't end with %q", magic)
	}
	if got, want := crc32.Checksum(p[:36], castagnoli), le.Uint32(p[36:]); got != want {
		return f, corrupt("footer", offset, "checksum %08x instead of %08x", got, want)
	}
	v := le.Uint32(p[32:])
	if v > compressed {
		return f, fmt.Errorf("%w: written by version %d, this program reads up to %d", ErrVersion, v, compressed)
	}
	f = footer{le.Uint64(p), le.Uint64(p[8:]), int64(le.Uint64(p[16:])), int64(le.Uint64(p[24:])), v}
	if f.properties < 0 || f.index < f.properties || offset < f.index {
		return f, corrupt("footer", offset, "it places the properties at %d and the index at %d", f.properties, f.index)
	}
	return f, nil
}

// corrupt is the error for a part of a file that lies at offset.
func corrupt(part string, offset int64, why string, args ...any) error {
	return fmt.Errorf("%w: %s at offset %d: %s", ErrCorrupt, part, offset, fmt.Sprintf(why, args...))
}
