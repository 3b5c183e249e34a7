package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strings"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/state"
)

// A _metadata file is a head, a section for the checkpoint, one for each
// operator, and a checksum over all of it:
//
//	magic[8] version[4] crc32c(magic, version)[4]
//	'c' length[8] checkpoint
//	'o' length[8] operator   (any number)
//	'e' length[8]=0
//	crc32c(everything before)[4]
//
// The head has a checksum of its own, so that a flipped bit in the version isn't
// taken for another version. docs/format.md has it to the byte.
const (
	magic   = "WeirMeta"
	version = 1

	headSize    = len(magic) + 4 + 4
	sectionSize = 1 + 8

	checkpointSection = 'c'
	operatorSection   = 'o'
	endSection        = 'e'
)

var (
	// ErrCorrupt says that a file isn't what was once written: cut off, changed,
	// or never completed.
	ErrCorrupt = errors.New("incomplete or corrupt")
	// ErrVersion says that metadata is whole, but of a version that this program
	// doesn't read.
	ErrVersion = errors.New("unknown version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the content of a checkpoint's _metadata file.
func Encode(cp Checkpoint) []byte {
	e := encoder(magic)
	e.uint32(version)
	e.uint32(crc32.Checksum(e, castagnoli))
	e.section(checkpointSection, func() { e.checkpoint(cp) })
	for _, op := range cp.Operators {
		e.section(operatorSection, func() { e.operator(op) })
	}
	e.section(endSection, func() {})
	e.uint32(crc32.Checksum(e, castagnoli))
	return e
}

// Decode reads what Encode wrote. Whatever else the bytes are, the answer is
// ErrCorrupt or ErrVersion. The checkpoint doesn't refer to src.
func Decode(src []byte) (Checkpoint, error) {
	if err := checkHead(src); err != nil {
		return Checkpoint{}, err
	}
	body := src[:max(len(src)-4, 0)]
	if len(body) < headSize || crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(src[len(body):]) {
		return Checkpoint{}, corrupt("its checksum doesn't match")
	}
	d := decoder{rest: body[headSize:]}
	cp := d.metadata()
	if d.err == nil {
		d.err = check(cp)
	}
	if d.err != nil {
		return Checkpoint{}, d.err
	}
	return cp, nil
}

func checkHead(src []byte) error {
	if len(src) < headSize || string(src[:len(magic)]) != magic {
		return corrupt("it doesn't begin like metadata")
	}
	head := src[:headSize-4]
	if crc32.Checksum(head, castagnoli) != binary.LittleEndian.Uint32(src[len(head):]) {
		return corrupt("the checksum of its head doesn't match")
	}
	if v := binary.LittleEndian.Uint32(head[len(magic):]); v != version {
		return fmt.Errorf("%w: written by version %d, this program reads version %d", ErrVersion, v, version)
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w metadata: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// check looks for what no correct writer writes: it would harm whoever believes it.
func check(cp Checkpoint) error {
	for _, op := range cp.Operators {
		switch {
		case op.Parallelism < 1 || op.MaxParallelism < op.Parallelism || op.MaxParallelism > 1<<15:
			return corrupt("operator %s has parallelism %d of at most %d", op.ID, op.Parallelism, op.MaxParallelism)
		case op.Parallelism != len(op.Subtasks):
			return corrupt("operator %s has %d subtasks at parallelism %d", op.ID, len(op.Subtasks), op.Parallelism)
		}
		for _, s := range op.Subtasks {
			for _, h := range s.Keyed {
				if h.First > h.Last || h.Last >= op.MaxParallelism {
					return corrupt("operator %s has key groups %d to %d of %d", op.ID, h.First, h.Last, op.MaxParallelism)
				}
			}
			for _, l := range s.Lists {
				switch {
				case l.Kind != state.SplitKind && l.Kind != state.UnionKind && l.Kind != state.BroadcastKind:
					return corrupt("state %q of operator %s is of the unknown kind %q", l.Name, op.ID, l.Kind)
				case l.Offset+l.bytes() > l.File.Size:
					return corrupt("state %q of operator %s doesn't fit its file", l.Name, op.ID)
				}
			}
		}
	}
	for f := range cp.files {
		if err := checkFile(f, cp.Savepoint); err != nil {
			return err
		}
	}
	return nil
}

// checkFile refuses references that leave the job's directory, which is the one
// above a checkpoint's and a savepoint's own.
func checkFile(f state.File, savepoint bool) error {
	inside := strings.TrimPrefix(f.Name, "../")
	switch {
	case f.Name == "":
		if int64(len(f.Data)) != f.Size {
			return corrupt("%d bytes of data are said to be %d", len(f.Data), f.Size)
		}
	case len(f.Data) > 0:
		return corrupt("file %q has data inline", f.Name)
	case savepoint && inside != f.Name,
		path.IsAbs(inside), path.Clean(inside) != inside, inside == ".", inside == "..",
		strings.HasPrefix(inside, "../"), strings.ContainsAny(inside, "\\\x00"):
		return corrupt("file %q isn't in the job's directory", f.Name)
	}
	return nil
}

type encoder []byte

func (e *encoder) section(tag byte, content func()) {
	*e = append(*e, tag)
	at := len(*e)
	*e = binary.LittleEndian.AppendUint64(*e, 0)
	content()
	binary.LittleEndian.PutUint64((*e)[at:], uint64(len(*e)-at-8))
}

func (e *encoder) uint32(v uint32) { *e = binary.LittleEndian.AppendUint32(*e, v) }
func (e *encoder) uint(v uint64)   { *e = binary.AppendUvarint(*e, v) }
func (e *encoder) int(v int)       { e.uint(uint64(v)) }
func (e *encoder) text(s string)   { e.int(len(s)); *e = append(*e, s...) }
func (e *encoder) bytes(b []byte)  { e.int(len(b)); *e = append(*e, b...) }

func (e *encoder) bool(b bool) {
	if b {
		*e = append(*e, 1)
	} else {
		*e = append(*e, 0)
	}
}

func (e *encoder) checkpoint(cp Checkpoint) {
	e.uint(cp.Number)
	e.bool(cp.Savepoint)
	e.text(cp.JobID)
	e.text(cp.JobName)
	e.uint(uint64(cp.Began))
}

func (e *encoder) operator(op Operator) {
	*e = append(*e, op.ID[:]...)
	e.text(op.UID)
	e.text(op.Name)
	e.int(op.Parallelism)
	e.int(op.MaxParallelism)
	e.bool(op.Enumerator != nil)
	if n := op.Enumerator; n != nil {
		e.bool(n.Done)
		e.bool(n.Position != nil)
		e.bytes(n.Position)
		each(e, n.Splits, e.bytes)
	}
	e.schema(op.Schemas.Split)
	e.schema(op.Schemas.Committable)
	each(e, op.Subtasks, e.state)
}

func (e *encoder) state(s State) {
	e.bool(s.Ended)
	each(e, s.Keyed, e.handle)
	each(e, s.Lists, e.list)
	each(e, s.Splits, e.bytes)
	each(e, s.Pending, func(p Pending) {
		e.uint(p.Checkpoint)
		e.int(p.Subtask)
		e.bytes(p.Data)
	})
}

func (e *encoder) handle(h state.Handle) {
	e.int(h.First)
	e.int(h.Last)
	each(e, h.Files, e.file)
	e.schema(h.Key)
	each(e, h.States, e.declared)
}

func (e *encoder) declared(s state.Declared) {
	e.text(s.Name)
	e.text(s.Kind)
	e.schema(s.Value)
	e.schema(s.UserKey)
}

func (e *encoder) list(l List) {
	e.declared(l.Declared)
	e.file(l.File)
	e.uint(uint64(l.Offset))
	each(e, l.Lengths, func(n uint32) { e.uint(uint64(n)) })
}

func (e *encoder) file(f state.File) {
	e.text(f.Name)
	e.bytes(f.Data)
	e.uint(uint64(f.Size))
	e.uint32(f.Checksum)
}

func (e *encoder) schema(s codec.Schema) {
	e.text(s.Codec)
	e.text(s.Type)
}

func each[T any](e *encoder, list []T, one func(T)) {
	e.int(len(list))
	for _, v := range list {
		one(v)
	}
}

// decoder reads on until something is wrong, and then gives zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = corrupt("%s", what)
	}
	d.rest = nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail("a length goes beyond its section")
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || n > 1 && d.rest[n-1] == 0 {
		d.fail("not a number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// atMost reads a number that is to fit some narrower type.
func (d *decoder) atMost(limit uint64) uint64 {
	v := d.uint()
	if v > limit {
		d.fail("a number is too large")
		return 0
	}
	return v
}

func (d *decoder) int() int     { return int(d.atMost(1<<31 - 1)) }
func (d *decoder) int64() int64 { return int64(d.atMost(1<<62 - 1)) }
func (d *decoder) text() string { return string(d.take(d.uint())) }

// bytes returns a copy, nil for no bytes.
func (d *decoder) bytes() []byte { return append([]byte(nil), d.take(d.uint())...) }

func (d *decoder) bool() bool {
	b := d.take(1)
	if len(b) == 1 && b[0] > 1 {
		d.fail("neither true nor false")
	}
	return len(b) == 1 && b[0] == 1
}

func (d *decoder) uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// section returns a decoder for the next section.
func (d *decoder) section() (tag byte, content decoder) {
	head := d.take(uint64(sectionSize))
	if head == nil {
		return endSection, decoder{}
	}
	return head[0], decoder{rest: d.take(binary.LittleEndian.Uint64(head[1:]))}
}

// close takes in how a section went.
func (d *decoder) close(section decoder) {
	switch {
	case d.err != nil:
	case section.err != nil:
		d.err = section.err
	case len(section.rest) > 0:
		d.fail("a section is too long")
	}
}

func (d *decoder) metadata() (cp Checkpoint) {
	tag, s := d.section()
	if tag != checkpointSection {
		d.fail("it doesn't say which checkpoint it is")
		return cp
	}
	cp = s.checkpoint()
	d.close(s)
	for d.err == nil {
		tag, s := d.section()
		switch tag {
		case operatorSection:
			cp.Operators = append(cp.Operators, s.operator())
		case endSection:
			if len(d.rest) > 0 {
				d.fail("it goes on after its end")
			}
			d.close(s)
			return cp
		default:
			d.fail("unknown section")
		}
		d.close(s)
	}
	return cp
}

func (d *decoder) checkpoint() Checkpoint {
	return Checkpoint{
		Number:    d.uint(),
		Savepoint: d.bool(),
		JobID:     d.text(),
		JobName:   d.text(),
		Began:     d.int64(),
	}
}

func (d *decoder) operator() (op Operator) {
	copy(op.ID[:], d.take(uint64(len(graph.ID{}))))
	op.UID = d.text()
	op.Name = d.text()
	op.Parallelism = d.int()
	op.MaxParallelism = d.int()
	if d.bool() {
		op.Enumerator = d.enumerator()
	}
	op.Schemas.Split = d.schema()
	op.Schemas.Committable = d.schema()
	op.Subtasks = list(d, d.state)
	return op
}

func (d *decoder) enumerator() *Enumerator {
	n := &Enumerator{Done: d.bool()}
	saved := d.bool()
	n.Position = d.bytes()
	if saved && n.Position == nil {
		n.Position = []byte{}
	}
	n.Splits = list(d, d.bytes)
	return n
}

func (d *decoder) state() State {
	return State{
		Ended:  d.bool(),
		Keyed:  list(d, d.handle),
		Lists:  list(d, d.list),
		Splits: list(d, d.bytes),
		Pending: list(d, func() Pending {
			return Pending{Checkpoint: d.uint(), Subtask: d.int(), Data: d.bytes()}
		}),
	}
}

func (d *decoder) handle() state.Handle {
	return state.Handle{
		First:  d.int(),
		Last:   d.int(),
		Files:  list(d, d.file),
		Key:    d.schema(),
		States: list(d, d.declared),
	}
}

func (d *decoder) declared() state.Declared {
	return state.Declared{Name: d.text(), Kind: d.text(), Value: d.schema(), UserKey: d.schema()}
}

func (d *decoder) list() List {
	return List{
		Declared: d.declared(),
		File:     d.file(),
		Offset:   d.int64(),
		Lengths:  list(d, func() uint32 { return uint32(d.atMost(1<<32 - 1)) }),
	}
}

func (d *decoder) file() state.File {
	return state.File{Name: d.text(), Data: d.bytes(), Size: d.int64(), Checksum: d.uint32()}
}

func (d *decoder) schema() codec.Schema {
	return codec.Schema{Codec: d.text(), Type: d.text()}
}

// list reads as many as there are said to be. Each takes a byte at least, so
// that a wrong number ends soon.
func list[T any](d *decoder, one func() T) (all []T) {
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		all = append(all, one())
	}
	return all
}
