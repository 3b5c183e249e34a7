package weir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first job of the README runs as it stands there, on any machine, and counts
// the words of its own source.
func TestFirstJobOfTheReadmeRuns(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(readme), "```go\n")
	code, _, _ = strings.Cut(code, "```")
	dir := t.TempDir()
	source := filepath.Join(dir, "first.go")
	if err := os.WriteFile(source, []byte(code), 0o666); err != nil {
		t.Fatal(err)
	}
	p := start(t, "sh", "-c", `cd "$0" && exec "$1"`, dir, program(source)(t)).exits(0)
	for _, counted := range []string{"{package 1}\n", "{:= 3}\n"} {
		if !strings.Contains(p.out.String(), counted) {
			p.fatal("doesn't print %q", counted)
		}
	}
}
