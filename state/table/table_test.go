package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// An entry of the model. A nil value is a tombstone.
type entry struct{ key, value []byte }

func (e entry) String() string {
	if e.value == nil {
		return fmt.Sprintf("%q gone", e.key)
	}
	return fmt.Sprintf("%q=%q", e.key, e.value)
}

func (e entry) equal(f entry) bool {
	return bytes.Equal(e.key, f.key) && bytes.Equal(e.value, f.value) && (e.value == nil) == (f.value == nil)
}

// A form is what makes a Writer write a version of the format.
type form func(*Writer)

func asItIs(*Writer) {}

var forms = map[string]form{"plain": asItIs, "compressed": (*Writer).Compress}

// either is one of the forms.
func either(rnd *rand.Rand) form { return []form{asItIs, (*Writer).Compress}[rnd.IntN(2)] }

func build(t testing.TB, as form, properties map[string]string, entries []entry) []byte {
	t.Helper()
	var file bytes.Buffer
	w := NewWriter(&file, properties)
	as(w)
	for _, e := range entries {
		err := error(nil)
		if e.value == nil {
			err = w.Delete(e.key)
		} else {
			err = w.Add(e.key, e.value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func open(t testing.TB, file []byte) *Reader {
	t.Helper()
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// walker is what Iterator and Merged have in common.
type walker interface {
	Next() bool
	Key() []byte
	Value() []byte
	Deleted() bool
	Err() error
}

func collect(t testing.TB, it walker) (all []entry) {
	t.Helper()
	for it.Next() {
		e := entry{bytes.Clone(it.Key()), append([]byte{}, it.Value()...)}
		if it.Deleted() {
			e.value = nil
		}
		all = append(all, e)
	}
	if it.Err() != nil || it.Next() {
		t.Fatal("walk ended with", it.Err())
	}
	return all
}

func same(t testing.TB, what string, got, want []entry) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !got[i].equal(want[i]) {
			t.Fatalf("%s: %d entries, want %d; they differ at %d: got %.100v, want %.100v",
				what, len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}

// random returns entries in order, with keys that share much or little, and
// values from none to several blocks long.
func random(rnd *rand.Rand) []entry {
	model := map[string][]byte{}
	for range rnd.IntN(3000) {
		key := make([]byte, rnd.IntN(12))
		for i := range key {
			key[i] = "ab\x00\xff"[rnd.IntN(4)]
		}
		if rnd.IntN(20) == 0 {
			key = append(key, make([]byte, rnd.IntN(300))...)
		}
		value := []byte{}
		switch n := rnd.IntN(1000); {
		case n == 0:
			value = make([]byte, rnd.IntN(3*blockSize))
		case n < 100:
			value = nil
		default:
			value = fmt.Appendf(value, "%d", rnd.IntN(1e6))
		}
		model[string(key)] = value
	}
	var all []entry
	for _, key := range slices.Sorted(maps.Keys(model)) {
		all = append(all, entry{[]byte(key), model[key]})
	}
	return all
}

var seed = flag.Uint64("seed", 0, "of the random walks; 0: one that is new every time")

func walk(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with -seed %d", s)
		}
	})
	return rand.New(rand.NewPCG(s, 0))
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	rnd := walk(t)
	for range 50 {
		want := random(rnd)
		r := open(t, build(t, either(rnd), map[string]string{"codec": "weir/1", "": "empty"}, want))
		same(t, "all", collect(t, r.All()), want)
		if err := r.Verify(); err != nil {
			t.Fatal(err)
		}
		gone := 0
		for _, e := range want {
			if e.value == nil {
				gone++
			}
		}
		if r.Entries() != uint64(len(want)) || r.Tombstones() != uint64(gone) {
			t.Fatalf("%d entries and %d tombstones, want %d and %d", r.Entries(), r.Tombstones(), len(want), gone)
		}
		if p := r.Properties(); len(p) != 2 || p["codec"] != "weir/1" || p[""] != "empty" {
			t.Fatal(p)
		}
	}
}

func TestSeekFindsTheFirstKeyNotBelow(t *testing.T) {
	rnd := walk(t)
	for range 20 {
		all := random(rnd)
		r := open(t, build(t, either(rnd), nil, all))
		for range 50 {
			key := []byte("aab\xff")[:rnd.IntN(5)]
			if len(all) > 0 && rnd.IntN(3) > 0 {
				key = bytes.Clone(all[rnd.IntN(len(all))].key)
				if rnd.IntN(2) == 0 {
					key = append(key, 0)
				}
			}
			i, _ := slices.BinarySearchFunc(all, key, func(e entry, k []byte) int { return bytes.Compare(e.key, k) })
			same(t, fmt.Sprintf("seek %q", key), collect(t, r.Seek(key)), all[i:])
		}
	}
}

func TestMergeGivesTheNewestOfEachKey(t *testing.T) {
	rnd := walk(t)
	for range 30 {
		newest := map[string]entry{}
		var its []*Iterator
		for range rnd.IntN(6) {
			all := random(rnd)
			its = append(its, open(t, build(t, either(rnd), nil, all)).All())
			for _, e := range all {
				if _, known := newest[string(e.key)]; !known {
					newest[string(e.key)] = e
				}
			}
		}
		var want []entry
		for _, key := range slices.Sorted(maps.Keys(newest)) {
			want = append(want, newest[key])
		}
		same(t, fmt.Sprintf("%d files", len(its)), collect(t, Merge(its...)), want)
	}
}

// small is a file of several blocks, so short that every bit can be tried.
func small(t testing.TB, as form) []byte {
	var entries []entry
	for i := range 20 {
		entries = append(entries, entry{fmt.Appendf(nil, "key %03d", i), fmt.Appendf(nil, "value %d", i)})
	}
	entries[7].value = nil
	big := bytes.Repeat([]byte("long"), blockSize/4)
	entries = append(entries, entry{[]byte("l"), big}, entry{[]byte("m"), []byte("last block")})
	return build(t, as, map[string]string{"state": "count"}, entries)
}

// readAll returns the first error of reading the whole file.
func readAll(file []byte) error {
	r, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	it := r.All()
	for it.Next() {
	}
	return it.Err()
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	for name, as := range forms {
		file := small(t, as)
		if err := readAll(file); err != nil {
			t.Fatal(err)
		}
		for i := range file {
			if i > 1000 && i < len(file)-1000 && i%97 != 0 {
				continue // inside the long value
			}
			for bit := range 8 {
				file[i] ^= 1 << bit
				if err := readAll(file); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "at offset") {
					t.Fatalf("%s: bit %d of byte %d of %d: %v", name, bit, i, len(file), err)
				}
				file[i] ^= 1 << bit
			}
		}
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	for name, as := range forms {
		file := small(t, as)
		for size := range file {
			if _, err := Open(bytes.NewReader(file[:size]), int64(size)); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: %d of %d bytes: %v", name, size, len(file), err)
			}
		}
		if _, err := Open(bytes.NewReader(file[:len(file)/2]), int64(len(file))); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: a file shorter than was said: %v", name, err)
		}
	}
}

func TestErrorsNameTheBlock(t *testing.T) {
	for form, as := range forms {
		file := small(t, as)
		second := int(open(t, file).blocks[1].begin)
		file[second+2] ^= 1
		want := fmt.Sprintf("block 1 at offset %d: checksum", second)
		for name, err := range map[string]error{
			"all":    readAll(file),
			"seek":   func() error { it := open(t, file).Seek([]byte("m")); it.Next(); return it.Err() }(),
			"verify": open(t, file).Verify(),
			"merge": func() error {
				m := Merge(open(t, file).All())
				for m.Next() {
				}
				return m.Err()
			}(),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v; want %q", form, name, err, want)
			}
		}
	}
}

