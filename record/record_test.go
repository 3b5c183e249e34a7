package record

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weirstream/weir/codec"
)

type word struct {
	Text  string
	Count int64
}

func words(t *testing.T) Type {
	c, err := codec.For[word]()
	if err != nil {
		t.Fatal(err)
	}
	return TypeOf(c)
}

func some(n int, timed, hashed bool) *Batch[word] {
	b := &Batch[word]{}
	for i := range n {
		v := word{"word"[:i%5], int64(i)}
		if timed {
			b.AddAt(v, int64(i)-3)
		} else {
			b.Add(v)
		}
		if hashed {
			b.Hashes = append(b.Hashes, uint64(i)<<40)
		}
	}
	return b
}

func TestBatchComesBackFromBytes(t *testing.T) {
	typ := words(t)
	for _, n := range []int{0, 1, 7, 1024} {
		for flags := range 4 {
			in, out := some(n, flags&1 != 0, flags&2 != 0), typ.New()
			if err := typ.Decode(typ.Append(nil, in), out); err != nil {
				t.Fatalf("%d records, flags %d: %v", n, flags, err)
			}
			got := out.(*Batch[word])
			if typ.Len(out) != n || n > 0 && !reflect.DeepEqual(got, in) {
				t.Errorf("%d records, flags %d: got %v", n, flags, got)
			}
		}
	}
}

func TestTornBatchIsAnError(t *testing.T) {
	typ := words(t)
	whole := typ.Append(nil, some(9, true, true))
	for n := range whole {
		if typ.Decode(whole[:n], typ.New()) == nil {
			t.Errorf("the first %d of %d bytes pass for a batch", n, len(whole))
		}
	}
	if typ.Decode(append(whole, 0), typ.New()) == nil {
		t.Error("a batch with a byte too many passes")
	}
}

// Whoever reads a batch relies on there being a time, or a hash, for each record
// or for none.
func TestHostileBytesDoNotPanicAndLeaveNoHalfTimedBatch(t *testing.T) {
	typ := words(t)
	whole := typ.Append(nil, some(9, true, true))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		src := append([]byte(nil), whole...)
		for range 1 + random.IntN(3) {
			src[random.IntN(len(src))] = byte(random.Uint32())
		}
		b := &Batch[word]{}
		if typ.Decode(src, b) != nil {
			continue
		}
		if n := b.Len(); len(b.Times)%max(n, 1) != 0 || len(b.Times) > n || len(b.Hashes)%max(n, 1) != 0 || len(b.Hashes) > n {
			t.Fatalf("%d records, %d times, %d hashes", n, len(b.Times), len(b.Hashes))
		}
	}
}

func TestResetDropsReferences(t *testing.T) {
	typ := words(t)
	b := some(5, true, true)
	typ.Reset(b)
	if typ.Len(b) != 0 || len(b.Times)+len(b.Hashes) != 0 {
		t.Fatalf("not empty: %v", b)
	}
	for _, v := range b.Values[:5] {
		if v != (word{}) {
			t.Errorf("still refers to %v", v)
		}
	}
}
