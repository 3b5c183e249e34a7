package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// File reads a YAML file. Its keys may be nested, flat ("a.b.c: value") or mixed. Without a path it is config.yaml in the
// directory that the environment variable WEIR_CONF_DIR names, and then it need not exist.
func File(path string) Layer {
	explicit := path != ""
	if !explicit {
		directory := os.Getenv("WEIR_CONF_DIR")
		if directory == "" {
			return Layer{}
		}
		path = filepath.Join(directory, "config.yaml")
	}
	data, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return Layer{}
	}
	if err != nil {
		return Layer{problems: []error{fmt.Errorf("read configuration: %w", err)}}
	}
	return parse(path, data)
}

// The parser's time and stack grow faster than its input, so that input is bounded.
const (
	maxFile   = 1 << 20
	maxLine   = 64 << 10
	maxTokens = 20_000
)

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxFile+1))
}

func parse(path string, data []byte) Layer {
	f := file{path: path}
	body, err := f.parse(strings.TrimPrefix(string(data), "\ufeff")) // Windows editors put it there
	if err != nil {
		f.problems = append(f.problems, err)
	}
	if body != nil {
		f.flatten("", body)
	}
	return f.Layer
}

// file turns the tree of a YAML document into settings with dotted keys.
type file struct {
	Layer
	path string
}

func (f *file) parse(data string) (body ast.Node, err error) {
	if err := f.bound(data); err != nil {
		return nil, err
	}
	defer func() { // the parser is not ours, and a mistake in a file must not end the program
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%s: not readable as YAML: %v", f.path, reason)
		}
	}()
	tokens := lexer.Tokenize(data)
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("%s: too large for a configuration: more than %d words and marks", f.path, maxTokens)
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, f.syntaxError(err)
	}
	for _, document := range tree.Docs {
		switch {
		case document.Body == nil:
		case body != nil:
			return body, fmt.Errorf("%s: a second document begins; a configuration is one", f.at(document.Body))
		default:
			body = document.Body
		}
	}
	return body, nil
}

// bound refuses what is no configuration before it is parsed.
func (f *file) bound(data string) error {
	if len(data) > maxFile {
		return fmt.Errorf("%s: too large for a configuration: more than %s", f.path, writeSize(maxFile))
	}
	line := 0
	for text := range strings.Lines(data) {
		line++
		if len(text) > maxLine {
			return fmt.Errorf("%s:%d: a line of more than %s", f.path, line, writeSize(maxLine))
		}
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s:%d: not UTF-8", f.path, line)
		}
	}
	return nil
}

// syntaxError takes from the parser's error what fits into one line.
func (f *file) syntaxError(err error) error {
	var placed interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &placed) && placed.GetToken() != nil {
		return fmt.Errorf("%s:%d: not YAML: %s", f.path, placed.GetToken().Position.Line, clip(placed.GetMessage()))
	}
	return fmt.Errorf("%s: not YAML: %s", f.path, clip(err.Error()))
}

func (f *file) at(node ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, node.GetToken().Position.Line)
}

func (f *file) wrong(node ast.Node, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s: %s", f.at(node), fmt.Sprintf(format, args...)))
}

// flatten adds the settings at and below a node. The key is empty for the whole document.
func (f *file) flatten(key string, node ast.Node) {
	switch node := node.(type) {
	case *ast.MappingNode:
		for _, entry := range node.Values {
			f.entry(key, entry)
		}
	case *ast.MappingValueNode:
		f.entry(key, node)
	default:
		f.wrong(node, "want keys and values")
	}
}

func (f *file) entry(parent string, entry *ast.MappingValueNode) {
	name, ok := entry.Key.(*ast.StringNode)
	if !ok {
		f.wrong(entry.Key, "%s is not a key; anchors, aliases and tags have no place here", clip(entry.Key.String()))
		return
	}
	key := name.Value
	if parent != "" {
		key = parent + "." + key
	}
	origin := f.at(entry.Key)
	switch value := entry.Value.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		f.flatten(key, value)
	case *ast.NullNode:
		if isSection(key) {
			return // all its lines are comments
		}
		f.Set(key, "", origin)
	case *ast.SequenceNode:
		f.sequence(key, origin, value)
	default:
		if text, ok := scalar(value); ok {
			f.Set(key, text, origin)
		} else {
			f.wrong(value, "%s: the value is not plain text; anchors, aliases and tags have no place here", clip(key))
		}
	}
}

func (f *file) sequence(key, origin string, node *ast.SequenceNode) {
	items := make([]string, len(node.Values))
	for i, value := range node.Values {
		text, ok := scalar(value)
		if !ok || strings.Contains(text, ";") {
			f.wrong(value, "%s: an item of a list must be plain text without ';'", clip(key))
			return
		}
		items[i] = text
	}
	f.settings = append(f.settings, setting{key: key, text: strings.Join(items, ";"), sequence: true, origin: origin})
}

// scalar returns a value as it was written, whatever type YAML takes it for.
func scalar(node ast.Node) (text string, ok bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return strings.TrimSpace(node.Value.Value), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}
