package weir

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStatusGoesOnOverARestart looks at a job before and after its restart: what
// was read twice counts twice.
func TestStatusGoesOnOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := newBoard(), &fault{point: "do"}
		in := count(b, "in", 2*soFar)
		r, _ := launch(t, t.Context(), func(job *Job) error {
			job.Checkpoints.Interval = time.Second
			job.Restart = Restart{Strategy: "fixed-delay", Attempts: 1, Delay: time.Second}
			n := From(job, "in", in)
			Do(n, "do", func(n int) error {
				if n < soFar {
					return nil
				}
				return f.strike("do")
			})
			To(n, "out", newLedger[int](b, "out"))
			return nil
		})
		in.let(soFar)
		time.Sleep(10 * time.Second)
		s := r.Status()
		if s.State != "RUNNING" || s.Attempt != 1 || s.Restarts != 0 || s.RecordsIn != soFar || s.RecordsOut != 2*soFar {
			t.Errorf("before the restart: %+v", s)
		}
		if c := s.Checkpoint; c.Number < 9 || c.Bytes == 0 || time.Since(c.Ended) > time.Second {
			t.Errorf("its checkpoint: %+v", c)
		}
		in.let(2 * soFar)
		if err := wait(t, r); err != nil {
			t.Fatal(err)
		}
		s = r.Status()
		if s.State != "FINISHED" || s.Attempt != 2 || s.Restarts != 1 || s.RecordsIn != 2*soFar+1 || s.RecordsOut < 4*soFar {
			t.Errorf("in the end: %+v", s)
		}
	})
}

func TestProgressIsShownWhileTheJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		in := count(b, "in", 100)
		r, _ := launch(t, t.Context(), func(job *Job) error {
			To(From(job, "in", in), "out", newLedger[int](b, "out"))
			return nil
		})
		time.AfterFunc(15*time.Second, func() { in.let(80) })
		time.AfterFunc(35*time.Second, func() { in.let(100) })
		var seen []progress
		if err := r.attended(10*time.Second, func(p progress) { seen = append(seen, p) }); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 3 || seen[0].in != 0 || seen[1].in != 8 || seen[1].out != 8 || seen[2].in != 0 || seen[2].RecordsIn != 80 {
			t.Errorf("seen are %+v", seen)
		}
	})
}

func TestProgressIsALineOrARecord(t *testing.T) {
	p := progress{Status: Status{State: "RUNNING", Restarts: 2}, in: 1_234_567, out: 980}
	var text strings.Builder
	asLine(&text)(p)
	p.Checkpoint = CheckpointStatus{Number: 7, Duration: 34_400 * time.Microsecond, Bytes: 12_345}
	asLine(&text)(p)
	const lines = `weir: RUNNING  in  1.23 M/s  out    980 /s  no checkpoint yet  restarts 2
weir: RUNNING  in  1.23 M/s  out    980 /s  checkpoint 7 took 34ms, 12.3 kB  restarts 2
`
	if text.String() != lines {
		t.Errorf("got:\n%swant:\n%s", &text, lines)
	}
	text.Reset()
	asRecord(slog.New(slog.NewTextHandler(&text, nil)))(p)
	const record = `state=RUNNING in=1234567 out=980 restarts=2 checkpoint=7 duration=34.4ms bytes=12345`
	if !strings.Contains(text.String(), record) {
		t.Errorf("got %swant %s", &text, record)
	}
}

func TestProgressIsRarerWhereNobodyLooks(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if every, _ := progressOn(w, slog.Default()); every != 10*time.Second {
		t.Error(every)
	}
}

func TestNumbersAreShort(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0 ", 7: "7 ", 999.4: "999 ", 999.6: "1.00 k", 1234: "1.23 k", 9_994: "9.99 k", 9_996: "10.0 k",
		99_940: "99.9 k", 99_960: "100 k", 999_499: "999 k", 999_500: "1.00 M", 12e9: "12.0 G", 3e15: "3000 T",
	} {
		if got := short(n); got != want {
			t.Errorf("short(%v) is %q, want %q", n, got, want)
		}
	}
}