// Text that repeats itself takes a fraction of the room, and what is like noise hardly
// more than before.
func TestCompressedFilesAreSmaller(t *testing.T) {
	var text, noise []entry
	random := rand.NewChaCha8([32]byte{})
	for i := range 4000 {
		text = append(text, entry{fmt.Appendf(nil, "%08d", i), []byte("so much for the " + strings.Repeat("river ", i%5))})
		value := make([]byte, 30)
		random.Read(value)
		noise = append(noise, entry{fmt.Appendf(nil, "%08d", i), value})
	}
	for _, test := range []struct {
		name    string
		entries []entry
		most    float64 // of the plain file's size
	}{{"text", text, 0.2}, {"noise", noise, 1.01}} {
		plain, small := build(t, asItIs, nil, test.entries), build(t, (*Writer).Compress, nil, test.entries)
		same(t, test.name, collect(t, open(t, small).All()), test.entries)
		if share := float64(len(small)) / float64(len(plain)); share > test.most {
			t.Errorf("%s: %d of %d bytes, more than %g of them", test.name, len(small), len(plain), test.most)
		}
	}
}

// A file whose checksums are right may still be nonsense. Reading it ends with
// an error or with entries, never with a panic.
func TestNonsenseWithRightChecksumsIsNoPanic(t *testing.T) {
	rnd := walk(t)
	for _, as := range forms {
		spoilAnyhow(t, rnd, small(t, as))
	}
}

