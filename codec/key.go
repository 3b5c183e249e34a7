package codec

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// KeyFor builds the codec of a type of keys: integers, bool, strings, and arrays
// and structs of these. It refuses every other type and says why, since records
// of one key must meet in one place, whichever process sees the key.
func KeyFor[K any]() (Key[K], error) {
	t := reflect.TypeFor[K]()
	p, err := compileKey(t, rootOf(t))
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return &wordKey[K]{key[K]{p}}, nil
	case reflect.String:
		return &textKey[K]{key[K]{p}}, nil
	case reflect.Array, reflect.Struct:
		return &key[K]{p}, nil
	}
	return &smallKey[K]{key[K]{p}, t.Kind()}, nil
}

// key is the codec of arrays and structs, and what the others have in common.
type key[K any] struct{ *keyProgram }

func (c *key[K]) Append(dst []byte, k *K) []byte {
	return c.append(dst, unsafe.Pointer(k))
}

func (c *key[K]) Decode(src []byte, k *K) (int, error) {
	rest, err := c.decode(src, unsafe.Pointer(k))
	if err != nil {
		return 0, fmt.Errorf("decode key %s: %w", c.text, err)
	}
	return len(src) - len(rest), nil
}

func (c *key[K]) Schema() Schema { return Schema{Codec: "weir-key/1", Type: c.text} }

func (c *key[K]) Hash(k *K) uint64 {
	var room [128]byte // on the stack: longer keys cost an allocation
	return xxh3.Hash(c.append(room[:0], unsafe.Pointer(k)))
}

type textKey[K any] struct{ key[K] }

func (c *textKey[K]) Hash(k *K) uint64 {
	return xxh3.HashString(*(*string)(unsafe.Pointer(k)))
}

// wordKey is the codec of integers of 64 bits. Its Hash is on every record's
// path, and small enough for the compiler to make it one call.
type wordKey[K any] struct{ key[K] }

func (c *wordKey[K]) Hash(k *K) uint64 {
	return splitMix(*(*uint64)(unsafe.Pointer(k)))
}

// HashAll puts the hash of each key into hashes, which is as long.
func HashAll[K any](c Key[K], keys []K, hashes []uint64) {
	if words, ok := wordsOf(c, keys); ok {
		mixAll(words, hashes)
		return
	}
	for i := range keys {
		hashes[i] = c.Hash(&keys[i])
	}
}

// Unhash sets keys, which is as long as hashes, to those that have these hashes. It
// reports false, and does nothing, unless keys are integers of 64 bits, no two of which
// have one hash, and the processor does it faster than a function gives the key.
func Unhash[K any](c Key[K], hashes []uint64, keys []K) bool {
	words, ok := wordsOf(c, keys)
	if !ok || !wide {
		return false
	}
	unmixAll(hashes, words)
	return true
}

// wordsOf returns the memory of keys that are words of 64 bits.
func wordsOf[K any](c Key[K], keys []K) ([]uint64, bool) {
	_, ok := c.(*wordKey[K])
	if !ok {
		return nil, false
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(keys))), len(keys)), true
}

// smallKey is the codec of smaller integers, and of bool.
type smallKey[K any] struct {
	key[K]
	kind reflect.Kind
}

func (c *smallKey[K]) Hash(k *K) uint64 {
	return splitMix(extend(c.kind, unsafe.Pointer(k)))
}

// extend makes 64 bits of a smaller integer or a bool.
func extend(kind reflect.Kind, at unsafe.Pointer) uint64 {
	switch kind {
	case reflect.Int32:
		return uint64(*(*int32)(at))
	case reflect.Uint32:
		return uint64(*(*uint32)(at))
	case reflect.Int16:
		return uint64(*(*int16)(at))
	case reflect.Uint16:
		return uint64(*(*uint16)(at))
	case reflect.Int8:
		return uint64(*(*int8)(at))
	}
	return uint64(*(*uint8)(at))
}
