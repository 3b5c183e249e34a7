// Command bench measures the engine against hand-written Go that does the same
// without fault tolerance.
//
//	go run ./bench [-run REGEXP] [-seconds N] [-json]
//
// A row of its table is one job. The engine and what it is compared with process
// the same records, in turns, three times each; the best time of each counts.
// Of two rates only their ratio says something: machines differ, and are shared.
// Rows that aren't compared measure times and sizes, three times too, of which the
// smallest counts.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	pattern := flag.String("run", "", "measure the rows whose name matches `REGEXP` only")
	seconds := flag.Float64("seconds", 2, "let each measurement last about `N` seconds")
	asJSON := flag.Bool("json", false, "print a line of JSON per row")
	flag.Parse()
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	show := table(os.Stdout)
	if *asJSON {
		show = lines(os.Stdout)
	}
	all := rows(scale{small: 1_000, large: 1_000_000, interval: time.Second, enough: 3500 * time.Millisecond, files: 10_000, checkpoints: 10_000})
	if err := bench(all, wanted, time.Duration(*seconds*float64(time.Second)), show); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A row is one line of the table.
type row struct {
	name    string
	measure func(lasting time.Duration) (result, error)
}

// A result is what was measured in a row, in the form that -json prints. Pointers
// are nil where a row isn't compared with anything.
type result struct {
	Row          string   `json:"row"`
	Rate         float64  `json:"rate"`
	Unit         string   `json:"unit"`
	ComparedWith *string  `json:"compared_with"`
	ComparedRate *float64 `json:"compared_rate"`
	Ratio        *float64 `json:"ratio"`
}

// A scale says how large the rows are. Their names are right at full scale.
type scale struct {
	small, large uint64        // numbers of keys, called 1K and 1M
	interval     time.Duration // of checkpoints, called 1s
	enough       time.Duration // for some checkpoints
	files        int           // called 10K
	checkpoints  int           // called 10K
}

// rows are all rows there are, in the table's order.
func rows(s scale) []row {
	return []row{
		throughput("chain", contest{engine: chain, other: chainByHand, with: aLoop}),
		keyedRow("keyed sum 1K p1", s.small, 1),
		keyedRow("keyed sum 1M p1", s.large, 1),
		keyedRow("keyed sum 1K p2", s.small, 2),
		keyedRow("keyed sum 1M p2", s.large, 2),
		checkpointRow("keyed sum 1K p1 checkpoint 1s", s.small, s),
		checkpointRow("keyed sum 1M p1 checkpoint 1s", s.large, s),
		wordCountRow("word count"),
		latencyRow("latency 10K/s", s, 0),
		latencyRow("latency 10K/s beside 2 busy", s, 2),
		freezeRow("freeze 1M", s.large),
		memoryRow("memory 0.7M", s.large*7/10),
		memoryRow("memory 1M", s.large),
		memoryRow("memory 1.4M", s.large*14/10),
		firstRecordRow("first record", 1),
		firstRecordRow("first record 10K files", s.files),
		coordinateRow("coordinate 200 subtasks", 200),
		coordinateRow("coordinate 400 subtasks", 400),
		historyRow("checkpoint 10K", s.checkpoints),
	}
}

// bench measures the rows that are wanted. A row that fails doesn't keep the
// others from being measured.
func bench(all []row, wanted *regexp.Regexp, lasting time.Duration, show display) error {
	var failed []error
	for _, r := range all {
		if !wanted.MatchString(r.name) {
			continue
		}
		res, err := r.measure(lasting)
		if err != nil {
			failed = append(failed, fmt.Errorf("row %q: %w", r.name, err))
			continue
		}
		res.Row = r.name
		show.row(res)
	}
	return errors.Join(append(failed, show.end())...)
}

// A display shows results: each as it comes, or all at the end.
type display struct {
	row func(result)
	end func() error
}

// lines shows results as JSON.
func lines(to io.Writer) display {
	var failed error
	out := json.NewEncoder(to)
	return display{
		row: func(r result) { failed = errors.Join(failed, out.Encode(r)) },
		end: func() error { return failed },
	}
}

// table shows results to people.
func table(to io.Writer) display {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(to, "Weir against hand-written Go without fault tolerance, and checkpoints against none.\n"+
		"In turns, best of %d; rates are in millions a second. %s, GOMAXPROCS %d.\n\n", rounds, runtime.Version(), runtime.GOMAXPROCS(0))
	fmt.Fprintln(out, "row\tweir\tunit\tcompared\tratio\tcompared with")
	return display{
		row: func(r result) {
			compared, ratio, with := "-", "-", "-"
			if r.Ratio != nil {
				compared, ratio, with = figure(*r.ComparedRate, r.Unit), fmt.Sprintf("%.2f", *r.Ratio), *r.ComparedWith
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Row, figure(r.Rate, r.Unit), r.Unit, compared, ratio, with)
		},
		end: out.Flush,
	}
}

// figure is a measured value: a rate in millions, others as they are.
func figure(v float64, unit string) string {
	if strings.HasSuffix(unit, "/s") {
		return fmt.Sprintf("%.1f M", v/1e6)
	}
	return fmt.Sprintf("%.3g", v)
}
