package weir

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/control"
	"github.com/weirstream/weir/internal/executor"
	"github.com/weirstream/weir/internal/jobmaster"
	"github.com/weirstream/weir/internal/run"
	"github.com/weirstream/weir/internal/snapshot"
)

// world is everything that a simulated job lives in: processes that run one step
// at a time, in an order drawn from a seed; a clock; a disk that fails, tears and
// forgets; a line between job master and worker that loses, delays and repeats.
// The same seed gives the same life, to the last step.
type world struct {
	rng     *rand.Rand
	now     time.Time
	disk    *filesystem.Memory
	calm    bool           // no more faults: the job is to come to its end
	rare    int            // how much rarer than usual faults are that nobody aims at
	hits    map[string]int // how often each fault was injected, by "kind point"
	trace   func(format string, args ...any)
	slow    bool // the disk takes its time now and then
	cancels bool // the job is to be cancelled some time, once
	// savepoints are the directories of those taken; they stay for ever.
	savepoints []string
	stopped    string // the URI of the one that the job was last stopped with
	anew       bool   // the next start is a new job from there
	*process
}

// process is what a kill ends.
type process struct {
	world  *world
	dead   bool
	loops  []*simLoop
	works  []*simWork
	at     *simWork // the work that is being done; nil while a loop is at its turn
	timers []simTimer
	lines  [2][]func() // messages under way, to the worker and to the master, in order
	late   []func()    // messages that have lost their place
	order  int         // of timers
	aim    aim
}

// aim is where a fault is wanted: at the nth time that a point is reached. What
// happens there is rare enough that chance would seldom hit it.
type aim struct {
	fault string // "kill" or "error"
	point string
	nth   int
}

type simLoop struct {
	name  string
	step  func() executor.Progress
	awake bool
}

// simWork is work beside the loops. Where the file system takes its time with it,
// others go on.
type simWork struct {
	name  string
	begun bool
	on    func() (struct{}, bool) // goes on with it; false: it is done
	pause func(struct{}) bool
	end   func() // unwinds what has begun
}

type simTimer struct {
	at    time.Time
	order int
	f     func()
	off   *bool
}

func newWorld(seed uint64, trace func(string, ...any)) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0), hits: map[string]int{}, trace: trace,
	}
	w.disk = filesystem.NewMemory()
	w.disk.Now = w.Now
	w.boot()
	return w
}

// boot starts a new process on the disk as it is.
func (w *world) boot() { w.process = &process{world: w} }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

// errKilled unwinds the stack of what was running when the process was killed.
var errKilled = errors.New("killed")

var errInjected = errors.New("injected")

// reach is a point where the process may be killed or an error may happen: once
// in so many times, 0 for never, or when it is aimed at.
func (w *world) reach(point string, kills, errs int) error {
	if w.dead {
		return errKilled
	}
	if w.calm {
		return nil
	}
	wanted := false
	if w.aim.point == point {
		w.aim.nth--
		wanted = w.aim.nth == 0
	}
	chance := func(fault string, n int) bool {
		return wanted && w.aim.fault == fault || n > 0 && w.chance(n*w.rare)
	}
	switch {
	case chance("kill", kills):
		w.hits["kill "+point]++
		w.trace("kill at %s", point)
		w.dead = true
		panic(errKilled)
	case chance("error", errs):
		w.hits["error "+point]++
		w.trace("error at %s", point)
		return fmt.Errorf("%w at %s", errInjected, point)
	}
	return nil
}

// Now implements executor.Executor.
func (w *world) Now() time.Time { return w.now }

// Reach implements executor.Executor.
func (w *world) Reach(point string) error { return w.reach(point, 400, 300) }

// After implements executor.Executor.
func (w *world) After(d time.Duration, f func()) func() {
	off := new(bool)
	p := w.process
	p.order++
	p.timers = append(p.timers, simTimer{w.now.Add(d), p.order, f, off})
	return func() { *off = true }
}

// Go implements executor.Executor.
func (w *world) Go(name string, work func()) {
	it := &simWork{name: name}
	it.on, it.end = iter.Pull(func(pause func(struct{}) bool) {
		it.pause = pause
		work()
	})
	w.works = append(w.works, it)
}

// Loop implements executor.Executor.
func (w *world) Loop(name string, step func() executor.Progress) func() {
	l := &simLoop{name, step, true}
	w.loops = append(w.loops, l)
	return func() { l.awake = true }
}

