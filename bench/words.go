package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirstream/weir"
	"github.com/weirstream/weir/connector/file"
)

// wordCountRow counts the words of a text on disk, as examples/wordcount does.
func wordCountRow(name string) row {
	return row{name, func(lasting time.Duration) (result, error) {
		dir, err := os.MkdirTemp("", "weir-bench-")
		if err != nil {
			return result{}, err
		}
		defer os.RemoveAll(dir)
		return contest{
			engine:  func(uint64) (uint64, error) { return wordCount(dir) },
			other:   func(uint64) (uint64, error) { return wordCountByHand(dir) },
			with:    "bufio.Scanner, goroutines, Go maps",
			unit:    "words/s",
			prepare: func(about uint64) (uint64, error) { return writeText(dir, about) },
		}.measure(lasting)
	}}
}

// wordCount is a job that gives each new count of a word to its sink.
func wordCount(dir string) (uint64, error) {
	var t tally
	err := weir.Run(context.Background(), func(job *weir.Job) error {
		job.Parallelism = 1
		lines := weir.From(job, "lines", file.Lines(dir))
		words := weir.FlatMap(lines, "split", split)
		counts := weir.Count(weir.KeyBy(words, func(word string) string { return word }), "count")
		weir.Do(counts, "tally", func(c weir.Pair[string, int64]) error { t.add(gist(c.Key), c.Value); return nil })
		return nil
	})
	return t.check, err
}

// wordCountByHand does what wordCount does.
func wordCountByHand(dir string) (uint64, error) {
	var t tally
	var counting sync.WaitGroup
	words := newLane[string]()
	counting.Go(func() { count(words, map[string]int64{}, &t) })
	err := scanAll(dir, words)
	close(words.full)
	counting.Wait()
	return t.check, err
}

func count(words lane[string], counts map[string]int64, t *tally) {
	for some := range words.full {
		for _, word := range some {
			n := counts[word] + 1
			counts[word] = n
			t.add(gist(word), n)
		}
		words.free <- some[:0]
	}
}

// scanAll sends the words of all files.
func scanAll(dir string, words lane[string]) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	open := <-words.free
	for _, f := range files {
		if open, err = scan(filepath.Join(dir, f.Name()), words, open); err != nil {
			return err
		}
	}
	words.full <- open
	return nil
}

func scan(name string, words lane[string], open []string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		for word := range split(lines.Text()) {
			if open = append(open, word); len(open) == sliceLen {
				words.full <- open
				open = <-words.free
			}
		}
	}
	return open, lines.Err()
}

// split yields the words of a line.
func split(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(line); i++ {
			from := i
			for i < len(line) && letter(line[i]) {
				i++
			}
			if from < i && !yield(line[from:i]) {
				return
			}
		}
	}
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// gist tells most words apart, fast.
func gist(word string) uint64 {
	n := len(word)
	return uint64(word[0]) | uint64(word[n/2])<<8 | uint64(word[n-1])<<16 | uint64(n)<<24
}

const (
	vocabulary   = 50_000 // words, some of them much more frequent than others
	wordsPerLine = 12
	wordsPerFile = 1 << 20
)

// writeText fills dir with a text of about so many words, and says how many they
// are. A long one is several links to one file.
func writeText(dir string, about uint64) (words uint64, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return 0, err
	}
	words = min(about, wordsPerFile)
	first := filepath.Join(dir, "0000")
	if err := os.WriteFile(first, text(int(words)), 0o666); err != nil {
		return 0, err
	}
	files := about / words
	for i := uint64(1); i < files; i++ {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("%04d", i))); err != nil {
			return 0, err
		}
	}
	return files * words, nil
}

// text is so many words, the same each time.
func text(words int) (text []byte) {
	r := rand.New(rand.NewPCG(1, 2))
	frequent := rand.NewZipf(r, 1.1, 2, vocabulary-1)
	for i := range words {
		number := frequent.Uint64()
		for n := number*0x9e3779b97f4a7c15>>32 | number<<32; ; n /= 26 {
			if text = append(text, 'a'+byte(n%26)); n < 26*26*26*26 {
				break
			}
		}
		text = append(text, " \n"[min(1, (i+1)%wordsPerLine/(wordsPerLine-1))])
	}
	return text
}
