package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

func inspect(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("checkpoint inspect", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "write JSON: one object, or with -state one object a line")
	name := flags.String("state", "", "show the values of the state of this `name`")
	key := flags.String("key", "", "of the state, show what this `key` has: JSON, or a string as it is")
	limit := flags.Int("limit", 0, "show at most so many `values`; 0: all")
	at, err := parse(flags, args, "PATH",
		"Shows what is in a checkpoint: operators, states, schemas, positions of sources; with -state,\n"+
			"values. It reads them by the schemas in the checkpoint, without the job's code.", stdout)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["state"] && (given["key"] || given["limit"]) {
		return fmt.Errorf("%w: -key and -limit need -state", errUsage)
	}
	if *limit < 0 {
		return fmt.Errorf("%w: -limit is %d, less than nothing; 0 shows all", errUsage, *limit)
	}
	cp, from, err := load(at)
	if err != nil {
		return err
	}
	v := values{name: *name, limit: *limit, asJSON: *asJSON}
	if given["key"] {
		v.key = key
	}
	switch {
	case given["state"]:
		return v.print(ctx, cp, from, stdout)
	case *asJSON:
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(overviewOf(cp))
	}
	return overviewOf(cp).print(stdout)
}

// values says which values are to be shown, and how.
type values struct {
	name   string
	key    *string // nil: all
	limit  int     // 0: none
	asJSON bool
}

// A line is a value and whose it is.
type line struct {
	Operator string `json:"operator"`
	snapshot.Value
}

func (v values) print(ctx context.Context, cp snapshot.Checkpoint, from state.Origin, stdout io.Writer) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !v.asJSON {
		fmt.Fprintln(w, "OPERATOR\tSUBTASK\tKEY\tUSER KEY\tVALUE")
	}
	var names []string
	n, found := 0, false
	for _, op := range cp.Operators {
		for d := range op.Declared {
			names = append(names, d.Name)
		}
		if !op.Has(v.name) {
			continue
		}
		found = true
		err := op.Values(ctx, from, v.name, v.key, func(value snapshot.Value) bool {
			if v.limit > 0 && n == v.limit {
				return false
			}
			n++
			v.printOne(w, line{label(op), value})
			return true
		})
		if errors.Is(err, snapshot.ErrNoKey) || errors.Is(err, codec.ErrText) {
			err = fmt.Errorf("%w: %w", errUsage, err)
		}
		if err != nil {
			return err
		}
	}
	if !found {
		slices.Sort(names)
		return fmt.Errorf("%w: no operator has a state %q; there are: %s", errUsage, v.name, strings.Join(slices.Compact(names), ", "))
	}
	return w.Flush()
}

func (v values) printOne(w io.Writer, l line) {
	if v.asJSON {
		text, err := json.Marshal(l)
		if err != nil {
			panic(err) // it is JSON already
		}
		fmt.Fprintf(w, "%s\n", text)
		return
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.Operator, l.Subtask, or(string(l.Key)), or(string(l.UserKey)), l.Value.Value)
}

// label is how an operator is known: by its uid, or by name and id.
func label(op snapshot.Operator) string {
	if op.UID == "" {
		return op.Name + " (" + op.ID.String() + ")"
	}
	return op.UID
}

// An overview is what -json shows of a checkpoint.
type overview struct {
	Checkpoint uint64     `json:"checkpoint"`
	Savepoint  bool       `json:"savepoint"`
	Job        string     `json:"job"`
	JobID      string     `json:"jobID"`
	Began      time.Time  `json:"began"`
	Size       int64      `json:"size"`
	Operators  []operator `json:"operators"`
}

