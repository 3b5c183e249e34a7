package file

import (
	"fmt"
	"strconv"
	"strings"
)

// A Part is a file that has been written and not been committed: the committable
// of Sink.
type Part struct {
	Name string // in the output directory, with its dot
	Size int64
}

// A part says all that the name of a file says. While it isn't committed that is
//
//	.part-<job id>-<subtask>-<attempt>-<n>
//
// and afterwards, with the checkpoint that it belongs to,
//
//	part-<job id>-<checkpoint>-<subtask>-<attempt>-<n>
//
// where n counts the files of the attempt from 1. No two files ever have the same
// name, since no two attempts of a job have, and the id is the job's own.
type part struct {
	job        string
	checkpoint uint64 // 0 in hidden names
	subtask    int
	attempt    string
	n          uint64
}

func (p part) hidden() string {
	return fmt.Sprintf(".part-%s-%04d-%s-%05d", p.job, p.subtask, p.attempt, p.n)
}

func (p part) final() string {
	return fmt.Sprintf("part-%s-%08d-%04d-%s-%05d", p.job, p.checkpoint, p.subtask, p.attempt, p.n)
}

// parseHidden returns false for names that hidden doesn't give.
func parseHidden(name string) (part, bool) {
	f := strings.Split(name, "-")
	if len(f) != 5 || f[0] != ".part" {
		return part{}, false
	}
	p, ok := parse(f[1], "0", f[2], f[3], f[4])
	return p, ok && p.hidden() == name
}

// parseFinal returns false for names that final doesn't give.
func parseFinal(name string) (part, bool) {
	f := strings.Split(name, "-")
	if len(f) != 6 || f[0] != "part" {
		return part{}, false
	}
	p, ok := parse(f[1], f[2], f[3], f[4], f[5])
	return p, ok && p.final() == name
}

func parse(job, checkpoint, subtask, attempt, n string) (part, bool) {
	c, err1 := strconv.ParseUint(checkpoint, 10, 64)
	s, err2 := strconv.Atoi(subtask)
	m, err3 := strconv.ParseUint(n, 10, 64)
	return part{job, c, s, attempt, m}, job != "" && attempt != "" && err1 == nil && err2 == nil && err3 == nil
}
