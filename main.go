package weir

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/jobmaster"
)

// Main runs a job as a program: it adds the engine's options to the standard
// flag set, parses the command line, builds the job and runs it. It doesn't
// return.
//
// The program exits with 0 when the job has finished, with 1 when it has failed
// for good, and with 2, before any record is read, when there are mistakes in the
// command line, the configuration, or the job. A first SIGINT or SIGTERM suspends
// the job: it stops, keeps its checkpoints, and the program ends by that signal.
// A second one ends it at once.
//
// A program declares its own flags before Main and doesn't parse them itself. If
// it has taken one of the short names, the engine's option keeps its long one.
func Main(build func(*Job) error) {
	_, file, _, _ := runtime.Caller(1)
	os.Exit(program(build, file))
}

// options are the engine's flags.
type options struct {
	settings    []setting // of the flags that stand for one
	assignments assignments
	config      string
	info, json  bool
}

// A setting is what a flag sets.
type setting struct{ key, value, origin string }

// assignments collects repeated -D flags.
type assignments []string

func (a *assignments) String() string     { return strings.Join(*a, " ") }
func (a *assignments) Set(s string) error { *a = append(*a, s); return nil }

// An engineFlag is one of the engine's options, under its names.
type engineFlag struct {
	names []string
	value string // what the help calls its value
	usage string
	add   func(fs *flag.FlagSet, name, usage string)
}

func (o *options) flags() []engineFlag {
	return []engineFlag{
		{[]string{"s", "fromSavepoint"}, "PATH", "start from a checkpoint (its directory or its _metadata file), or, with \"latest\", resume the newest run of this job",
			sets(o, config.RecoveryPath, (*flag.FlagSet).Func)},
		{[]string{"n", "allowNonRestoredState"}, "", "start also if the checkpoint holds state that no operator asks for; that state is dropped",
			sets(o, config.IgnoreUnclaimedState, (*flag.FlagSet).BoolFunc)},
		{[]string{"claimMode"}, "MODE", "whether what the job starts from becomes a checkpoint of its own, to be deleted one day: CLAIM, or NO_CLAIM",
			sets(o, config.ClaimMode, (*flag.FlagSet).Func)},
		{[]string{"p", "parallelism"}, "N", "parallelism of operators that don't set their own",
			sets(o, config.Parallelism, (*flag.FlagSet).Func)},
		{[]string{"D"}, "KEY=VALUE", "set a configuration key, over the file and the job's code; may be repeated",
			func(fs *flag.FlagSet, name, usage string) { fs.Var(&o.assignments, name, usage) }},
		{[]string{"config"}, "FILE", "configuration file; without it $WEIR_CONF_DIR/config.yaml, if there is one",
			func(fs *flag.FlagSet, name, usage string) { fs.StringVar(&o.config, name, "", usage) }},
		{[]string{"info"}, "", "print the operators of the job and the tasks that they are chained into, and end: nothing is started",
			func(fs *flag.FlagSet, name, usage string) { fs.BoolVar(&o.info, name, false, usage) }},
		{[]string{"json", "infoJSON"}, "", "with -info: print JSON",
			func(fs *flag.FlagSet, name, usage string) { fs.BoolVar(&o.json, name, false, usage) }},
	}
}

// sets returns how to add a flag, with a value or without one, that stands for a
// setting. Its value is read as that of the setting.
func sets[T any](o *options, option config.Option[T], add func(fs *flag.FlagSet, name, usage string, set func(string) error)) func(fs *flag.FlagSet, name, usage string) {
	return func(fs *flag.FlagSet, name, usage string) {
		add(fs, name, usage, func(value string) error {
			o.settings = append(o.settings, setting{option.Key(), value, "-" + name})
			return nil
		})
	}
}

// register adds the flags to fs, where their names aren't taken, and returns
// them as they are called now.
func (o *options) register(fs *flag.FlagSet) (added []engineFlag, err error) {
	for _, f := range o.flags() {
		var free []string
		for _, name := range f.names {
			if fs.Lookup(name) == nil {
				f.add(fs, name, f.usage)
				free = append(free, name)
			}
		}
		if len(free) == 0 {
			err = errors.Join(err, fmt.Errorf("flag -%s is the engine's and the program declares it, too; give yours another name", f.names[len(f.names)-1]))
		}
		f.names = free
		added = append(added, f)
	}
	return added, err
}