type operator struct {
	UID            string              `json:"uid"`
	ID             string              `json:"id"`
	Name           string              `json:"name"`
	Parallelism    int                 `json:"parallelism"`
	MaxParallelism int                 `json:"maxParallelism"`
	Size           int64               `json:"size"`
	Ended          int                 `json:"ended"` // subtasks whose input had ended
	Pending        int                 `json:"pending"`
	Split          string              `json:"split,omitempty"`
	Committable    string              `json:"committable,omitempty"`
	States         []declared          `json:"states,omitempty"`
	Positions      []snapshot.Position `json:"positions,omitempty"`
	Waiting        []json.RawMessage   `json:"waiting,omitempty"` // splits that no reader has got
	Unreadable     string              `json:"unreadable,omitempty"`
}

type declared struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Key     string `json:"key,omitempty"`
	UserKey string `json:"userKey,omitempty"`
	Value   string `json:"value"`
}

func overviewOf(cp snapshot.Checkpoint) overview {
	o := overview{cp.Number, cp.Savepoint, cp.JobName, cp.JobID, time.Unix(0, cp.Began).UTC(), cp.Bytes(), nil}
	for _, op := range cp.Operators {
		o.Operators = append(o.Operators, operatorOf(op))
	}
	return o
}

func operatorOf(op snapshot.Operator) operator {
	o := operator{
		UID: op.UID, ID: op.ID.String(), Name: op.Name, Parallelism: op.Parallelism, MaxParallelism: op.MaxParallelism,
		Size: op.Bytes(), Split: some(op.Schemas.Split), Committable: some(op.Schemas.Committable),
	}
	var key codec.Schema
	for _, s := range op.Subtasks {
		o.Pending += len(s.Pending)
		if s.Ended {
			o.Ended++
		}
		for _, h := range s.Keyed {
			key = h.Key
		}
	}
	for d := range op.Declared {
		known := declared{Name: d.Name, Kind: d.Kind, UserKey: some(d.UserKey), Value: some(d.Value)}
		if d.Kind != state.SplitKind && d.Kind != state.UnionKind && d.Kind != state.BroadcastKind {
			known.Key = some(key)
		}
		o.States = append(o.States, known)
	}
	var err error
	if o.Positions, o.Waiting, err = op.Positions(); err != nil {
		o.Unreadable = err.Error()
	}
	return o
}

// some is the text of a schema, empty where there is none.
func some(s codec.Schema) string {
	if s == (codec.Schema{}) {
		return ""
	}
	return s.String()
}

func (o overview) print(stdout io.Writer) error {
	kind := "checkpoint"
	if o.Savepoint {
		kind = "savepoint"
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s %d of job %q (%s), begun %s, %d bytes of state\n\n", kind, o.Checkpoint, o.Job, o.JobID, o.Began.Format(time.RFC3339), o.Size)
	fmt.Fprintln(w, "OPERATOR\tNAME\tPARALLELISM\tMAX\tSIZE\tENDED\tPENDING\tSPLITS\tCOMMITTABLES")
	for _, op := range o.Operators {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", cmp.Or(op.UID, op.ID), op.Name, op.Parallelism, op.MaxParallelism, op.Size, op.Ended, op.Pending, or(op.Split), or(op.Committable))
	}
	fmt.Fprintln(w, "\nOPERATOR\tSTATE\tKIND\tKEY\tUSER KEY\tVALUE")
	for _, op := range o.Operators {
		for _, s := range op.States {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(op.UID, op.ID), s.Name, s.Kind, or(s.Key), or(s.UserKey), or(s.Value))
		}
	}
	fmt.Fprintln(w, "\nSOURCE\tSUBTASK\tSPLIT\tRECORDS TO SKIP")
	for _, op := range o.Operators {
		for _, p := range op.Positions {
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\n", cmp.Or(op.UID, op.ID), p.Subtask, p.Split, p.Skip)
		}
		for _, split := range op.Waiting {
			fmt.Fprintf(w, "%s\t-\t%s\t-\n", cmp.Or(op.UID, op.ID), split)
		}
		if op.Unreadable != "" {
			fmt.Fprintf(w, "%s\t-\t%s\t-\n", cmp.Or(op.UID, op.ID), op.Unreadable)
		}
	}
	return w.Flush()
}
