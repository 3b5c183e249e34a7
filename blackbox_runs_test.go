package weir_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A place is where a wordcount job works: its input, its output and its
// checkpoint directory.
type place struct {
	*testing.T
	in, out, checkpoints string
	args                 []string // with which it is started
}

// newPlace writes some text to count.
func newPlace(t *testing.T, lines int) *place {
	t.Helper()
	root := t.TempDir()
	p := &place{T: t, in: root + "/in", out: root + "/out", checkpoints: root + "/checkpoints"}
	p.args = []string{"-input", p.in, "-output", p.out, "-D", "execution.checkpointing.dir=file://" + p.checkpoints, "-D", "execution.checkpointing.interval=20ms"}
	write(t, p.in, lines)
	return p
}

// write writes text: words of which some are frequent and most are rare, in
// files of a hundred lines.
func write(t *testing.T, dir string, lines int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 0))
	for file := 0; file*100 < lines; file++ {
		var text strings.Builder
		for range min(100, lines-file*100) {
			for range 1 + rnd.IntN(8) {
				fmt.Fprintf(&text, "%c%c ", 'a'+int(26*rnd.Float64()*rnd.Float64()), 'A'+int(26*rnd.Float64()*rnd.Float64()*rnd.Float64()))
			}
			text.WriteString(";\n")
		}
		path := filepath.Join(dir, fmt.Sprintf("%02d", file/10), fmt.Sprintf("%d.txt", file))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// start starts the job, with further arguments.
func (p *place) start(args ...string) *process {
	p.Helper()
	return start(p.T, wordcount(p.T), slices.Concat(p.args, args)...)
}

// slowly starts the job so that it goes on for a minute, and waits until it has a
// new checkpoint and new output.
func (p *place) slowly(args ...string) *process {
	p.Helper()
	before, output := map[string]int{}, len(p.finals())
	for _, id := range p.ids() {
		before[id] = last(p.complete(id))
	}
	job := p.start(append(args, "-rate", strconv.Itoa(countLines(p.T, p.in)/60))...)
	job.until("a checkpoint with output", func() bool {
		newer := func(id string) bool { return last(p.complete(id)) > before[id] }
		return len(p.finals()) > output && slices.ContainsFunc(p.ids(), newer)
	})
	return job
}

// killed runs the job slowly, and kills it.
func (p *place) killed(args ...string) {
	p.Helper()
	p.slowly(args...).kill()
}

// mustBeWhole checks the output of a job that has ended.
func (p *place) mustBeWhole() {
	p.Helper()
	newLedger(p.out).mustBeWhole(p.T, occurrences(p.T, p.in))
}

// list returns the names of what is in a directory, none if it isn't there.
func (p *place) list(dir, pattern string) (names []string) {
	p.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		p.Fatal(err)
	}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

func (p *place) finals() []string { return p.list(p.out, "part-*") }

// ids returns the ids of jobs that have a directory.
func (p *place) ids() []string {
	return p.list(p.checkpoints, strings.Repeat("[0-9a-f]", 32))
}

// id is ids, where there is one.
func (p *place) id() string {
	p.Helper()
	ids := p.ids()
	if len(ids) != 1 {
		p.Fatalf("want the directory of one job: %v", ids)
	}
	return ids[0]
}

// complete returns the numbers of a job's complete checkpoints, lowest first.
func (p *place) complete(id string) (numbers []int) {
	p.Helper()
	for _, name := range p.list(p.checkpoints+"/"+id, "chk-*") {
		if _, err := os.Stat(filepath.Join(p.checkpoints, id, name, "_metadata")); err == nil {
			n, err := strconv.Atoi(strings.TrimPrefix(name, "chk-"))
			if err != nil {
				p.Fatal(err)
			}
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

func (p *place) chk(id string, n int) string {
	return filepath.Join(p.checkpoints, id, fmt.Sprintf("chk-%d", n))
}

func last(numbers []int) int {
	if len(numbers) == 0 {
		return 0
	}
	return numbers[len(numbers)-1]
}

// retain keeps several checkpoints, each in files of its own.
var retain = []string{"-D", "execution.checkpointing.num-retained=3", "-D", "execution.checkpointing.data-inline-threshold=0"}

// retained runs a job until it has three checkpoints and output that is newer than
// the oldest of these, kills it, and returns its id.
func (p *place) retained() string {
	p.Helper()
	enough := func() bool {
		numbers := p.complete(p.id())
		return len(numbers) >= 3 && len(p.newer(p.id(), numbers[0])) > 0
	}
	for range 20 {
		job := p.slowly(append(retain, "-s", "latest")...)
		job.until("three checkpoints", enough)
		if job.kill(); enough() { // it was at work until then
			return p.id()
		}
	}
	p.Fatal("no three checkpoints")
	return ""
}

// newer lists the final files that came after a checkpoint.
func (p *place) newer(id string, n int) []string {
	return slices.DeleteFunc(p.list(p.out, "part-"+id+"-*"), func(name string) bool { return name < fmt.Sprintf("part-%s-%08d", id, n+1) })
}

func TestLatestOfNoneBeginsLoudly(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 300)
	p.start("-s", "latest").exits(0).logs("WARN", "beginning", "wordcount")
	p.mustBeWhole()
}

func TestFinishedJobIsNotRunAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 300)
	p.start("-p", "2").exits(0)
	p.mustBeWhole()
	before := p.finals()
	p.start("-s", "latest", "-p", "3").exits(0).logs("finished")
	if after := p.finals(); !slices.Equal(before, after) {
		t.Errorf("final files were %v, are %v", before, after)
	}
	// Its end is on record, and nothing but that is left.
	if left := p.ids(); len(left) > 0 {
		t.Error("checkpoints of a finished job:", left)
	}
	if records := p.list(p.checkpoints+"/.runs", "*"); len(records) != 1 {
		t.Error("records of runs:", records)
	}
}

func TestLiveJobIsNotResumed(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	job := p.slowly()
	before := last(p.complete(p.id()))
	p.start("-s", "latest").exits(1).logs("weir: resume run "+p.id(), "alive")
	job.until("another checkpoint", func() bool { return last(p.complete(p.id())) > before })
	job.signal(syscall.SIGTERM)
	job.dies(syscall.SIGTERM)
	p.start("-s", "latest").exits(0)
	p.mustBeWhole()
}

func TestUnreadableRecordIsNotTakenForNone(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	p.killed()
	records := p.list(p.checkpoints+"/.runs", "*")
	if len(records) != 1 {
		t.Fatal(records)
	}
	record := filepath.Join(p.checkpoints, ".runs", records[0])
	content, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, content[:len(content)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	p.start("-s", "latest").exits(1).logs(record, "damaged")
	p.id() // no other job has begun
	if err := os.WriteFile(record, content, 0o666); err != nil {
		t.Fatal(err)
	}
	p.start("-s", "latest").exits(0)
	p.mustBeWhole()
}

// S47: two jobs share a checkpoint directory and an output directory.
func TestJobsAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 1000)
	p.killed("-D", "pipeline.name=one")
	one := p.id()
	p.killed("-D", "pipeline.name=two", "-s", "latest")
	ids := p.ids()
	if len(ids) != 2 {
		t.Fatal("the second job took the first one's run:", ids)
	}
	p.start("-D", "pipeline.name=one", "-s", "latest").exits(0).logs(one)
	absent(t, filepath.Join(p.checkpoints, one))
	p.start("-D", "pipeline.name=two", "-s", "latest").exits(0)
	for _, id := range ids {
		l := newLedger(p.out)
		l.prefix = "part-" + id
		l.mustBeWhole(t, occurrences(t, p.in))
	}
}

func TestSecondLiveJobOnOneOutputIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	job := p.slowly()
	p.start("-D", "pipeline.name=other").exits(1).logs(p.out, "another job")
	job.signal(syscall.SIGTERM)
	job.dies(syscall.SIGTERM)
	p.start("-s", "latest").exits(0)
	p.mustBeWhole()
}

// A second start that is refused, by mistake made, must not stand between the
// first job and its resumption.
func TestRefusedStartIsNotTheLatestRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	job := p.slowly()
	id := p.id()
	p.start().exits(1).logs(p.out, "another job")
	job.kill()
	if p.id() != id {
		t.Error("the refused start has left its directory")
	}
	p.start("-s", "latest").exits(0).logs(id)
	p.mustBeWhole()
}

func TestLatestIsTheRunThatBeganLast(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	first := p.slowly()
	old := p.id()
	first.until("its fifth checkpoint", func() bool { return last(p.complete(old)) >= 5 })
	first.kill()
	before := p.complete(old)
	p.killed() // a new run
	p.start("-s", "latest").exits(0)
	if after := p.complete(old); p.id() != old || !slices.Equal(before, after) {
		t.Errorf("the older run went on: checkpoints were %v, are %v", before, after)
	}
}

func TestResumedJobKeepsItsIDAndItsDirectory(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	p.killed()
	id, highest := p.id(), last(p.complete(p.id()))
	for _, degree := range []string{"3", "1", "4"} {
		p.killed("-s", "latest", "-p", degree)
		now := last(p.complete(p.id()))
		if p.id() != id || now <= highest {
			t.Fatalf("job %s, checkpoint %d; was %s, %d", p.id(), now, id, highest)
		}
		highest = now
	}
	p.start("-s", "latest", "-p", "2").exits(0).logs(id, "end=killed", fmt.Sprintf("chk-%d", highest))
	p.mustBeWhole()
}

