package heap_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/weirstream/weir/state"
)

var update = flag.Bool("update", false, "write testdata anew")

const golden = "testdata/snapshot-1"

// disk is a target of one file, and an origin of all.
type disk struct {
	bytes.Buffer
	path string
}

func (d *disk) Create(context.Context) (state.TargetFile, error)     { return d, nil }
func (d *disk) Compressed() bool                                     { return false }
func (d *disk) Finish() (state.File, error)                          { return fileOf(d.Bytes()), nil }
func (d *disk) Abort()                                               {}
func (d *disk) Open(context.Context, state.File) (state.Blob, error) { return openBlob(d.path) }
func fileOf(content []byte) state.File                               { return state.File{Name: "golden", Size: int64(len(content))} }

type blob struct {
	*os.File
	size int64
}

func (b blob) Size() int64 { return b.size }

func openBlob(path string) (state.Blob, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	return blob{f, size}, err
}

type place struct{ Lat, Long float32 }

// travels declares states whose keys, user keys and values all differ in type.
type travels struct {
	*op
	visits state.Reducing[int64]
	home   state.Value[place]
	stops  state.List[string]
	scores state.Map[string, []bool]
	tour   state.Aggregating[string, route, int]
}

// route is an accumulator.
type route struct {
	Stops  int
	Length uint16
}

var byLength = state.Aggregate[string, route, int]{
	Add:    func(r route, stop string) route { return route{r.Stops + 1, r.Length + uint16(len(stop))} },
	Result: func(r route) int { return int(r.Length) / r.Stops },
}

func newTravels(t *testing.T) travels {
	o := open(t)
	s := travels{o, state.NewReducing(o, "visits", func(a, b int64) int64 { return a + b }), state.NewValue[place](o, "home"),
		state.NewList[string](o, "stops"), state.NewMap[string, []bool](o, "scores"),
		state.NewAggregating(o, "tour", byLength)}
	if err := o.ks.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFilesStayReadable reads a snapshot that version 1 wrote, and holds today's
// writer to the same bytes.
func TestFilesStayReadable(t *testing.T) {
	s := newTravels(t)
	for k := range uint64(3) {
		s.at(k)
		s.visits.Add(int64(k) + 1)
		s.home.Set(place{float32(k), 0.5})
		s.stops.Append("Ulm", "Jena")
		s.scores.Put("b", []bool{true, false})
		s.scores.Put("a", nil)
		s.tour.Add("Ulm")
		s.tour.Add("Jena!")
	}
	f, d := s.ks.Freeze(), &disk{path: golden}
	for !f.Capture(1000) {
	}
	h, err := f.Write(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, d.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content, d.Bytes()) {
		t.Errorf("the file is written otherwise than %s was", golden)
	}
	h.Files[0] = fileOf(content)
	s = newTravels(t)
	if _, err := s.ks.Restore(t.Context(), []state.Handle{h}, d, false); err != nil {
		t.Fatal(err)
	}
	for k := range uint64(3) {
		s.at(k)
		stops, scores := slices.Collect(s.stops.All()), maps.Collect(s.scores.All())
		if s.visits.Get() != int64(k)+1 || s.home.Get() != (place{float32(k), 0.5}) || !slices.Equal(stops, []string{"Ulm", "Jena"}) ||
			s.tour.Get() != 4 || len(scores) != 2 || scores["a"] != nil || !slices.Equal(scores["b"], []bool{true, false}) {
			t.Errorf("key %d: %d %v %q %v", k, s.visits.Get(), s.home.Get(), stops, scores)
		}
	}
}