// program is Main up to the exit code. The file is the one that calls Main.
func program(build func(*Job) error, file string) int {
	log := slog.New(stacked{slog.NewTextHandler(os.Stderr, nil), os.Stderr})
	env := production(log)
	var o options
	job, again, err := o.fromCommandLine(build, flag.CommandLine, os.Args[1:])
	if err == nil {
		err = job.checkPlaces(env.files)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, indent(err))
		return 2
	case o.info:
		return report(o.print(job, log))
	}
	ctx := untilSignal(log.With("job", job.name))
	run, err := job.start(ctx, env)
	if err == nil {
		err = run.attended(progressOn(os.Stderr, log))
	}
	var by interruption
	interrupted := errors.As(context.Cause(ctx), &by)
	if interrupted && run != nil && run.Status().State == jobmaster.Suspended.String() {
		fmt.Fprintln(os.Stderr, run.howToGoOn(func(from string) string { return started(file) + again(from) }))
	}
	switch {
	case errors.Is(err, errFinished):
		log.Info(err.Error())
		return 0
	case interrupted && errors.Is(err, ErrSuspended):
		return dieBy(syscall.Signal(by))
	case interrupted && errors.Is(err, context.Canceled): // before the job had begun
		return dieBy(syscall.Signal(by))
	}
	return report(err)
}

// print shows a job without starting it.
func (o *options) print(job *plan, log *slog.Logger) error {
	job.note(log)
	if o.json {
		return job.info().printJSON(os.Stdout)
	}
	return job.info().printText(os.Stdout)
}

// stacked is a log whose stacks come behind the line that they belong to, since
// they are lines themselves.
type stacked struct {
	slog.Handler
	to io.Writer
}

// Handle implements slog.Handler.
func (s stacked) Handle(ctx context.Context, r slog.Record) error {
	stack := ""
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "stack" {
			stack = a.Value.String()
		} else {
			line.AddAttrs(a)
		}
		return true
	})
	err := s.Handler.Handle(ctx, line)
	if stack != "" {
		fmt.Fprintln(s.to, strings.TrimSpace(stack))
	}
	return err
}

// WithAttrs implements slog.Handler.
func (s stacked) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stacked{s.Handler.WithAttrs(attrs), s.to}
}

// WithGroup implements slog.Handler.
func (s stacked) WithGroup(name string) slog.Handler {
	return stacked{s.Handler.WithGroup(name), s.to}
}

// An interruption is a signal that asks the program to end.
type interruption syscall.Signal

func (i interruption) Error() string { return syscall.Signal(i).String() }

// together is within which time signals are one: some send them to a process and
// then to its group, as timeout(1) does.
const together = 100 * time.Millisecond

// untilSignal returns a context that ends with the first SIGINT or SIGTERM, which
// is its cause. The second one ends the process.
func untilSignal(log *slog.Logger) context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := (<-signals).(syscall.Signal)
		log.Info("suspending the job; a second signal ends the program at once", "signal", first.String())
		end(interruption(first))
		for began := time.Now(); ; {
			second := (<-signals).(syscall.Signal)
			if time.Since(began) > together {
				os.Exit(dieBy(second))
			}
		}
	}()
	return ctx
}

// report says how a job has ended.
func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, indent(err))
	return 1
}

// dieBy ends the process by a signal, so that who waits for it sees that, and
// returns where a signal doesn't: process 1 isn't killed by its own, and none is
// by one that was ignored when it began.
func dieBy(sig syscall.Signal) int {
	signal.Reset(sig)
	if os.Getpid() != 1 && syscall.Kill(os.Getpid(), sig) == nil {
		time.Sleep(time.Second) // another thread may be the one that gets it
	}
	return 128 + int(sig)
}

// indent puts each of joined errors on a line of its own.
func indent(err error) string {
	return "weir: " + strings.ReplaceAll(err.Error(), "\n", "\nweir: ")
}

