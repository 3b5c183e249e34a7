package weir_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var coverage = flag.Bool("coverage", false, "measure how much of what decides is covered by the tests beside it")

// covered is where the engine decides: packages, or some files of them, whose tests take
// nearly every way through them.
var covered = map[string][]string{
	"internal/align":      nil,
	"internal/checkpoint": nil,
	"internal/jobmaster":  {"life.go", "restart.go"},
	"internal/snapshot":   {"storage.go", "savepoint.go", "memory.go", "files.go", "claimed.go", "dispose.go"},
}

// enough is the share of statements that the fast tests of a package must reach.
const enough = 0.95

// TestWhatDecidesIsCovered measures statements, and names those that are never reached.
func TestWhatDecidesIsCovered(t *testing.T) {
	if !*coverage {
		t.Skip("it runs with -coverage, by make cover")
	}
	for pkg, files := range covered {
		t.Run(pkg, func(t *testing.T) {
			all, reached, missed := statements(t, pkg, files)
			share := float64(reached) / float64(all)
			t.Logf("%.1f %% of %d statements", 100*share, all)
			if share < enough {
				t.Errorf("%.1f %% of %d statements are covered, want %.0f; missing are %s", 100*share, all, 100*enough, strings.Join(missed, " "))
			}
		})
	}
}

// statements runs the tests of a package and counts the statements in some files of it,
// or in all.
func statements(t *testing.T, pkg string, files []string) (all, reached int, missed []string) {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	if out, err := exec.Command("go", "test", "-short", "-coverprofile", profile, "./"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		at, counts, _ := strings.Cut(lines.Text(), " ")
		file, _, _ := strings.Cut(filepath.Base(at), ":")
		if at == "mode:" || len(files) > 0 && !slices.Contains(files, file) {
			continue
		}
		var n, times int
		if _, err := fmt.Sscan(counts, &n, &times); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if all += n; times > 0 {
			reached += n
		} else if n > 0 {
			missed = append(missed, filepath.Base(at))
		}
	}
	return all, reached, missed
}
