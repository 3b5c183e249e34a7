package table

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// A Writer writes a table. After an error every further call returns it.
type Writer struct {
	to         io.Writer
	properties map[string]string
	block      builder
	index      builder       // last key of each block, and the block's length
	at         footer        // what the footer will say
	squeeze    *zstd.Encoder // nil: blocks are written as they are
	small      []byte        // the last block, compressed
	written    int64
	err        error
}

// NewWriter returns a Writer to w. Properties say what the entries are, for
// tools; they are written by Finish.
func NewWriter(w io.Writer, properties map[string]string) *Writer {
	return &Writer{to: w, properties: properties, at: footer{version: plain}}
}

// Compress has the entries compressed. It is called before the first one is added.
func (w *Writer) Compress() {
	w.squeeze, w.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	w.at.version = compressed
}

// Add appends an entry. Its key must be above all keys before. Key and value
// aren't kept.
func (w *Writer) Add(key, value []byte) error {
	return w.add(key, value, 0)
}

// Delete appends a tombstone: the key is gone, whatever older tables say. The
// key must be above all keys before.
func (w *Writer) Delete(key []byte) error {
	if err := w.add(key, nil, 1); err != nil {
		return err
	}
	w.at.tombstones++
	return nil
}

func (w *Writer) add(key, value []byte, tombstone uint64) error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.block.add(key, value, tombstone); w.err != nil {
		return w.err
	}
	w.at.entries++
	if len(w.block.buf) >= blockSize {
		w.flush()
	}
	return w.err
}

// flush writes the block and notes it in the index.
func (w *Writer) flush() {
	block := w.block.finish()
	if w.squeeze != nil {
		w.small = w.squeeze.EncodeAll(block, w.small[:0])
		block = w.small
	}
	size := w.write(block)
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(size))
	w.err = errors.Join(w.err, w.index.add(w.block.last, length[:n], 0))
}

// write writes a block and its checksum unless something went wrong before, and
// returns the length of both.
func (w *Writer) write(block []byte) int {
	sealed := seal(block)
	w.put(sealed)
	return len(sealed)
}

func (w *Writer) put(p []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(p)
		w.written += int64(len(p))
	}
}

// Finish writes what is left. The Writer isn't used afterwards.
func (w *Writer) Finish() error {
	if w.err != nil {
		return w.err
	}
	if len(w.block.buf) > 0 {
		w.flush()
	}
	w.at.properties = w.written
	var properties builder
	for _, name := range slices.Sorted(maps.Keys(w.properties)) {
		w.err = errors.Join(w.err, properties.add([]byte(name), []byte(w.properties[name]), 0))
	}
	w.write(properties.finish())
	w.at.index = w.written
	w.write(w.index.finish())
	w.put(w.at.append(nil))
	return w.err
}
