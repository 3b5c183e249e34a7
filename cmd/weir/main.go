// Command weir looks after what jobs leave behind: it lists, shows, verifies and
// deletes their checkpoints and savepoints, without the jobs' code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"strings"

	"github.com/weirstream/weir/filesystem"
	"github.com/weirstream/weir/internal/snapshot"
)

const usage = `Usage:

  weir checkpoint list DIR       what runs and checkpoints there are in a checkpoint directory
  weir checkpoint inspect PATH   what a checkpoint holds; with -state, the values of one state
  weir checkpoint verify PATH    read all of a checkpoint, and name what is broken
  weir savepoint -d PATH         delete a savepoint, or a checkpoint that a job has left

DIR is what jobs have as execution.checkpointing.dir; PATH is the directory of a
checkpoint (.../chk-7) or of a savepoint, or the _metadata in it. Both are local paths or
file:// URIs. Each command explains itself with -h.

Exit codes: 0 all is well, 1 something is broken or missing, 2 a mistake in the arguments.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage says that the arguments are to blame.
var errUsage = errors.New("mistake in the arguments")

// run does what the arguments say, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "weir: %v\n", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

func dispatch(ctx context.Context, args []string, stdout io.Writer) error {
	commands := map[string]func(context.Context, []string, io.Writer) error{
		"checkpoint list": list, "checkpoint inspect": inspect, "checkpoint verify": verify, "savepoint": savepoint,
	}
	for words := 1; words <= min(2, len(args)); words++ {
		if do := commands[strings.Join(args[:words], " ")]; do != nil {
			return do(ctx, args[words:], stdout)
		}
	}
	if len(args) > 0 && isHelp(args[0]) || len(args) == 2 && args[0] == "checkpoint" && isHelp(args[1]) {
		fmt.Fprint(stdout, usage)
		return nil
	}
	return fmt.Errorf("%w: it is weir checkpoint list, inspect or verify, or weir savepoint; weir -h explains", errUsage)
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

// parse reads a command's flags and its one argument, wherever that stands.
func parse(flags *flag.FlagSet, args []string, what, about string, stdout io.Writer) (arg string, err error) {
	flags.SetOutput(io.Discard)
	var all []string
	for rest := args; ; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(stdout, "Usage: weir %s [options] %s\n\n%s\n", flags.Name(), what, about)
			flags.SetOutput(stdout)
			flags.PrintDefaults()
			return "", err
		} else if err != nil {
			return "", fmt.Errorf("%w: %w; weir %s -h explains", errUsage, err, flags.Name())
		}
		if flags.NArg() == 0 {
			break
		}
		all, rest = append(all, flags.Arg(0)), flags.Args()[1:]
	}
	if len(all) != 1 {
		return "", fmt.Errorf("%w: weir %s takes one %s, not %d", errUsage, flags.Name(), what, len(all))
	}
	return all[0], nil
}

// locate finds the file system of a path.
func locate(uri string) (filesystem.FileSystem, string, error) {
	files, at, err := filesystem.Set{"file": filesystem.Local{}}.Resolve(uri)
	if err != nil {
		err = fmt.Errorf("%w: %w", errUsage, err)
	}
	return files, at, err
}

// resolve finds the file system of a path that must exist.
func resolve(uri string) (filesystem.FileSystem, string, error) {
	files, at, err := locate(uri)
	if err != nil {
		return nil, "", err
	}
	if _, err = files.Stat(at); errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%w: there is no %s", errUsage, at)
	}
	return files, at, err
}

// load reads the metadata of the checkpoint at a path.
func load(uri string) (snapshot.Checkpoint, snapshot.Origin, error) {
	files, at, err := resolve(uri)
	if err != nil {
		return snapshot.Checkpoint{}, snapshot.Origin{}, err
	}
	cp, dir, err := snapshot.Load(files, at)
	if err != nil {
		return snapshot.Checkpoint{}, snapshot.Origin{}, err
	}
	var n uint64
	if _, err := fmt.Sscanf(path.Base(dir), "chk-%d", &n); err == nil && n != cp.Number {
		return cp, snapshot.Origin{}, fmt.Errorf("%s: %w: it says that it is checkpoint %d", dir, snapshot.ErrCorrupt, cp.Number)
	}
	return cp, snapshot.Origin{Files: files, Dir: dir}, nil
}
