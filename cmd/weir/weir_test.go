package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/state"
)

// old is a checkpoint of a job with a state of every kind.
const old = "../../testdata/disk-1/ckpt/dd1a8567d1b67dace9ba58c435477cdc/chk-2"

// call runs the program.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// want runs the program and compares its output.
func want(t *testing.T, stdout string, args ...string) {
	t.Helper()
	code, out, errs := call(args...)
	if code != 0 || errs != "" || out != stdout {
		t.Errorf("weir %s: exit code %d\n%s%s\nwant\n%s", strings.Join(args, " "), code, out, errs, stdout)
	}
}

type sum struct {
	Records int
	Last    string
	Seen    []uint8
}

// checkpointed runs a small job, with further settings, until it has a checkpoint, and
// returns the checkpoint directory, and that of one checkpoint.
func checkpointed(t *testing.T, settings ...string) (dir, chk string) {
	dir = t.TempDir()
	ctx, suspend := context.WithCancel(t.Context())
	defer suspend()
	err := weir.Run(ctx, func(job *weir.Job) error {
		job.Name = "small"
		job.Parallelism = 2
		job.Checkpoints = weir.Checkpoints{Interval: 20 * time.Millisecond, Retained: 2, Dir: dir}
		job.Config = map[string]string{"execution.checkpointing.data-inline-threshold": "1 b"}
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			job.Config[key] = value
		}
		numbers := weir.From(job, "numbers", datagen.Source[uint64]{
			Rate: 2000,
			Make: func(n int64, _ *rand.Rand) uint64 { return uint64(n) % 5 },
		})
		sums := weir.Fold(weir.KeyBy(numbers, func(n uint64) uint64 { return n }), "sum", func(s sum, n uint64) sum {
			return sum{s.Records + 1, strings.Repeat("x", int(n)), []uint8{uint8(n)}}
		})
		weir.Do(weir.Operate(sums, "rules", rules), "see", func(struct{}) error {
			if len(complete(dir)) > 1 {
				suspend() // the older one is known to be complete
			}
			return nil
		})
		return nil
	})
	if !errors.Is(err, weir.ErrSuspended) {
		t.Fatal(err)
	}
	found := complete(dir)
	if len(found) == 0 {
		t.Fatal("there is no checkpoint")
	}
	return dir, filepath.Dir(found[0])
}

// complete returns the metadata of the checkpoints in a checkpoint directory.
func complete(dir string) []string {
	flat, _ := filepath.Glob(dir + "/chk-*/_metadata")
	found, _ := filepath.Glob(dir + "/*/chk-*/_metadata")
	return append(found, flat...)
}

// rules keeps state without a key, and lets records pass as nothing.
func rules(op *weir.Out[struct{}]) weir.Handler[weir.Pair[uint64, sum]] {
	seen := state.NewBroadcast[string, int16](op, "rules")
	return weir.Handler[weir.Pair[uint64, sum]]{Record: func(weir.Pair[uint64, sum]) error {
		seen.Put("all", 7)
		op.Emit(struct{}{})
		return nil
	}}
}

func TestMistakesExitWithTwoAndSayWhatToDo(t *testing.T) {
	for _, test := range []struct{ args, says string }{
		{"", "weir -h explains"},
		{"checkpoint", "list, inspect or verify"},
		{"checkpoint lost x", "list, inspect or verify"},
		{"checkpoint list", "takes one DIR, not 0"},
		{"checkpoint verify a b", "takes one PATH, not 2"},
		{"checkpoint verify -deep a", "weir checkpoint verify -h explains"},
		{"checkpoint inspect -key a " + old, "-key and -limit need -state"},
		{"checkpoint inspect -limit 3 " + old, "-key and -limit need -state"},
		{"checkpoint inspect -state lost " + old, `no operator has a state "lost"; there are: `},
		{"checkpoint verify /nowhere/chk-1", "there is no /nowhere/chk-1"},
		{"checkpoint verify s3://bucket/chk-1", `no file system for scheme "s3"`},
		{"savepoint", "takes one PATH, not 0"},
		{"savepoint /nowhere/savepoint-1", "with -d"},
		{"savepoint -d a b", "takes one PATH, not 2"},
		{"savepoint -d s3://bucket/savepoint-1", `no file system for scheme "s3"`},
	} {
		code, out, errs := call(strings.Fields(test.args)...)
		if code != 2 || out != "" || !strings.Contains(errs, test.says) {
			t.Errorf("weir %s: exit code %d, %q, %q; want 2 and %q", test.args, code, out, errs, test.says)
		}
	}
}