func spoilAnyhow(t *testing.T, rnd *rand.Rand, file []byte) {
	r := open(t, file)
	spans := append(slices.Clone(r.blocks),
		span{begin: r.foot.properties, end: r.foot.index},
		span{begin: r.foot.index, end: int64(len(file)) - footerSize},
		span{begin: int64(len(file)) - footerSize, end: int64(len(file)) - 8})
	for range 5000 {
		bad := bytes.Clone(file)
		s := spans[rnd.IntN(len(spans))]
		end := s.end - 4
		for range 1 + rnd.IntN(3) {
			at := s.begin + rnd.Int64N(min(end-s.begin, 100))
			if rnd.IntN(2) == 0 {
				at = end - 1 - rnd.Int64N(min(end-s.begin, 12))
			}
			bad[at] = byte(rnd.Uint32())
		}
		binary.LittleEndian.PutUint32(bad[end:], crc32.Checksum(bad[s.begin:end], castagnoli))
		if r, err := Open(bytes.NewReader(bad), int64(len(bad))); err == nil {
			r.Verify()
			for it := r.Seek([]byte("key 011")); it.Next(); {
			}
		}
	}
}

func TestNewerVersionIsRefusedByName(t *testing.T) {
	file := small(t, asItIs)
	foot := file[len(file)-footerSize:]
	binary.LittleEndian.PutUint32(foot[32:], 7)
	binary.LittleEndian.PutUint32(foot[36:], crc32.Checksum(foot[:36], castagnoli))
	err := readAll(file)
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "written by version 7, this program reads up to 2") {
		t.Fatal(err)
	}
}

func TestKeysMustAscend(t *testing.T) {
	for _, keys := range [][2]string{{"b", "a"}, {"a", "a"}, {"ab", "a"}, {"", ""}, {"a long key, and", "a long key"}} {
		w := NewWriter(io.Discard, nil)
		if err := w.Add([]byte(keys[0]), nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Delete([]byte(keys[1])); !errors.Is(err, ErrOrder) {
			t.Errorf("%q: %v", keys, err)
		}
		if err := w.Finish(); !errors.Is(err, ErrOrder) {
			t.Errorf("%q: finished with %v", keys, err)
		}
	}
}

type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func TestWriteErrorsReachFinish(t *testing.T) {
	for _, left := range []int{0, 100, blockSize + 100, 3*blockSize + 1000} {
		w := NewWriter(&full{left}, nil)
		for i := range 10000 {
			w.Add(fmt.Appendf(nil, "%010d", i), []byte("value"))
		}
		if err := w.Finish(); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("disk full after %d bytes: %v", left, err)
		}
	}
}

