package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirstream/weir/record"
)

// Encoded makes a channel that writes every element as bytes and reads it again,
// as a channel between processes does. A sound codec never errs here; failed is
// told if it does, and the element is dropped.
func Encoded(to Sender, t record.Type, failed func(error)) Sender {
	return &encoded{to: to, records: t, failed: failed}
}

type encoded struct {
	to      Sender
	records record.Type
	spare   any // an empty batch to decode into
	bytes   []byte
	failed  func(error)
}

func (s *encoded) Full() bool { return s.to.Full() }

func (s *encoded) Send(e Element) (spare any) {
	s.bytes = AppendFrame(s.bytes[:0], s.records, e)
	into := s.spare
	if s.spare = nil; into == nil && e.Kind == Records {
		into = s.records.New()
	}
	copied, err := DecodeFrame(s.bytes, s.records, into)
	if err != nil {
		s.failed(fmt.Errorf("channel: %w", err))
		return nil
	}
	copied.Note = e.Note
	if s.spare = s.to.Send(copied); s.spare != nil {
		s.records.Reset(s.spare)
	}
	if e.Kind == Records {
		s.records.Reset(e.Batch)
	}
	return e.Batch
}

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
			flags = 1
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
		if n <= 0 || len(src) == n {
			return e, errFrame
		}
		e.Barrier.Checkpoint, e.Barrier.Savepoint = number, src[n] == 1
		src = src[n+1:]
		if e.Barrier.At, n = binary.Varint(src); n <= 0 {
			return e, errFrame
		}
		e.Barrier.Target = string(src[n:])
	}
	return e, nil
}