// damage flips a bit in the largest file of a checkpoint.
func damage(t *testing.T, chk string) {
	t.Helper()
	files, err := os.ReadDir(chk)
	if err != nil || len(files) == 0 {
		t.Fatal(chk, files, err)
	}
	size := func(e os.DirEntry) int64 {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	largest := slices.MaxFunc(files, func(a, b os.DirEntry) int { return int(size(a) - size(b)) })
	path := filepath.Join(chk, largest.Name())
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 4
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedCheckpointIsPassedOverLoudly(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	id := p.retained()
	numbers := p.complete(id)
	newest, before := last(numbers), numbers[len(numbers)-2]
	damage(t, p.chk(id, newest))

	p.start("-s", "latest", "-D", "execution.checkpointing.recovery.fallback=false").exits(1).
		logs(fmt.Sprintf("chk-%d", newest))
	if now := p.complete(id); last(now) != newest {
		t.Fatalf("the failed start has changed the checkpoints: %v", now)
	}
	job := p.slowly(append(retain, "-s", "latest")...)
	job.logs("ERROR", fmt.Sprintf("chk-%d", newest), fmt.Sprintf("chk-%d", before))
	job.until("a checkpoint above the damaged one", func() bool { return last(p.complete(id)) > newest })
}

func TestPathStartsANewJob(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "/_metadata"} {
		p := newPlace(t, 3000)
		old := p.retained()
		numbers := p.complete(old)
		from := numbers[0]
		newer, before := p.newer(old, from), len(p.finals())

		job := p.start("-s", p.chk(old, from)+file, "-rate", "100")
		job.until("output of its own", func() bool { return len(p.ids()) == 2 && len(p.finals()) > before })
		job.kill()
		job.logs(append(newer, p.chk(old, from))...)
		ids := slices.DeleteFunc(p.ids(), func(id string) bool { return id == old })
		if n := p.complete(ids[0]); len(n) == 0 || n[0] <= from {
			t.Errorf("started from checkpoint %d, and has %v", from, n)
		}
		if now := p.complete(old); !slices.Equal(now, numbers) {
			t.Errorf("the checkpoints of the old job were %v, are %v", numbers, now)
		}
		// It is the newest run now, and whoever counts from a path counts on from there.
		p.start("-s", "latest").exits(0).logs(ids[0])
		if p.id() != old {
			t.Error("the old job was resumed")
		}
	}
}

// A job that was started from a path and killed before its first checkpoint goes
// on from that path, also in another working directory.
func TestRunWithoutACheckpointGoesOnFromWhereItCame(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	p.killed()
	old := p.id()
	newest := p.chk(old, last(p.complete(old)))
	args := p.args
	p.args = append(args[:len(args)-1:len(args)-1], "execution.checkpointing.interval=1h")
	job := start(t, "sh", slices.Concat([]string{"-c", `cd "$0" && exec "$@"`, filepath.Dir(newest), wordcount(t)},
		p.args, []string{"-s", filepath.Base(newest), "-rate", "100"})...)
	job.until("its run", func() bool { return len(p.ids()) == 2 })
	job.kill()
	p.args = args
	p.start("-s", "latest").exits(0).logs(newest)
	p.mustBeWhole()
}

func TestWrongPathIsSaid(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	p.killed()
	finals, ids := p.finals(), p.ids()
	nothing := t.TempDir()
	for _, path := range []string{nothing, nothing + "/chk-7", p.in + "/00/0.txt", p.checkpoints} {
		p.start("-s", path).exits(2).logs(path)
	}
	if !slices.Equal(finals, p.finals()) || !slices.Equal(ids, p.ids()) {
		t.Errorf("a job that couldn't start has left something: %v, %v", p.finals(), p.ids())
	}
}

// command returns the command line that a suspended job says it goes on with, from
// somewhere.
func command(p *process, from string) string {
	p.Helper()
	for line := range strings.Lines(p.log.String()) {
		if at := strings.Index(line, wordcount(p.T)); at >= 0 && strings.Contains(line, "-s "+from) {
			return line[at:]
		}
	}
	p.fatal("doesn't say with which command it goes on")
	return ""
}

func TestSuspendedJobSaysHowItGoesOn(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := newPlace(t, 3000)
		p.out += " of 'mine'" // it must survive a shell
		p.args[3] = p.out
		job := p.slowly("-s", "latest", "-p", "2")
		began := time.Now()
		job.signal(sig)
		job.cmd.Process.Signal(sig) // as timeout(1) does it; it may be gone already
		job.dies(sig)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("suspended in %v", took)
		}
		newest := p.complete(p.id())
		job.logs(p.chk(p.id(), last(newest)))
		line := strings.Replace(command(job, "latest"), "-rate 50", "-rate 100000", 1)
		if !strings.Contains(line, "-p 2") || strings.Count(line, "-s latest") != 1 {
			job.fatal("says %q", line)
		}
		id := p.id()
		resumed := start(t, "sh", "-c", line).exits(0)
		resumed.logs(id)
		p.mustBeWhole()
	}
}

