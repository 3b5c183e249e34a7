package weir

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/weirstream/weir"

// floors is the architecture. A package imports only from floors below its own,
// so there can be no circle, and the way down is always towards the ground.
var floors = [][]string{
	{"codec", "keygroup", "filesystem", "internal/config", "internal/executor", "internal/graph", "internal/metric"},
	{"record", "state", "state/table", "filesystem/filesystemtest"},
	{"connector", "state/heap", "state/statetest", "internal/exchange", "internal/align", "internal/snapshot"},
	{"connector/file", "connector/datagen", "internal/operator", "internal/enumerate", "internal/commit", "internal/run", "internal/checkpoint", "internal/control"},
	{"internal/task", "internal/jobmaster"},
	{"internal/worker"},
	{"."},
	{"bench", "cmd/weir"},
}

// home lists where other people's code may be imported: each library where it
// belongs, and nowhere on the record path.
var home = map[string][]string{
	"github.com/goccy/go-yaml":      {"internal/config"},
	"github.com/klauspost/compress": {"connector/file", "state/table"},
	"github.com/twmb/murmur3":       {"internal/graph"},
	"github.com/zeebo/xxh3":         {"codec"},
	"golang.org/x/sys":              {"codec"},
}

// apart lists what must stay strangers although their floors would allow it.
var apart = []struct{ who, never, why string }{
	{"internal/jobmaster", "internal/operator", "the job master knows a job's graph, not its functions"},
	{"internal/jobmaster", "internal/exchange", "records never pass through the job master"},
	{"internal/task", "internal/control", "a subtask doesn't know who commands it"},
	{"internal/task", "internal/checkpoint", "a subtask answers barriers; it doesn't decide on them"},
	{"internal/operator", "internal/checkpoint", "an operator freezes when it is told to"},
	{"internal/operator", "internal/control", "nor does it know who tells it"},
	{"internal/checkpoint", "filesystem", "the coordinator decides; its driver does the storing"},
	{"cmd/weir", "internal/operator", "it reads checkpoints without the code of the job"},
	{"cmd/weir", ".", "so it does without what runs jobs"},
	{"connector", "internal", "connectors use only what anyone can use"},
	{"state", "internal", "so do state backends"},
	{"filesystem", "internal", "so do file systems"},
}

// pure lists the packages, or single files of them, that decide and don't do:
// nothing in them starts a goroutine, touches a channel, asks for the time, or
// imports what could.
var pure = []string{
	"keygroup", "internal/graph", "internal/align", "internal/checkpoint",
}

// harmless is what a pure package may import beside our own packages below it
// and libraries that are at home in it.
var harmless = []string{"bytes", "cmp", "encoding/binary", "encoding/hex", "errors", "fmt", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time"}

var clock = map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true}

// sources returns the Go files of each package, tests and examples aside.
func sources(t *testing.T) map[string][]string {
	files := map[string][]string{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		pkg := path.Dir(filepath.ToSlash(file))
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") && !within(pkg, "examples", "testdata") {
			files[pkg] = append(files[pkg], file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// within reports whether pkg is one of roots or lies below one.
func within(pkg string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return pkg == r || strings.HasPrefix(pkg, r+"/") })
}

// atHome reports whether pkg is where the library belongs.
func atHome(pkg, library string) bool {
	for root, homes := range home {
		if within(library, root) && within(pkg, homes...) {
			return true
		}
	}
	return false
}

func TestImportsLeadDownwards(t *testing.T) {
	floor := map[string]int{}
	for i, pkgs := range floors {
		for _, p := range pkgs {
			floor[p] = i
		}
	}
	for pkg, files := range sources(t) {
		docs := 0
		at, known := floor[pkg]
		if !known {
			t.Errorf("package %s stands on no floor", pkg)
		}
		for _, file := range files {
			f := parseFile(t, file, parser.ImportsOnly|parser.ParseComments)
			if f.Doc != nil {
				docs++
			}
			for _, name := range imports(f) {
				ours := within(name, module)
				dep := path.Join(".", strings.TrimPrefix(name, module))
				switch below, ok := floor[dep]; {
				case !ours && strings.Contains(strings.Split(name, "/")[0], ".") && !atHome(pkg, name):
					t.Errorf("%s imports %s: it isn't at home there", file, name)
				case ours && ok && below >= at:
					t.Errorf("%s (floor %d) imports %s (floor %d)", file, at, dep, below)
				}
				for _, a := range apart {
					if ours && within(pkg, a.who) && within(dep, a.never) {
						t.Errorf("%s imports %s: %s", file, dep, a.why)
					}
				}
			}
		}
		if docs != 1 {
			t.Errorf("package %s has %d package comments, want 1", pkg, docs)
		}
	}
}

func TestPurePackagesOnlyDecide(t *testing.T) {
	for pkg, files := range sources(t) {
		for _, file := range files {
			if within(pkg, pure...) || slices.Contains(pure, file) {
				checkPure(t, pkg, file)
			}
		}
	}
}

func checkPure(t *testing.T, pkg, file string) {
	f := parseFile(t, file, 0)
	for _, name := range imports(f) {
		if !within(name, module) && !slices.Contains(harmless, name) && !atHome(pkg, name) {
			t.Errorf("%s: not pure: imports %s", file, name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			t.Errorf("%s: not pure: goroutines and channels", file)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && clock[n.Sel.Name] {
				t.Errorf("%s: time.%s: take the time as an argument", file, n.Sel.Name)
			}
		}
		return true
	})
}

func parseFile(t *testing.T, file string, mode parser.Mode) *ast.File {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func imports(f *ast.File) (names []string) {
	for _, spec := range f.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		names = append(names, name)
	}
	return names
}
