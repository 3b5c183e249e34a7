package table

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
)

// A Writer writes a table. After an error every further call returns it.
type Writer struct {
	to         io.Writer
	properties map[string]string
	block      builder
	index      builder // last key of each block, and the block's length
	at         footer  // what the footer will say
	written    int64
	err        error
}

// NewWriter returns a Writer to w. Properties say what the entries are, for
// tools; they are written by Finish.
func NewWriter(w io.Writer, properties map[string]string) *Writer {
	return &Writer{to: w, properties: properties}
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
	size := w.write(w.block.finish())
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(size))
	w.err = errors.Join(w.err, w.index.add(w.block.last, length[:n], 0))
}

// write writes p unless something went wrong before, and returns its length.
func (w *Writer) write(p []byte) int {
	if w.err == nil {
		_, w.err = w.to.Write(p)
		w.written += int64(len(p))
	}
	return len(p)
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
	w.write(w.at.append(nil))
	return w.err
}
