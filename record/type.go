package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirstream/weir/codec"
)

// A Type is what the untyped middle of the engine knows of a stream's records:
// the batches that it is given as any are *Batch[T] of one T.
type Type interface {
	// New makes an empty batch.
	New() any
	// Len is the number of records in a batch.
	Len(batch any) int
	// Reset empties a batch.
	Reset(batch any)
	// Append appends the encoding of a batch.
	Append(dst []byte, batch any) []byte
	// Decode reads what Append wrote, all of src, into an empty batch.
	Decode(src []byte, batch any) error
}

// TypeOf returns the Type of records that c encodes.
func TypeOf[T any](c codec.Codec[T]) Type { return typeOf[T]{c} }

type typeOf[T any] struct{ codec codec.Codec[T] }

// smallest is how many records a new batch has room for; it grows with use, so
// that many channels with little traffic cost little.
const smallest = 16

func (t typeOf[T]) New() any {
	return &Batch[T]{Values: make([]T, 0, smallest)}
}

func (t typeOf[T]) Len(batch any) int { return len(batch.(*Batch[T]).Values) }

func (t typeOf[T]) Reset(batch any) { batch.(*Batch[T]).Reset() }

// Append writes: number of values, of times, of hashes; the values; the times;
// the hashes.
func (t typeOf[T]) Append(dst []byte, batch any) []byte {
	b := batch.(*Batch[T])
	dst = binary.AppendUvarint(dst, uint64(len(b.Values)))
	dst = binary.AppendUvarint(dst, uint64(len(b.Times)))
	dst = binary.AppendUvarint(dst, uint64(len(b.Hashes)))
	for i := range b.Values {
		dst = t.codec.Append(dst, &b.Values[i])
	}
	for _, at := range b.Times {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(at))
	}
	for _, h := range b.Hashes {
		dst = binary.LittleEndian.AppendUint64(dst, h)
	}
	return dst
}

var (
	errTorn  = errors.New("batch ends too early or too late")
	errCount = errors.New("batch with times or hashes for some of its records only")
)

func (t typeOf[T]) Decode(src []byte, batch any) error {
	b := batch.(*Batch[T])
	var counts [3]uint64
	for i := range counts {
		n, used := binary.Uvarint(src)
		if used <= 0 {
			return errTorn
		}
		counts[i], src = n, src[used:]
	}
	values, times, hashes := counts[0], counts[1], counts[2]
	if times != 0 && times != values || hashes != 0 && hashes != values {
		return errCount
	}
	for i := range values {
		var v T
		used, err := t.codec.Decode(src, &v)
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i, values, err)
		}
		b.Values, src = append(b.Values, v), src[used:]
	}
	if uint64(len(src)) != 8*(times+hashes) {
		return errTorn
	}
	for ; times > 0; times-- {
		b.Times, src = append(b.Times, int64(binary.LittleEndian.Uint64(src))), src[8:]
	}
	for ; hashes > 0; hashes-- {
		b.Hashes, src = append(b.Hashes, binary.LittleEndian.Uint64(src)), src[8:]
	}
	return nil
}
