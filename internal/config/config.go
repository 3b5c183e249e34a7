// Package config knows every setting: its key, its type, what it means, and where its value came from.
//
// Settings come in layers. A [Layer] is read from a file or from assignments on the command line, or set by the
// job's code; [Merge] puts layers on top of each other and reports every mistake in all of them at once, each with
// its place; [Get] reads a setting with its type:
//
//	cfg, err := config.Merge(config.File(path), code, config.Assignments(args))
//	interval := config.Get(cfg, config.CheckpointInterval)
//
// Keys are declared in one table, keys.go, from which docs/configuration.md is written.
package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A Layer holds the settings that come from one place. Mistakes found while it was read wait in it until [Merge].
// The zero Layer is empty.
type Layer struct {
	settings []setting
	problems []error
}

// setting is a value given to a key, which is still the name that the user wrote.
type setting struct {
	key      string
	text     string
	sequence bool   // the text was written as a YAML sequence; its items are joined by ';'
	origin   string // "conf/config.yaml:12", "-D #1", "job code"
	value    any    // text, read by the option's kind
}

func (s setting) String() string {
	if s.origin == unset {
		return fmt.Sprintf("%s (%s)", s.key, unset)
	}
	text := s.text
	if isSecret(s.key) {
		text = "******"
	}
	return fmt.Sprintf("%s = %q (%s)", clip(s.key), clip(text), s.origin)
}

// isSecret reports whether a key's value must not be seen in a message. Unknown keys have secrets too.
func isSecret(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc([]string{"password", "secret", "token", "account.key", "apikey", "api-key", "service-key", "auth", "jaas.config"},
		func(word string) bool { return strings.Contains(key, word) })
}

// unset is the origin of a setting without a value.
const unset = "not set"

func (s setting) wrong(format string, args ...any) error {
	return fmt.Errorf("%v: %s", s, fmt.Sprintf(format, args...))
}

// Set adds a setting. The origin is what messages say about its place.
func (l *Layer) Set(key, text, origin string) {
	l.settings = append(l.settings, setting{key: key, text: text, origin: origin})
}

// Assignments reads the arguments of repeated -D flags, each of the form key=value.
func Assignments(arguments []string) Layer {
	var layer Layer
	for i, argument := range arguments {
		origin := fmt.Sprintf("-D #%d", i+1)
		key, text, found := strings.Cut(argument, "=")
		if key = strings.TrimSpace(key); !found || key == "" {
			layer.problems = append(layer.problems, fmt.Errorf("%s: %q is not of the form key=value", origin, clip(argument)))
			continue
		}
		layer.Set(key, strings.TrimSpace(text), origin)
	}
	return layer
}

// A Config is what all layers together say. It doesn't change.
type Config struct {
	settings map[string]setting // by the option's current key
	notes    []string
}

// Merge puts the layers on top of each other: where two give a setting, the later one wins. The error joins all
// mistakes: unknown keys, values out of range, keys given twice in one layer, values that contradict each other.
func Merge(layers ...Layer) (*Config, error) {
	m := merger{config: &Config{settings: map[string]setting{}}, wrong: map[string]bool{}, noted: map[string]bool{}}
	for _, layer := range layers {
		m.add(layer)
	}
	m.config.derive()
	m.contradictions()
	if len(m.problems) > maxProblems {
		m.problems = append(m.problems[:maxProblems], errors.New("and more mistakes"))
	}
	if len(m.problems) > 0 {
		return nil, errors.Join(m.problems...)
	}
	m.noteWithoutEffect()
	m.noteCombinations()
	return m.config, nil
}

// Notes lists what deserves a line in the log: older names that were used, and settings that have no effect.
func (c *Config) Notes() []string { return slices.Clone(c.notes) }

// Get returns the value of a setting, or its default.
func Get[T any](c *Config, option Option[T]) T {
	value := option.fallback
	if s, given := c.settings[option.key]; given {
		value = s.value
	}
	return value.(T)
}

// Describe says a setting's key, value and origin, for messages about it.
func Describe[T any](c *Config, option Option[T]) string {
	return c.effective(option.declaration).String()
}

// Given returns a setting as messages about it say it, if the layer gives it, under
// whichever of its names.
func Given[T any](l Layer, option Option[T]) (said string, ok bool) {
	for _, s := range l.settings {
		if find(s.key) == option.declaration {
			return s.String(), true
		}
	}
	return "", false
}

// An Effective is a setting that acts, whoever has given it.
type Effective struct {
	Key, Value, Origin string // the origin of a default is "default"
}

// Effective lists the settings that act and have a value, in the order of their declaration.
func (c *Config) Effective() []Effective {
	var list []Effective
	for d := range declarations() {
		if s := c.effective(d); s.origin != unset && (d.use == acts || d.use == refused) {
			list = append(list, Effective{s.key, s.text, s.origin})
		}
	}
	return list
}

func (c *Config) effective(d *declaration) setting {
	if s, given := c.settings[d.key]; given {
		return s
	}
	origin := "default"
	if d.otherwise == "" {
		origin = unset
	}
	return setting{key: d.key, text: d.otherwise, origin: origin, value: d.fallback}
}

// merger collects what the layers say, and what is wrong with it.
type merger struct {
	config   *Config
	problems []error
	wrong    map[string]bool // current keys whose values can't be read
	noted    map[string]bool // older names that have been noted
}

// maxProblems bounds how many mistakes are reported where a file is no configuration at all.
const maxProblems = 100

func (m *merger) add(layer Layer) {
	m.problems = append(m.problems, layer.problems...)
	seen := map[string]setting{} // by current key, with the name that this layer used
	for _, s := range layer.settings {
		if len(m.problems) > maxProblems {
			return
		}
		d := find(s.key)
		if d == nil {
			m.problems = append(m.problems, s.wrong("unknown key; the nearest known one is %s", nearest(s.key)))
			continue
		}
		key := d.currentKey(s.key)
		if problem := d.read(&s); problem != nil {
			m.problems = append(m.problems, problem)
			m.wrong[key] = true
		}
		first, again := seen[key]
		switch {
		case !again:
			seen[key] = s
		case first.key == s.key:
			m.problems = append(m.problems, fmt.Errorf("%v: given a second time: %v", first, s))
		case !reflect.DeepEqual(first.value, s.value):
			m.problems = append(m.problems, fmt.Errorf("%v: another value under another name of the same setting: %v", first, s))
		}
		if key != s.key && !m.noted[s.key] {
			m.noted[s.key] = true
			m.config.note("%s (%s) is an older name of %s", s.key, s.origin, key)
		}
		s.key = key
		m.config.settings[key] = s
	}
}

// noteWithoutEffect says which of the given settings don't change what happens.
func (m *merger) noteWithoutEffect() {
	var meaningless []string
	for _, key := range slices.Sorted(maps.Keys(m.config.settings)) {
		s, d := m.config.settings[key], find(key)
		switch {
		case d.use == nothing:
			meaningless = append(meaningless, fmt.Sprintf("%s (%s)", key, s.origin))
		case d.use == later && !reflect.DeepEqual(s.value, d.fallback):
			m.config.note("%v has no effect yet", s)
		}
	}
	if len(meaningless) > 0 {
		m.config.note("these settings mean nothing here: %s", strings.Join(meaningless, ", "))
	}
}

func (c *Config) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// clip shortens what a user wrote so that it fits into a message.
func clip(text string) string {
	const longest = 200
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "..."
}