// fromCommandLine parses arguments, reads the configuration and builds the job,
// and reports all mistakes in any of these together. It also returns a function: the
// arguments with which the job goes on from somewhere.
func (o *options) fromCommandLine(build func(*Job) error, fs *flag.FlagSet, args []string) (job *plan, again func(from string) string, err error) {
	if fs.Parsed() {
		return nil, nil, errors.New("the program has parsed its flags before weir.Main, which then can't add the engine's: declare flags, don't call flag.Parse, and read their values in the function that builds the job")
	}
	added, taken := o.register(fs)
	wrong := parse(fs, args)
	if errors.Is(wrong, flag.ErrHelp) {
		help(os.Stdout, fs, added)
		return nil, nil, wrong
	}
	settings := config.Assignments(o.assignments)
	for _, set := range o.settings {
		settings.Set(set.key, set.value, set.origin)
	}
	if o.json && !o.info {
		wrong = errors.Join(wrong, errors.New("-json says how -info prints: give both"))
	}
	job, err = prepare(build, config.File(o.config), settings)
	if err = errors.Join(taken, wrong, err); err != nil {
		return nil, nil, err
	}
	return job, func(from string) string { return startingFrom(fs, args, added[0].names, from) }, nil
}

// parse parses all flags, also those behind a wrong one, and joins what is wrong.
func parse(fs *flag.FlagSet, args []string) (mistakes error) {
	fs.Init(fs.Name(), flag.ContinueOnError)
	fs.Usage = func() {} // said by the error, or by help
	fs.SetOutput(io.Discard)
	defer fs.SetOutput(os.Stderr)
	for {
		err := fs.Parse(args)
		switch {
		case err == nil:
			return mistakes
		case errors.Is(err, flag.ErrHelp):
			return err
		}
		mistakes = errors.Join(mistakes, err)
		rest := fs.Args()
		if len(rest) == len(args) {
			rest = rest[1:] // it is no flag at all
		}
		for len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			rest = rest[1:] // perhaps the value of an unknown flag
		}
		args = rest
	}
}

// help explains the flags, the program's own first.
func help(to io.Writer, fs *flag.FlagSet, engine []engineFlag) {
	ours := map[string]bool{}
	for _, f := range engine {
		for _, name := range f.names {
			ours[name] = true
		}
	}
	fmt.Fprintf(to, "Usage: %s [options]\n", filepath.Base(fs.Name()))
	first := true
	fs.VisitAll(func(f *flag.Flag) {
		if ours[f.Name] {
			return
		}
		if first {
			fmt.Fprintln(to, "\nThe job's own:")
			first = false
		}
		value, usage := flag.UnquoteUsage(f)
		line(to, []string{f.Name}, value, usage, f.DefValue)
	})
	fmt.Fprintln(to, "\nThe engine's:")
	for _, f := range engine {
		line(to, f.names, f.value, f.usage, "")
	}
	fmt.Fprintln(to, "\nKeys for -D and the configuration file are those of Flink; docs/configuration.md lists them.")
}

func line(to io.Writer, names []string, value, usage, otherwise string) {
	head := "  -" + strings.Join(names, ", -")
	if value != "" {
		head += " " + value
	}
	if otherwise != "" && otherwise != "0" && otherwise != "false" {
		usage += fmt.Sprintf(" (default %s)", otherwise)
	}
	fmt.Fprintf(to, "%s\n        %s\n", head, strings.ReplaceAll(usage, "\n", "\n        "))
}

// started is how this program was started: by go run, perhaps, which leaves none
// to start again.
func started(file string) string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case !ok || !strings.Contains(os.Args[0], string(filepath.Separator)+"go-build"):
		return quote(os.Args[0])
	case info.Path == "command-line-arguments":
		return "go run " + quote(file)
	}
	return "go run " + info.Path
}

// startingFrom returns the arguments, each behind a space, with the flag for what to start
// from, whose names are given, set to that, or left out where it is empty. What isn't a
// flag stays behind them.
func startingFrom(fs *flag.FlagSet, args, names []string, from string) string {
	line := []string{""}
	for len(args) > fs.NArg() && args[0] != "--" {
		n := 1
		name, value, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		if !joined && !isBool(fs.Lookup(name)) {
			value = args[1]
			n = 2
		}
		_, path := config.Given(config.Assignments([]string{value}), config.RecoveryPath)
		if !slices.Contains(names, name) && !(name == "D" && path) {
			line = append(line, args[:n]...)
		}
		args = args[n:]
	}
	if from != "" {
		line = append(line, "-"+names[0], from)
	}
	line = append(line, args...)
	for i, arg := range line[1:] {
		line[1+i] = quote(arg)
	}
	return strings.Join(line, " ")
}

// isBool reports whether a flag takes no value.
func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// quote makes an argument safe for a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]{}~#!") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
