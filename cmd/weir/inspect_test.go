package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestInspectShowsWhatACheckpointHolds(t *testing.T) {
	want(t, `checkpoint 2 of job "history" (dd1a8567d1b67dace9ba58c435477cdc), begun 2023-11-14T22:13:21Z, 6260 bytes of state

OPERATOR  NAME    PARALLELISM  MAX  SIZE  ENDED  PENDING  SPLITS                                                                COMMITTABLES
lines     lines   2            128  88    1      0        weir/1 {Path string; Start int64; End int64; Next int64; Size int64}  -
tell      tell    2            128  2504  0      0        -                                                                     -
told      told    2            128  144   0      2        -                                                                     weir/1 {Name string; Size int64}
call      call    2            128  3524  0      0        -                                                                     -
called    called  2            128  0     0      0        -                                                                     weir/1 {Name string; Size int64}

OPERATOR  STATE    KIND         KEY                USER KEY           VALUE
tell      average  aggregating  weir-key/1 string  -                  weir/1 {Of int64; N int64}
tell      count    value        weir-key/1 string  -                  weir/1 int64
tell      digits   map          weir-key/1 string  weir-key/1 uint8   weir/1 int64
tell      most     reducing     weir-key/1 string  -                  weir/1 int64
tell      recent   list         weir-key/1 string  -                  weir/1 []int64
call      held     split        -                  -                  weir/1 string
call      own      union        -                  -                  weir/1 string
call      rules    broadcast    -                  weir-key/1 string  weir/1 int64

SOURCE  SUBTASK  SPLIT                                                            RECORDS TO SKIP
lines   1        {"Path":"/in/rivers","Start":0,"End":1017,"Next":0,"Size":1017}  138
lines   1        {"Path":"/in/trees","Start":0,"End":277,"Next":0,"Size":277}     0
`, "checkpoint", "inspect", old)
}

func TestInspectShowsValuesWithoutTheJobsCode(t *testing.T) {
	want(t, `OPERATOR  SUBTASK  KEY     USER KEY  VALUE
tell      0        "Jena"  0         4
tell      0        "Jena"  1         3
`, "checkpoint", "inspect", old, "-state", "digits", "-limit", "2")
	want(t, `OPERATOR  SUBTASK  KEY   USER KEY  VALUE
tell      0        "Po"  -         [19]
`, "checkpoint", "inspect", "-state", "recent", "-key", "Po", old)
	want(t, `OPERATOR  SUBTASK  KEY  USER KEY  VALUE
call      0        -    ""        0
call      0        -    "one"     1
call      0        -    "zwei"    2
`, "checkpoint", "inspect", "-state", "rules", "-limit", "3", old)
	want(t, `{"operator":"call","subtask":0,"value":"Ulm 0"}
`, "checkpoint", "inspect", "-state", "own", "-limit", "1", "-json", old)
	want(t, `OPERATOR  SUBTASK  KEY  USER KEY  VALUE
`, "checkpoint", "inspect", "-state", "count", "-key", "nobody", old)
}

// TestInspectReadsEveryState holds that no state in the checkpoint is beyond what its schema tells.
func TestInspectReadsEveryState(t *testing.T) {
	for _, name := range []string{"average", "count", "digits", "most", "recent", "held", "own", "rules"} {
		code, out, errs := call("checkpoint", "inspect", "-state", name, "-json", old)
		if code != 0 || out == "" {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
		for text := range strings.Lines(out) {
			if !json.Valid([]byte(text)) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

func TestInspectFindsAKeyOfARealJob(t *testing.T) {
	_, chk := checkpointed(t, "execution.checkpointing.snapshot-compression=true")
	code, out, errs := call("checkpoint", "inspect", "-state", "value", "-key", "3", "-json", chk)
	if code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"key":3,"value":{"Records":`) || !strings.Contains(out, `"Last":"xxx","Seen":"03"}`) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = call("checkpoint", "inspect", "-json", chk)
	var o overview
	if err := json.Unmarshal([]byte(out), &o); code != 0 || err != nil || o.Job != "small" || len(o.Operators) < 3 {
		t.Errorf("exit code %d: %v, %s%s", code, err, out, errs)
	}
	if code, _, errs := call("checkpoint", "inspect", "-state", "value", "-key", "three", chk); code != 2 || !strings.Contains(errs, "not the JSON of a value") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
