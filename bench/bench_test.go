package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir"
)

// tiny lets every row run in a moment.
var tiny = scale{small: 100, large: 5_000, interval: 10 * time.Millisecond, enough: 300 * time.Millisecond, files: 30, checkpoints: 300}

// agreed is what every line of -json must hold.
var agreed = []string{"compared_rate", "compared_with", "rate", "ratio", "row", "unit"}

func TestJSONHasALinePerRow(t *testing.T) {
	var out bytes.Buffer
	all := rows(tiny)
	if err := bench(all, regexp.MustCompile(""), time.Millisecond, lines(&out)); err != nil {
		t.Fatal(err)
	}
	printed := json.NewDecoder(&out)
	for _, r := range all {
		var line map[string]any
		if err := printed.Decode(&line); err != nil {
			t.Fatalf("row %q: %v", r.name, err)
		}
		checkLine(t, r.name, line)
	}
	if printed.More() {
		t.Error("more lines than rows")
	}
}

func checkLine(t *testing.T, name string, line map[string]any) {
	var fields []string
	for f := range line {
		fields = append(fields, f)
	}
	if slices.Sort(fields); !slices.Equal(fields, agreed) {
		t.Errorf("row %q has fields %q, want %q", name, fields, agreed)
	}
	rate, _ := line["rate"].(float64)
	if line["row"] != name || line["unit"] == "" || rate <= 0 {
		t.Errorf("row %q: %v", name, line)
	}
	if line["ratio"] == nil {
		if line["compared_with"] != nil || line["compared_rate"] != nil {
			t.Errorf("row %q is compared, and has no ratio: %v", name, line)
		}
		return
	}
	other, _ := line["compared_rate"].(float64)
	ratio, _ := line["ratio"].(float64)
	if line["compared_with"] == "" || other <= 0 || ratio < 0.99*rate/other || ratio > 1.01*rate/other {
		t.Errorf("row %q: rate %v, compared rate %v, ratio %v", name, line["rate"], line["compared_rate"], line["ratio"])
	}
}

func TestRunChoosesRows(t *testing.T) {
	var out bytes.Buffer
	if err := bench(rows(tiny), regexp.MustCompile("^chain$"), time.Millisecond, lines(&out)); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, &out)
	}
}

func TestAWrongResultFailsItsRow(t *testing.T) {
	r := throughput("wrong", contest{
		engine: func(n uint64) (uint64, error) { return n + 1, nil }, with: "what is right",
		other: func(n uint64) (uint64, error) { time.Sleep(time.Microsecond); return n, nil },
	})
	if err := bench([]row{r}, regexp.MustCompile(""), 0, lines(&bytes.Buffer{})); err == nil {
		t.Error("it passed")
	}
}

// What is there once per batch, or once per job, doesn't count as per record.
func TestNoAllocationPerRecord(t *testing.T) {
	for name, p := range map[string]program{"chain": chain, "keyed sum": sumOf(1_000, 1)} {
		t.Run(name, func(t *testing.T) {
			const n = 1 << 20
			once, twice := allocations(t, p, n), allocations(t, p, 2*n)
			if per := (twice - once) / n; per > 0.01 {
				t.Errorf("%.4f allocations per record", per)
			}
		})
	}
}

func allocations(t *testing.T, p program, n uint64) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := p(n); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs)
}

func sumOf(keys uint64, p int) program {
	return func(n uint64) (uint64, error) {
		check, _, err := keyedSum(n, keys, p, weir.Checkpoints{})
		return check, err
	}
}

// BenchmarkEngine runs the engine's side alone, for profiles.
func BenchmarkEngine(b *testing.B) {
	const n = 50_000_000
	for _, c := range []struct {
		name string
		run  program
	}{
		{"chain", chain},
		{"keyed sum 1K p1", sumOf(1_000, 1)},
		{"keyed sum 1M p1", sumOf(1_000_000, 1)},
		{"keyed sum 1K p2", sumOf(1_000, 2)},
		{"keyed sum 1M p2", sumOf(1_000_000, 2)},
		{"keyed sum 1M p1 checkpoint 1s", func(n uint64) (uint64, error) { return checkpointed(b.Name(), n, 1_000_000, time.Second) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.run(n); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
		})
	}
}
