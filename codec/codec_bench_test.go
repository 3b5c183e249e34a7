package codec

import "testing"

func BenchmarkHash(b *testing.B) {
	benchmarkHash(b, "uint64", uint64(12345))
	benchmarkHash(b, "int32", int32(12345))
	benchmarkHash(b, "string", "fourteen bytes")
	benchmarkHash(b, "point", point{1, 2})
	benchmarkHash(b, "account", account{Country: "DE", Number: 1})
}

func benchmarkHash[K any](b *testing.B, name string, k K) {
	c := mustKey[K](b)
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		var sum uint64
		for b.Loop() {
			sum += c.Hash(&k)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	benchmarkAppend(b, "uint64", mustFor[uint64](b), 12345)
	benchmarkAppend(b, "string", mustFor[string](b), "fourteen bytes")
	benchmarkAppend(b, "point", mustFor[point](b), point{1, 2})
	benchmarkAppend(b, "gaps", mustFor[gaps](b), gaps{Large: 1})
	benchmarkAppend(b, "everything", mustFor[everything](b), sample())
	benchmarkAppend(b, "uint64 key", mustKey[uint64](b), 12345)
	benchmarkAppend(b, "string key", mustKey[string](b), "fourteen bytes")
	benchmarkAppend(b, "account key", mustKey[account](b), account{Country: "DE", Number: 1})
}

func benchmarkAppend[T any](b *testing.B, name string, c Codec[T], v T) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		dst := make([]byte, 0, 1<<12)
		for b.Loop() {
			dst = c.Append(dst[:0], &v)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmarkDecode(b, "uint64", mustFor[uint64](b), 12345)
	benchmarkDecode(b, "string", mustFor[string](b), "fourteen bytes")
	benchmarkDecode(b, "point", mustFor[point](b), point{1, 2})
	benchmarkDecode(b, "gaps", mustFor[gaps](b), gaps{Large: 1})
	benchmarkDecode(b, "everything", mustFor[everything](b), sample())
	benchmarkDecode(b, "uint64 key", mustKey[uint64](b), 12345)
}

func benchmarkDecode[T any](b *testing.B, name string, c Codec[T], v T) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		src := c.Append(nil, &v)
		var into T
		for b.Loop() {
			if _, err := c.Decode(src, &into); err != nil {
				b.Fatal(err)
			}
		}
	})
}