// tick does one thing, drawn from all that can be done. It returns false when
// there is nothing left to do.
func (w *world) tick() bool {
	var awake []*simLoop
	for _, l := range w.loops {
		if l.awake {
			awake = append(awake, l)
		}
	}
	n := len(awake) + len(w.works) + len(w.late)
	for _, l := range w.lines {
		n += min(1, len(l))
	}
	timers := len(w.timers) > 0
	if n == 0 && !timers {
		return false
	}
	if n == 0 || timers && !w.calm && w.chance(200) {
		w.fire()
		return true
	}
	w.now = w.now.Add(time.Duration(w.rng.IntN(200)) * time.Microsecond)
	switch i := w.rng.IntN(n); {
	case i < len(awake):
		w.step(awake[i])
	case i < len(awake)+len(w.works):
		w.work(w.works[i-len(awake)])
	case i < len(awake)+len(w.works)+len(w.late):
		i -= len(awake) + len(w.works)
		f := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		f()
	default:
		for k, l := range w.lines {
			if len(l) > 0 && (k == 1 || len(w.lines[1]) == 0 || w.chance(2)) {
				w.lines[k] = l[1:]
				l[0]()
				return true
			}
		}
	}
	return true
}

// work begins with a work, or goes on with one that has been waiting.
func (w *world) work(it *simWork) {
	if !it.begun {
		w.trace("work %s", it.name)
		w.reach("before "+it.name, 300, 0)
	}
	it.begun, w.at = true, it
	defer func() { w.at = nil }()
	if _, waits := it.on(); waits {
		return
	}
	w.works = slices.DeleteFunc(w.works, func(other *simWork) bool { return other == it })
	w.reach("after "+it.name, 300, 0)
}

func (w *world) step(l *simLoop) {
	l.awake = false
	switch l.step() {
	case executor.Worked:
		l.awake = true
	case executor.Closed:
		w.loops = slices.DeleteFunc(w.loops, func(other *simLoop) bool { return other == l })
	}
}

// fire lets the time pass until the next timer.
func (w *world) fire() {
	next := 0
	for i, t := range w.timers {
		if f := w.timers[next]; t.at.Before(f.at) || t.at.Equal(f.at) && t.order < f.order {
			next = i
		}
	}
	t := w.timers[next]
	w.timers = slices.Delete(w.timers, next, next+1)
	if *t.off {
		return
	}
	if t.at.After(w.now) {
		w.now = t.at
	}
	t.f()
}

// run does things until done says so. It returns false if the process was killed.
func (w *world) run(done func() bool) (alive bool, err error) {
	defer func() {
		if r := recover(); r != nil && r != any(errKilled) {
			panic(r)
		} else if w.dead {
			alive = false
		}
	}()
	for steps := 0; !done(); steps++ {
		if w.dead {
			return false, nil // somebody has recovered from being killed
		}
		if steps > 2_000_000 || !w.tick() {
			return true, fmt.Errorf("stuck after %d steps: %s", steps, w.process)
		}
	}
	return true, nil
}

// execute runs a job until it ends or the process is killed. That it fails is an
// error only when nothing is to blame for it. That it was cancelled always is.
func (w *world) execute(p *plan, env environment) (finished bool, err error) {
	defer w.end()
	var running *Running
	var failed error
	alive, err := w.run(func() bool { // starting can be struck as well
		if running == nil && failed == nil {
			running, failed = p.start(context.Background(), env)
		}
		if running != nil && w.chance(1000) {
			failed = w.savepoint(running)
		}
		if running != nil && !w.calm && w.chance(5000) {
			failed = w.stop(running)
		}
		if running != nil && w.cancels && !w.calm && w.chance(5000) {
			w.hits["cancel"]++
			w.cancels = false
			running.master.Cancel()
		}
		return failed != nil || running.over()
	})
	switch {
	case err != nil, !alive:
		return false, err
	case errors.Is(failed, errFinished):
		return true, nil
	case errors.Is(failed, run.ErrStopped): // and the process died before there was a new run
		w.anew = true
		return false, nil
	case errors.Is(failed, run.ErrCancelled):
		return false, failed
	case failed == nil:
		failed = running.Wait()
		w.anew = running.master.Outcome().Savepoint != ""
	}
	if err := w.verify(); err != nil {
		return false, err
	}
	if failed != nil {
		w.trace("failed: %v", failed)
		if w.calm || errors.Is(failed, ErrCancelled) {
			return false, failed
		}
	}
	return failed == nil && !w.anew, nil
}

// savepoint asks for a savepoint.
func (w *world) savepoint(r *Running) error {
	return w.ask(r, "savepoint", r.master.Request)
}

// stop asks for the end of the job, after which a new one is to go on from the
// savepoint.
func (w *world) stop(r *Running) error {
	return w.ask(r, "stop", func(place snapshot.Place, then func(jobmaster.Answer)) {
		r.master.Stop(place, false, func(a jobmaster.Answer) {
			if then(a); a.Err == nil {
				w.stopped = a.Dir
			}
		})
	})
}

