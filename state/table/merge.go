package table

import (
	"bytes"
	"cmp"
)

// A Merged walks several tables as if they were one: of a key that is in more
// than one, it gives the newest entry, which may be a tombstone.
type Merged struct {
	*Iterator        // the one that the current entry is from
	heap      []aged // all that aren't at their end; the current one is the first
	begun     bool
	err       error
}

type aged struct {
	*Iterator
	age int // 0 is the newest
}

// Merge merges tables, the newest first. The iterators are the Merged's from
// now on.
func Merge(newestFirst ...*Iterator) *Merged {
	m := &Merged{Iterator: &Iterator{}}
	for age, it := range newestFirst {
		m.heap = append(m.heap, aged{it, age})
	}
	return m
}

// Next steps to the next key, and reports whether there is one.
func (m *Merged) Next() bool {
	switch {
	case !m.begun:
		m.begun = true
		m.begin()
	case m.more():
		m.skip()
	}
	if m.more() {
		m.Iterator = m.heap[0].Iterator
		return true
	}
	return false
}

func (m *Merged) more() bool { return m.err == nil && len(m.heap) > 0 }

// begin steps every iterator to its first entry and makes the heap.
func (m *Merged) begin() {
	for i := len(m.heap) - 1; i >= 0; i-- {
		m.advance(i)
	}
}

// skip steps everything that stands on the current key beyond it, the current
// iterator last, since it holds the key.
func (m *Merged) skip() {
	for m.err == nil {
		i := m.second()
		if i == 0 || !bytes.Equal(m.heap[i].Key(), m.heap[0].Key()) {
			break
		}
		m.advance(i)
	}
	m.advance(0)
}

// second returns the place of the second smallest, 0 if there is none.
func (m *Merged) second() int {
	switch {
	case len(m.heap) < 2:
		return 0
	case len(m.heap) > 2 && m.less(2, 1):
		return 2
	}
	return 1
}

// advance steps the iterator at place i and puts it where it belongs, below i.
func (m *Merged) advance(i int) {
	it := m.heap[i]
	if !it.Next() {
		m.err = cmp.Or(m.err, it.Err())
		last := len(m.heap) - 1
		m.heap[i] = m.heap[last]
		m.heap = m.heap[:last]
	}
	m.down(i)
}

func (m *Merged) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heap); child++ {
			if m.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

func (m *Merged) less(i, j int) bool {
	a, b := m.heap[i], m.heap[j]
	c := bytes.Compare(a.Key(), b.Key())
	return c < 0 || c == 0 && a.age < b.age
}

// Err returns the error that ended the walk, if it was one.
func (m *Merged) Err() error { return m.err }
