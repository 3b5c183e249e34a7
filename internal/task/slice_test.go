package task

import (
	"testing"
	"time"
)

// Whatever a record takes, a slice comes to take about sliceTime, unless it is of one
// record, or as long as it may be. A batch that was shorter says nothing.
func TestSlicesTakeAsLongAsTheyShould(t *testing.T) {
	for _, each := range []time.Duration{0, 10, time.Microsecond, 30 * time.Microsecond, 5 * time.Millisecond} {
		for _, first := range []int{1, 16, 512} {
			s := &Subtask{plan: Plan{SliceMax: 512}, slice: first}
			for range 20 {
				s.fit(s.slice, time.Duration(s.slice)*each)
			}
			took := time.Duration(s.slice) * each
			if took > 2*sliceTime && s.slice > 1 || took < sliceTime/2 && s.slice < 512 || s.slice > 512 {
				t.Errorf("%v a record, from %d: slices of %d records", each, first, s.slice)
			}
			was := s.slice
			if s.fit(was-1, 0); s.slice != was {
				t.Errorf("%v a record: a shorter batch makes slices of %d from those of %d", each, s.slice, was)
			}
		}
	}
}
