package filesystem_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/filesystem/filesystemtest"
)

func TestLocalKeepsTheContract(t *testing.T) {
	filesystemtest.Suite(t, func(t *testing.T) (filesystem.FileSystem, string) {
		return filesystem.Local{}, filepath.ToSlash(t.TempDir())
	})
}

func TestMemoryKeepsTheContract(t *testing.T) {
	filesystemtest.Suite(t, func(t *testing.T) (filesystem.FileSystem, string) {
		m := filesystem.NewMemory()
		return m, dir(t, m)
	})
}

func TestFaultyWithoutFaultsKeepsTheContract(t *testing.T) {
	filesystemtest.Suite(t, func(t *testing.T) (filesystem.FileSystem, string) {
		m := filesystem.NewMemory()
		return &filesystem.Faulty{FileSystem: m}, dir(t, m)
	})
}

func dir(t *testing.T, m *filesystem.Memory) string {
	if err := m.MakeDir("/some/where"); err != nil {
		t.Fatal(err)
	}
	return "/some/where"
}

func TestResolve(t *testing.T) {
	local, memory := filesystem.Local{}, filesystem.NewMemory()
	set := filesystem.Set{"file": local, "mem": memory}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"file:///a/b":       "/a/b",
		"file:/a/b":         "/a/b",
		"/a/b/":             "/a/b",
		"/a/../b":           "/b",
		"/a:/b":             "/a:/b",
		"file:///a b%20c":   "/a b%20c",
		"a/b":               filepath.ToSlash(here) + "/a/b",
		"a:b":               filepath.ToSlash(here) + "/a:b",
		"mem:///x":          "/x",
		"mem://bucket/x//y": "/bucket/x/y",
	} {
		f, path, err := set.Resolve(uri)
		wantFS := filesystem.FileSystem(local)
		if strings.HasPrefix(uri, "mem") {
			wantFS = memory
		}
		if err != nil || path != want || f != wantFS {
			t.Errorf("%s is %q of %T, %v; want %q", uri, path, f, err, want)
		}
	}
	for uri, want := range map[string]string{
		"":              "empty",
		"s3://bucket/x": `no file system for scheme "s3"; known: file, mem`,
		"file://host/x": "file:///host/x",
	} {
		if _, _, err := set.Resolve(uri); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want an error with %q", uri, err, want)
		}
	}
}