func (w *world) ask(r *Running, what string, request func(snapshot.Place, func(jobmaster.Answer))) error {
	place, err := r.place("file:///points")
	if err != nil {
		return err
	}
	request(place, func(a jobmaster.Answer) {
		w.trace("%s %+v", what, a)
		if a.Err == nil {
			w.hits[what]++
		}
		if a.Dir != "" {
			w.savepoints = append(w.savepoints, place.(*snapshot.Savepoint).Path)
		}
	})
	return nil
}

// verify makes sure that every savepoint is still there, and whole.
func (w *world) verify() error {
	for _, at := range w.savepoints {
		cp, dir, err := snapshot.Load(w.disk, at)
		if err == nil {
			err = snapshot.Verify(context.Background(), snapshot.Origin{Files: w.disk, Dir: dir}, cp)
		}
		if err != nil {
			return fmt.Errorf("savepoint: %w", err)
		}
	}
	return nil
}

func (p *process) String() string {
	var s strings.Builder
	for _, l := range p.loops {
		fmt.Fprintf(&s, "\n  loop %s awake %v", l.name, l.awake)
	}
	for _, it := range p.works {
		fmt.Fprintf(&s, "\n  work %s", it.name)
	}
	return s.String()
}

// crash ends the process for good and says what of the disk survives it.
func (w *world) crash() {
	keep := func(c filesystem.Change) int { return c.Bytes } // kill -9: the machine lives on
	if w.chance(3) {                                         // the machine dies: what wasn't synced is there in part
		w.hits["crash of the machine"]++
		kept := map[bool]int{}
		keep = func(c filesystem.Change) int {
			n := w.rng.IntN(c.Bytes + 1)
			if kept[n > 0]++; 0 < n && n < c.Bytes {
				w.hits["crash tears"]++
			}
			return n
		}
		defer func() {
			if kept[true] > 0 && kept[false] > 0 {
				w.hits["crash reorders"]++ // what was done later may be there without what was done before
			}
		}()
	}
	w.disk.Crash(keep)
	w.boot()
}

// end ends the process, and unwinds what it was at.
func (w *world) end() {
	for w.dead = true; len(w.works) > 0; w.works = w.works[1:] {
		w.works[0].end()
	}
}

// wait is where the file system takes its time: the work that it is asked by stands
// still, and a loop does, with all the others.
func (w *world) wait(point string) {
	if !w.slow || w.calm || !w.chance(40) {
		return
	}
	w.hits["delay "+point]++
	if it := w.at; it != nil {
		w.trace("%s waits at %s", it.name, point)
		it.pause(struct{}{})
		return
	}
	w.now = w.now.Add(time.Duration(w.rng.IntN(500)) * time.Millisecond)
}

// files is the disk as the job sees it.
func (w *world) files() filesystem.FileSystem {
	p := w.process
	point := func(op, path string) string {
		for _, part := range []string{"_metadata", ".runs", "chk-", "out"} {
			if strings.Contains(path, part) {
				return op + " " + part
			}
		}
		return op
	}
	return &filesystem.Faulty{
		FileSystem: w.disk,
		Before: func(op, path string) error {
			if p.dead {
				return errKilled
			}
			if op == "lock" {
				return nil
			}
			if w.wait(point(op, path)); p.dead {
				return errKilled
			}
			err := w.reach("before "+point(op, path), 600, 500)
			if err != nil && op == "write" {
				return filesystem.Torn{Bytes: w.rng.IntN(64), Err: syscall.ENOSPC}
			}
			return err
		},
		After: func(op, path string) error {
			if p.dead {
				return errKilled
			}
			return w.reach("after "+point(op, path), 600, 0)
		},
	}
}

// send puts a message on the line. Messages that the protocol allows to be lost,
// late or doubled may be.
func (w *world) send(direction int, m any, deliver func()) {
	p := w.process
	arrive := func() {
		if !p.dead {
			w.trace("message %T", m)
			w.reach(fmt.Sprintf("%T", m), 400, 0)
			deliver()
		}
	}
	line := func(f func()) { p.lines[direction] = append(p.lines[direction], f) }
	late := func() { p.late = append(p.late, arrive) } // what comes behind may overtake it, and it overtakes nothing
	switch m.(type) {
	case control.Trigger, control.Ack, control.Decline, control.Complete, control.Abort, control.Request, control.Assign, control.Ended:
		if !w.calm {
			switch w.rng.IntN(30) {
			case 0:
				w.hits[fmt.Sprintf("lose %T", m)]++
				return
			case 1:
				w.hits[fmt.Sprintf("late %T", m)]++
				line(late)
				return
			case 2:
				w.hits[fmt.Sprintf("repeat %T", m)]++
				defer line(late)
			}
		}
	}
	line(arrive)
}
