package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirstream/weir/record"
)

// Encoded makes a channel that writes every element as bytes and reads it again,
// as a channel between processes does. Send panics if a codec can't read what it
// wrote.
func Encoded(to Sender, t record.Type) Sender {
	return &encoded{to: to, records: t, spare: t.New()}
}

type encoded struct {
	to      Sender
	records record.Type
	spare   any // an empty batch to decode into
	bytes   []byte
}

func (s *encoded) Full() bool { return s.to.Full() }

func (s *encoded) Send(e Element) (spare any) {
	s.bytes = AppendFrame(s.bytes[:0], s.records, e)
	copied, err := DecodeFrame(s.bytes, s.records, s.spare)
	if err != nil {
		panic(fmt.Errorf("channel: %w", err))
	}
	copied.Note = e.Note
	back := s.to.Send(copied)
	if e.Kind != Records {
		return nil
	}
	if s.spare = back; back == nil {
		s.spare = s.records.New()
	}
	s.records.Reset(s.spare)
	s.records.Reset(e.Batch)
	return e.Batch
}

// The flags of a barrier.
const (
	savepoint = 1 << iota
	drained
)

// AppendFrame appends the encoding of e to dst: its kind, then the batch, or the
// barrier: its number, flags, time, and target.
func AppendFrame(dst []byte, t record.Type, e Element) []byte {
	dst = append(dst, byte(e.Kind))
	switch e.Kind {
	case Records:
		return t.Append(dst, e.Batch)
	case Barrier, Cancel:
		var flags byte
		if e.Barrier.Savepoint {
			flags |= savepoint
		}
		if e.Barrier.Drained {
			flags |= drained
		}
		dst = binary.AppendUvarint(dst, e.Barrier.Checkpoint)
		dst = append(dst, flags)
		dst = binary.AppendVarint(dst, e.Barrier.At)
		dst = append(dst, e.Barrier.Target...)
	}
	return dst
}

var errFrame = errors.New("not a frame of this version")

// DecodeFrame reads what AppendFrame wrote; records go into the batch given.
func DecodeFrame(src []byte, t record.Type, into any) (e Element, err error) {
	if len(src) == 0 || Kind(src[0]) > End {
		return e, errFrame
	}
	e.Kind, src = Kind(src[0]), src[1:]
	switch e.Kind {
	case Records:
		e.Batch = into
		return e, t.Decode(src, into)
	case Barrier, Cancel:
		number, n := binary.Uvarint(src)
		if n <= 0 || len(src) == n || src[n] > savepoint|drained {
			return e, errFrame
		}
		e.Barrier.Checkpoint, e.Barrier.Savepoint, e.Barrier.Drained = number, src[n]&savepoint != 0, src[n]&drained != 0
		src = src[n+1:]
		if e.Barrier.At, n = binary.Varint(src); n <= 0 {
			return e, errFrame
		}
		e.Barrier.Target = string(src[n:])
	case End:
		if len(src) > 0 {
			return e, errFrame
		}
	}
	return e, nil
}
