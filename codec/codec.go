// Package codec turns values into bytes that any later process can read.
package codec

// A Codec encodes and decodes values of T. A codec has no state of its own and
// may be used from several goroutines at once.
type Codec[T any] interface {
	// Append appends the encoding of *v to dst and returns the longer slice.
	Append(dst []byte, v *T) []byte
	// Decode reads one value from the front of src into *v and returns how many
	// bytes it took. What it puts into *v doesn't refer to src. Bytes that are
	// no encoding are an error, never a panic.
	Decode(src []byte, v *T) (n int, err error)
	// Schema says how the bytes are to be read; it is stored beside them.
	Schema() Schema
}

// A Schema describes stored values well enough to read them without the code
// that wrote them.
type Schema struct {
	Codec string // name and version of the codec: "weir/1", or what the type's own codec calls itself
	Type  string // canonical text of the type: `int64`, `{Name string, Ages []int64}`
}

// A Key is a codec for keys: a == b exactly when their encodings are equal, and
// bytes.Compare of two encodings is the order of the keys. No encoding is the
// prefix of another.
type Key[K any] interface {
	Codec[K]
	// Hash is fixed for ever: it depends on the encoding alone, and decides the
	// key group (package keygroup).
	Hash(k *K) uint64
}