type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, os.ErrPermission }

func TestReadErrorsAreNotCorruption(t *testing.T) {
	if _, err := Open(broken{}, 1000); !errors.Is(err, os.ErrPermission) || errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

var update = flag.Bool("update", false, "write testdata anew")

// Files stay readable for ever: testdata/v1.table was written by version 1.
func TestVersion1IsReadAndWritten(t *testing.T) {
	if *update {
		if err := os.WriteFile("testdata/v1.table", golden(t), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile("testdata/v1.table")
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, file)
	if err := r.Verify(); err != nil {
		t.Fatal(err)
	}
	same(t, "v1.table", collect(t, r.All()), goldenEntries())
	if got := fmt.Sprint(r.Properties()); got != "map[codec:weir/1 operator:sum]" {
		t.Fatal(got)
	}
	if !bytes.Equal(file, golden(t)) {
		t.Fatal("this program writes other bytes: that is a new version of the format")
	}
}

// So do those of version 2. Of these the bytes are zstd's to choose.
func TestVersion2IsRead(t *testing.T) {
	if *update {
		if err := os.WriteFile("testdata/v2.table", build(t, (*Writer).Compress, goldenProperties, goldenEntries()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile("testdata/v2.table")
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, file)
	if err := r.Verify(); err != nil || r.foot.version != 2 {
		t.Fatal(r.foot.version, err)
	}
	same(t, "v2.table", collect(t, r.All()), goldenEntries())
	if got := fmt.Sprint(r.Properties()); got != "map[codec:weir/1 operator:sum]" {
		t.Fatal(got)
	}
}

func golden(t testing.TB) []byte { return build(t, asItIs, goldenProperties, goldenEntries()) }

var goldenProperties = map[string]string{"codec": "weir/1", "operator": "sum"}

func goldenEntries() (all []entry) {
	for i := range 4000 {
		e := entry{fmt.Appendf(nil, "word/%06d", i), fmt.Appendf(nil, "%d", i*i)}
		if i%10 == 3 {
			e.value = nil
		}
		all = append(all, e)
	}
	return append(all, entry{bytes.Repeat([]byte("z"), 200), bytes.Repeat([]byte("long"), 100)})
}

func TestNoAllocationPerEntry(t *testing.T) {
	const entries = 100000
	var file []byte
	per := func(run func()) float64 { return testing.AllocsPerRun(1, run) / entries }
	if a := per(func() { file = write(entries) }); a > 0.01 {
		t.Errorf("%g allocations per entry written", a)
	}
	if a := per(func() { read(t, open(t, file).All(), entries) }); a > 0.01 {
		t.Errorf("%g allocations per entry read", a)
	}
	if a := per(func() { read(t, Merge(open(t, file).All(), open(t, file).All()), entries) }); a > 0.01 {
		t.Errorf("%g allocations per entry merged", a)
	}
}

// write writes entries as state has them: keys of 8 bytes behind a prefix of
// 12, and values of 8.
func write(entries int) []byte {
	file := bytes.NewBuffer(make([]byte, 0, entries*24))
	w := NewWriter(file, nil)
	key, value := []byte("\x00\x11\x05count\x00\x00\x00\x0012345678"), make([]byte, 8)
	for i := range entries {
		binary.BigEndian.PutUint64(key[12:], uint64(i)*0x10001)
		binary.BigEndian.PutUint64(value, uint64(i))
		w.Add(key, value)
	}
	if w.Finish() != nil {
		return nil
	}
	return file.Bytes()
}

func read(t testing.TB, it walker, entries int) {
	n, sum := 0, byte(0)
	for it.Next() {
		sum += it.Key()[19] + it.Value()[7]
		n++
	}
	if n != entries || it.Err() != nil {
		t.Fatal(n, sum, it.Err())
	}
}
