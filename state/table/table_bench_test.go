package table

import (
	"encoding/binary"
	"testing"
)

const million = 1 << 20

func BenchmarkWriteMillion(b *testing.B) {
	for b.Loop() {
		b.SetBytes(int64(len(write(million))))
	}
}

func BenchmarkReadMillion(b *testing.B) {
	file := write(million)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		read(b, open(b, file).All(), million)
	}
}

func BenchmarkMergeMillionWithItself(b *testing.B) {
	file := write(million)
	for b.Loop() {
		read(b, Merge(open(b, file).All(), open(b, file).All()), million)
	}
}

func BenchmarkSeek(b *testing.B) {
	r := open(b, write(million))
	key := []byte("\x00\x11\x05count\x00\x00\x00\x0012345678")
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(key[12:], uint64(i*7919%million)*0x10001)
		if !r.Seek(key).Next() {
			b.Fatal(i)
		}
	}
}
