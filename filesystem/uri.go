package filesystem

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Set is the file systems that a program knows, by scheme.
type Set map[string]FileSystem

// Schemes returns the known schemes in alphabetical order.
func (s Set) Schemes() []string { return slices.Sorted(maps.Keys(s)) }

// Resolve returns the file system that a URI speaks of, and the path there. What
// has no scheme is a path of scheme "file", from the working directory on if it
// is relative. Paths are taken as they stand: "%20" is three characters.
// A host, as in "s3://bucket/key", is the path's first element.
func (s Set) Resolve(uri string) (FileSystem, string, error) {
	if uri == "" {
		return nil, "", errors.New("resolve a file's URI: it is empty")
	}
	scheme, where, err := parse(uri)
	if err != nil {
		return nil, "", fmt.Errorf("resolve %q: %w", uri, err)
	}
	if s[scheme] == nil {
		return nil, "", fmt.Errorf("resolve %q: no file system for scheme %q; known: %s",
			uri, scheme, strings.Join(s.Schemes(), ", "))
	}
	return s[scheme], where, nil
}

func parse(uri string) (scheme, where string, err error) {
	scheme, rest, found := strings.Cut(uri, ":/")
	if !found || strings.Contains(scheme, "/") {
		abs, err := filepath.Abs(uri)
		return "file", filepath.ToSlash(abs), err
	}
	host, below := "", rest
	if after, ok := strings.CutPrefix(rest, "/"); ok {
		host, below, _ = strings.Cut(after, "/")
	}
	if scheme == "file" && host != "" {
		return "", "", fmt.Errorf("a file on host %q can't be reached; a local path has three slashes: file:///%s", host, path.Join(host, below))
	}
	return scheme, path.Join("/", host, below), nil
}
