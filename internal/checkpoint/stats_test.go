package checkpoint

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/snapshot"
)

// TestSummary compares with what Flink 2.3.0 shows for the same two checkpoints.
func TestSummary(t *testing.T) {
	var s Sample
	if got := s.Summary(); got != (Summary{}) {
		t.Errorf("of nothing: %+v", got)
	}
	began := time.Unix(100, 0)
	for _, of := range []struct{ duration, state int64 }{{58, 162}, {68, 81}} {
		s.add(&Record{Began: began, Acked: began.Add(time.Duration(of.duration)), State: of.state, Written: 1, Parts: []Part{
			{Measures: snapshot.Measures{StartDelay: 3, Sync: time.Duration(of.duration)}},
			{Measures: snapshot.Measures{Alignment: 7, Sync: 60, Async: 9}},
		}})
	}
	always := func(n int64) Distribution { return Distribution{n, n, n, n, n, n, n, n} }
	want := Summary{
		Duration:   Distribution{Min: 58, Max: 68, Average: 63, P50: 63, P90: 68, P95: 68, P99: 68, P999: 68},
		State:      Distribution{Min: 81, Max: 162, Average: 121, P50: 121, P90: 162, P95: 162, P99: 162, P999: 162},
		Written:    always(1),
		StartDelay: always(3),
		Alignment:  always(7),
		Sync:       Distribution{Min: 60, Max: 68, Average: 64, P50: 64, P90: 68, P95: 68, P99: 68, P999: 68},
		Async:      always(9),
	}
	if got := s.Summary(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestQuantilesAreOfTheLastTenThousand gives a sample more values than it keeps, in
// any order: the least, the greatest and the average are of all.
func TestQuantilesAreOfTheLastTenThousand(t *testing.T) {
	var s Sample
	values := rand.New(rand.NewPCG(1, 1)).Perm(10_000)
	for _, v := range append(slices.Repeat([]int{20_000}, 2500), values...) {
		s.add(&Record{State: int64(v)})
	}
	want := Distribution{Min: 0, Max: 20_000, Average: 7999, P50: 4999, P90: 8999, P95: 9499, P99: 9899, P999: 9989}
	if got := s.Summary().State; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(s.last) != 10_000 {
		t.Errorf("%d are kept", len(s.last))
	}
}
