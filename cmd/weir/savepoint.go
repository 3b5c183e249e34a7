package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"

	runs "github.com/weirstream/weir/internal/run"
)

func savepoint(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("savepoint", flag.ContinueOnError)
	dispose := flags.Bool("d", false, "delete it")
	flags.BoolVar(dispose, "dispose", false, "the same")
	uri, err := parse(flags, args, "PATH",
		"With -d, deletes a savepoint, or a checkpoint that a job has left: the files that its metadata\n"+
			"lists, the metadata, and the directory. What else is in there stays, and is named. A checkpoint of\n"+
			"a job that is running is refused. After an interruption it can be called again.", stdout)
	if err != nil {
		return err
	}
	if !*dispose {
		return fmt.Errorf("%w: weir savepoint deletes savepoints, with -d; they are taken by the program that runs the job", errUsage)
	}
	files, at, err := locate(uri)
	if err != nil {
		return err
	}
	if _, err := files.Stat(at); errors.Is(err, fs.ErrNotExist) {
		_, err = fmt.Fprintf(stdout, "there is nothing at %s\n", at)
		return err
	}
	left, err := runs.Dispose(ctx, files, at)
	if err != nil {
		return err
	}
	for _, name := range left {
		fmt.Fprintf(stdout, "left alone: %s\n", name)
	}
	_, err = fmt.Fprintf(stdout, "disposed of %s\n", at)
	return err
}
