// Package codec turns values into bytes that any later process can read.
//
// # Values
//
// [For] builds the codec of a type, once, from the type itself. The bytes of a
// value are those of its parts, one after the other:
//
//	bool                         one byte, 0 or 1
//	integers, floats, complex    as wide as the type, little-endian; int and uint take 8 bytes
//	string                       its length, its bytes
//	[]T                          0 if nil, else its length + 1, its elements
//	[N]T                         its elements
//	map[K]V                      0 if nil, else its length + 1, its entries: the key, encoded as below, and the
//	                             value, in ascending order of keys
//	struct                       its fields in order, without blank ones
//	*T                           0 if nil, else 1 and what it points to
//	time.Time                    seconds since 1970 in 8 bytes, nanoseconds in 4, the zone's offset from UTC in
//	                             seconds in 4; the zone's name and the monotonic clock are lost
//	own binary encoding          its length, its bytes
//
// Lengths are unsigned varints. What would have no bytes at all, as a struct
// without fields, is one zero byte.
//
// # Keys
//
// [KeyFor] builds the codec of a type of keys, whose encodings sort as the keys
// do:
//
//	bool                         one byte, 0 or 1
//	unsigned integers            as wide as the type, big-endian
//	signed integers              the same, with the sign bit flipped
//	string                       its bytes, each 0x00 followed by 0xFF, and 0x00 0x01 at the end
//	[N]T, struct                 their parts, as above
//
// # Hashes
//
// The hash of a key is fixed for ever:
//
//	integers, bool               the first output of SplitMix64 with the key, extended to 64 bits, as seed
//	string                       XXH3 (64 bits, seed 0) of its bytes
//	[N]T, struct                 XXH3 (64 bits, seed 0) of its encoding
package codec

// A Codec encodes and decodes values of T. A codec has no state of its own and
// may be used from several goroutines at once.
type Codec[T any] interface {
	// Append appends the encoding of *v to dst and returns the longer slice.
	// It panics if the type has a binary encoding of its own and that fails.
	Append(dst []byte, v *T) []byte
	// Decode reads one value from the front of src into *v and returns how many
	// bytes it took. What it puts into *v doesn't refer to src. Bytes that are
	// no encoding are an error, never a panic, and cost memory in proportion to
	// the length of src only. After an error *v is undefined.
	Decode(src []byte, v *T) (n int, err error)
	// Schema says how the bytes are to be read; it is stored beside them.
	Schema() Schema
}

// A Schema describes stored values well enough to read them without the code
// that wrote them. Schemas are equal exactly when their values' bytes are read
// in the same way.
//
// The type is written in a language of its own, in which names of types don't
// occur: types of equal structure and equal field names have the same text.
//
//	type   = basic | "time" | "[]" type | "[" digits "]" type | "map[" type "]" type | "*" type | struct | binary
//	basic  = "bool" | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64" |
//	         "float32" | "float64" | "complex64" | "complex128" | "string"
//	struct = "{" [ field { "; " field } ] "}"
//	field  = name " " type
//	binary = "binary:" path "." name
//
// int and uint are written int64 and uint64. The bytes of a binary type are
// those of its own MarshalBinary; its name may have type arguments in balanced
// brackets.
type Schema struct {
	Codec string // name and version of the codec: "weir/1", or "weir-key/1" for keys
	Type  string // canonical text of the type: `int64`, `{Name string; Ages []int64}`
}

// String is the codec and the type: `weir/1 {Name string; Ages []int64}`.
func (s Schema) String() string { return s.Codec + " " + s.Type }

// A Key is a codec for keys: a == b exactly when their encodings are equal, and
// bytes.Compare of two encodings is the order of the keys. No encoding is the
// prefix of another.
type Key[K any] interface {
	Codec[K]
	// Hash is fixed for ever: it depends on the encoding alone, and decides the
	// key group (package keygroup).
	Hash(k *K) uint64
}