// "latest" would mean the run that has begun since, which has nothing left to do.
func TestSuspendedJobBesideALaterOneNamesItsOwnCheckpoint(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	p.killed()
	old := p.id()
	job := p.slowly("-D", "execution.savepoint.path="+p.chk(old, last(p.complete(old)))) // the older name of -s
	id := slices.DeleteFunc(p.ids(), func(id string) bool { return id == old })[0]
	p.args[3] = t.TempDir()
	p.start().exits(0)
	job.signal(syscall.SIGINT)
	job.dies(syscall.SIGINT)
	chk := p.chk(id, last(p.complete(id)))
	line := strings.Replace(command(job, "file://"+chk), "-rate 50", "-rate 100000", 1)
	start(t, "sh", "-c", line).exits(0).logs(chk)
	p.mustBeWhole()
}

func TestMostFrequentWordsArePrinted(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 1000)
	p.args = append(p.args[:2], p.args[4:]...) // no -output
	want := mostFrequent(t, p.in)
	if got := p.start("-p", "3").exits(0).out.String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	// Without checkpoints, too, and of a single file.
	file := p.in + "/00/0.txt"
	if got := start(t, wordcount(t), "-input", file).exits(0).out.String(); got != mostFrequent(t, file) {
		t.Errorf("got\n%s, want\n%s", got, mostFrequent(t, file))
	}
	// And after a change of parallelism in the middle.
	p = newPlace(t, 1000)
	p.args = append(p.args[:2], p.args[4:]...)
	for _, degree := range []string{"4", "1", "3"} {
		job := p.start("-s", "latest", "-p", degree, "-rate", "50")
		before := -1
		job.until("two checkpoints", func() bool {
			if ids := p.ids(); len(ids) > 0 {
				if now := last(p.complete(ids[0])); before < 0 {
					before = now
				} else if now >= before+2 {
					return true
				}
			}
			return false
		})
		job.kill()
		if out := job.out.String(); out != "" {
			job.fatal("printed before the end")
		}
	}
	if got := p.start("-s", "latest", "-p", "2").exits(0).out.String(); got != want {
		t.Errorf("after three kills: got\n%s, want\n%s", got, want)
	}
}

