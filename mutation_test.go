package weir_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var mutate = flag.Bool("mutate", false, "break the rules in testdata/mutations, one after the other, and see that tests notice")

// TestBrokenRulesAreNoticed breaks a rule by each of the patches in testdata/mutations,
// whose first line says which, and runs the tests of the package that holds it: they
// must fail. Without -mutate it only makes sure that the patches still fit.
func TestBrokenRulesAreNoticed(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutations/*.patch")
	if err != nil || len(patches) < 10 {
		t.Fatalf("%d patches: %v", len(patches), err)
	}
	for _, path := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".patch"), func(t *testing.T) {
			m := newMutation(t, path)
			file := m.apply(t)
			if *mutate {
				m.mustBeNoticed(t, file)
			}
		})
	}
}

// A mutation is a patch of one file that breaks a rule.
type mutation struct {
	rule     string
	path     string // of the file
	old, new string // lines
}

// newMutation reads a unified diff of one hunk.
func newMutation(t *testing.T, path string) (m mutation) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		sign, rest := line[:1], line[1:]
		switch {
		case sign == "#":
			m.rule = strings.TrimSpace(rest)
		case strings.HasPrefix(line, "+++ b/"):
			m.path = strings.TrimSpace(line[6:])
		case strings.HasPrefix(line, "---"):
		case sign == "-":
			m.old += rest
		case sign == "+":
			m.new += rest
		case sign == " ":
			m.old += rest
			m.new += rest
		}
	}
	if m.rule == "" || m.path == "" || m.old == m.new {
		t.Fatalf("%s isn't a rule and the patch that breaks it: %+v", path, m)
	}
	return m
}

// apply writes the broken file beside the tree. Where in the file the lines are doesn't
// matter, but they must be there once.
func (m mutation) apply(t *testing.T) (file string) {
	t.Helper()
	source, err := os.ReadFile(m.path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("it doesn't fit any more: %s has these lines %d times:\n%s", m.path, n, m.old)
	}
	file = filepath.Join(t.TempDir(), filepath.Base(m.path))
	if err := os.WriteFile(file, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// mustBeNoticed runs the fast tests of the package with the broken file in place of the
// right one.
func (m mutation) mustBeNoticed(t *testing.T, file string) {
	t.Helper()
	right, err := filepath.Abs(m.path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(map[string]map[string]string{"Replace": {right: file}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := file + ".json"
	if err := os.WriteFile(overlay, content, 0o666); err != nil {
		t.Fatal(err)
	}
	pkg := "./" + filepath.Dir(m.path)
	if out, err := exec.Command("go", "build", "-overlay", overlay, pkg).CombinedOutput(); err != nil {
		t.Fatalf("the patch doesn't compile: %v\n%s", err, out)
	}
	out, err := exec.Command("go", "test", "-overlay", overlay, "-short", "-vet=off", "-failfast", "-timeout", "2m", pkg).CombinedOutput()
	noticed := regexp.MustCompile("(--- FAIL|panic): .*").Find(out)
	switch {
	case err == nil:
		t.Errorf("nobody notices when this rule is broken: %s", m.rule)
	case noticed == nil:
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s: %s", m.rule, noticed)
}
