package main

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a word is, tr decides.
func TestWordsAreWhatTrSplits(t *testing.T) {
	text := "func (s *Server) öffne_Datei2go(π) { return \"a\\tb\" }\x00Z@A[B`C{ don't\r\nÀx\xff_y 123 end"
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		text += string([]byte{byte(rnd.IntN(256))})
	}
	tr := exec.Command("tr", "-cs", "A-Za-z", `\n`)
	tr.Env = []string{"LC_ALL=C"}
	tr.Stdin = strings.NewReader(text)
	out, err := tr.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(out))
	if got := slices.Collect(split(text)); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for range split(text) {
		break // who has enough may stop
	}
}

func TestRankKeepsTheMostFrequentOnce(t *testing.T) {
	var counts []count
	for n := range int64(30) {
		word := string(rune('a' + n))
		counts = append(counts, count{Key: word, Value: n / 2}, count{Key: word, Value: 1})
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(len(counts), func(i, j int) { counts[i], counts[j] = counts[j], counts[i] })
	best := rank(nil, slices.Values(counts))
	if len(best) != most {
		t.Fatal(len(best), "words")
	}
	for i, c := range best { // two of each count; of these, the alphabetically first is first
		n := int64(28 - i/2*2 + i%2)
		if want := (count{Key: string(rune('a' + n)), Value: n / 2}); c != want {
			t.Errorf("place %d: %v, want %v", i, c, want)
		}
	}
}

func TestLineIsWordTabCount(t *testing.T) {
	if got := string(formatLine([]byte("before\n"), count{Key: "word", Value: 12})); got != "before\nword\t12\n" {
		t.Errorf("%q", got)
	}
}