func TestInputIsWhatIsBelowItsRootEvenBehindALink(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 300)
	elsewhere := newPlace(t, 100).in
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Symlink(p.in, link), os.Symlink(elsewhere, p.in+"/link"), os.WriteFile(p.in+"/empty", nil, 0o666),
		os.WriteFile(p.in+"/endless", []byte("no end"), 0o666), syscall.Mkfifo(p.in+"/pipe", 0o666)); err != nil {
		t.Fatal(err)
	}
	p.in, p.args[1] = link, link
	p.start("-p", "2").exits(0)
	p.mustBeWhole()
}

func TestRateIsThatOfAllReadersTogether(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 4000)
	wordcount(t) // building it takes time, too
	began := time.Now()
	p.start("-rate", "4000", "-p", "4").exits(0)
	if took := time.Since(began); took < 900*time.Millisecond { // 1000, less what may come at once
		t.Errorf("4000 lines at 4000 in a second took %v", took)
	}
	p.mustBeWhole()
}

func TestStateWithoutAnOperatorIsRefusedUnlessThatIsAllowed(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 1000)
	output := p.args
	p.args = slices.Concat(output[:2], output[4:]) // it prints, by operators that a job with output lacks
	job := p.start("-rate", "100")
	job.until("a checkpoint", func() bool { return len(p.ids()) == 1 && len(p.complete(p.id())) > 0 })
	job.kill()
	from := p.chk(p.id(), last(p.complete(p.id())))
	p.args = output
	p.start("-s", from).exits(1).logs(`"top of each"`, from, "-n (-allowNonRestoredState)")
	if finals := p.finals(); len(finals) > 0 {
		t.Error("output of a job that couldn't start:", finals)
	}
	p.start("-s", from, "-n").exits(0).logs("WARN", "dropped")
}

// A run that has claimed a checkpoint is killed before it has one of its own. The next
// process goes on from the claimed one, which goes with the job's checkpoints when it
// has finished. What else there is of the old run stays.
func TestClaimOutlivesAKill(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3000)
	p.killed("-s", "latest")
	old := p.id()
	kept := p.complete(old) // one, or the one before it, too
	from := p.chk(old, last(kept))
	often := slices.Clone(p.args)
	p.args[len(p.args)-1] = "execution.checkpointing.interval=1h"
	job := p.start("-s", from, "-claimMode", "CLAIM", "-rate", "50")
	job.logs("owns the snapshot", "the job starts from a checkpoint", from)
	job.kill()
	if now := p.complete(old); !slices.Equal(now, kept) {
		t.Errorf("of the checkpoints %v of the old run there are %v", kept, now)
	}
	p.args = often
	p.start("-s", "latest", "-claimMode", "CLAIM").exits(0).logs("resuming", from)
	absent(t, from)
	p.mustBeWhole()
	if ids := p.ids(); !slices.Equal(ids, []string{old}) {
		t.Errorf("there are the directories of %q, not only of %s", ids, old)
	}
}
