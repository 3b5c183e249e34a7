package config

import (
	"fmt"
	"iter"
	"strings"
)

// An Option is a declared setting whose values are of type T.
type Option[T any] struct{ *declaration }

// Key is the setting's current name.
func (o Option[T]) Key() string { return o.key }

// declaration is what we know about a setting. A key that ends in ".*" stands for all keys with that prefix.
type declaration struct {
	key       string
	kind      kind
	otherwise string // the default, as a user would write it; empty where there is none
	use       use
	old       []string // names that it had earlier
	meaning   string

	fallback any // otherwise as the kind reads it; the type's zero value where there is none
}

// use says what happens when a setting is given a value other than its default.
type use int

const (
	acts    use = iota // it does what it says
	later              // accepted, and noted: it isn't built yet, and the default holds meanwhile
	refused            // an error: it isn't built yet, and to go on without it would break what the user relies on
	nothing            // accepted, and noted: Flink's, and without a meaning here
)

func (d *declaration) isPrefix() bool { return strings.HasSuffix(d.key, ".*") }

// currentKey is the key under which a setting is kept that was given under the name.
func (d *declaration) currentKey(name string) string {
	if d.isPrefix() {
		return name
	}
	return d.key
}

// read reads the setting's text and says what is wrong with it.
func (d *declaration) read(s *setting) error {
	value, ok := d.kind.read(s.text)
	s.value = value
	_, severalAllowed := d.kind.(several)
	switch {
	case s.sequence && !severalAllowed:
		return s.wrong("want %v, not a list", d.kind)
	case !ok:
		return s.wrong("want %v", d.kind)
	case d.use == refused && value != d.fallback:
		return s.wrong("isn't built yet; only %s works", d.otherwise)
	}
	return nil
}

// index finds declarations by their current and older names.
var index = func() map[string]*declaration {
	byName := map[string]*declaration{}
	for d := range declarations() {
		for _, name := range append([]string{d.key}, d.old...) {
			if byName[name] != nil {
				panic("config: two declarations of " + name)
			}
			byName[name] = d
		}
		d.fallback, _ = d.kind.read(d.otherwise)
	}
	return byName
}()

func declarations() iter.Seq[*declaration] {
	return func(yield func(*declaration) bool) {
		for _, section := range sections {
			for i := range section.declarations {
				if !yield(&section.declarations[i]) {
					return
				}
			}
		}
	}
}

// option is the typed handle of a declaration.
func option[T any](key string) Option[T] {
	d := index[key]
	if d == nil {
		panic("config: not declared: " + key)
	}
	if _, ok := d.fallback.(T); !ok {
		panic(fmt.Sprintf("config: %s is a %T", key, d.fallback))
	}
	return Option[T]{d}
}

// find returns the declaration that a name leads to, or nil.
func find(name string) *declaration {
	if d := index[name]; d != nil {
		return d
	}
	for d := range declarations() {
		if d.isPrefix() && strings.HasPrefix(name, strings.TrimSuffix(d.key, "*")) {
			return d
		}
	}
	return nil
}

// isSection reports whether there are keys below the name.
func isSection(name string) bool {
	for known := range index {
		if strings.HasPrefix(known, name+".") {
			return true
		}
	}
	return false
}

// nearest returns the known key that the name was probably meant to be.
func nearest(name string) string {
	best, least := "", 0
	for d := range declarations() {
		for _, known := range append([]string{d.key}, d.old...) {
			if distance := misspelling(name, known); best == "" || distance < least {
				best, least = known, distance
			}
		}
	}
	if current := index[best].key; current != best {
		return fmt.Sprintf("%s, now called %s", best, current)
	}
	return best
}

// misspelling counts the letters to insert, delete or change to get from a name to a known one. Leaving out the first words
// of a key is one mistake; letters beyond the longest known key's length count without being looked at.
func misspelling(name, known string) int {
	const longest = 100
	excess := max(0, len(name)-longest)
	name, known = strings.ToLower(name[:len(name)-excess]), strings.ToLower(known)
	if strings.HasSuffix(known, "."+name) {
		return 1
	}
	row := make([]int, len(known)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(name) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(known) {
			change := diagonal
			if name[i] != known[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(known)] + excess
}