func TestExplainsItself(t *testing.T) {
	for _, args := range []string{"-h", "checkpoint -h", "checkpoint list -h", "checkpoint inspect -h", "checkpoint verify -h", "savepoint -h"} {
		if code, out, errs := call(strings.Fields(args)...); code != 0 || !strings.HasPrefix(out, "Usage:") || errs != "" {
			t.Errorf("weir %s: exit code %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestListsRunsAndTheirCheckpoints(t *testing.T) {
	want(t, `JOB      ID                                RUN   CHECKPOINT  TIME                  SIZE  KIND        CHECKPOINT IS
history  dd1a8567d1b67dace9ba58c435477cdc  open  chk-2       2023-11-14T22:13:21Z  6260  checkpoint  complete
`, "checkpoint", "list", "../../testdata/disk-1/ckpt")

	dir, chk := checkpointed(t)
	id := filepath.Base(filepath.Dir(chk))
	must(t, os.Mkdir(filepath.Join(dir, id, "chk-77"), 0o777))
	must(t, os.Mkdir(filepath.Join(dir, id, "chk-78"), 0o777))
	must(t, os.WriteFile(filepath.Join(dir, id, "chk-78", "_metadata"), []byte("WeirMeta"), 0o666))
	must(t, os.Mkdir(filepath.Join(dir, strings.Repeat("0", 32)), 0o777))
	code, out, errs := call("checkpoint", "list", "file://"+dir)
	var lines []string
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		lines = append(lines, strings.Join(append(f[:3:3], f[6:]...), " "))
	}
	got := strings.Join(lines[1:], "\n")
	if code != 0 || errs != "" || !strings.HasPrefix(got, "small "+id+" suspended checkpoint complete\n") ||
		!strings.HasSuffix(got, "\nsmall "+id+" suspended - incomplete\nsmall "+id+" suspended - broken\n- "+strings.Repeat("0", 32)+" - - none there") {
		t.Errorf("exit code %d\n%s%s\n%s", code, out, errs, got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerifiesWhatIsWhole(t *testing.T) {
	want(t, "checkpoint 2 of job \"history\" is whole: 5 operators, 6260 bytes of state\n", "checkpoint", "verify", old)
	_, chk := checkpointed(t)
	for _, at := range []string{chk, chk + "/_metadata", "file://" + chk} {
		if code, out, errs := call("checkpoint", "verify", at); code != 0 || !strings.Contains(out, `of job "small" is whole`) {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
	}
}

func TestVerifyFindsEveryFlippedBit(t *testing.T) {
	for _, compression := range []string{"false", "true"} {
		_, dir := checkpointed(t, "execution.checkpointing.snapshot-compression="+compression)
		files, err := os.ReadDir(dir)
		must(t, err)
		if len(files) < 3 {
			t.Fatalf("only %d files", len(files))
		}
		for _, f := range files {
			flip(t, dir, filepath.Join(dir, f.Name()))
		}
	}
}

func flip(t *testing.T, dir, file string) {
	content, err := os.ReadFile(file)
	must(t, err)
	w, err := os.OpenFile(file, os.O_WRONLY, 0)
	must(t, err)
	defer w.Close()
	for bit := range 8 * len(content) {
		damaged := []byte{content[bit/8] ^ 1<<(bit%8)}
		_, err := w.WriteAt(damaged, int64(bit/8))
		must(t, err)
		if code, out, errs := call("checkpoint", "verify", dir); code != 1 || out != "" || errs == "" {
			t.Fatalf("%s, bit %d: exit code %d, %q, %q", file, bit, code, out, errs)
		}
		_, err = w.WriteAt(content[bit/8:bit/8+1], int64(bit/8))
		must(t, err)
	}
	if code, _, errs := call("checkpoint", "verify", dir); code != 0 {
		t.Fatalf("%s as it was: exit code %d, %q", file, code, errs)
	}
}

func TestVerifyNamesWhatIsBroken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chk-2")
	must(t, os.CopyFS(dir, os.DirFS(old)))
	must(t, os.Remove(dir+"/34f6cffc-928e-7ecb-9d96-dbe65e490593"))
	must(t, os.Truncate(dir+"/4bedb4f0-d30b-bbb6-bb8b-434a6884443a", 10))
	code, _, errs := call("checkpoint", "verify", dir)
	if code != 1 || !strings.Contains(errs, "34f6cffc-928e-7ecb-9d96-dbe65e490593\": open") || !strings.Contains(errs, "4bedb4f0-d30b-bbb6-bb8b-434a6884443a\": incomplete or corrupt: it has 10 bytes") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	must(t, os.Rename(dir, filepath.Dir(dir)+"/chk-3"))
	if code, _, errs := call("checkpoint", "verify", filepath.Dir(dir)+"/chk-3"); code != 1 || !strings.Contains(errs, "it says that it is checkpoint 2") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
