package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/weirstream/weir/internal/snapshot"
)

func verify(ctx context.Context, args []string, stdout io.Writer) error {
	at, err := parse(flag.NewFlagSet("checkpoint verify", flag.ContinueOnError), args, "PATH",
		"Reads every file of a checkpoint, every block and entry of its tables, and sees whether\n"+
			"checksums match and the key groups are all there. What is broken is named, and exit code 1.", stdout)
	if err != nil {
		return err
	}
	cp, from, err := load(at)
	if err != nil {
		return err
	}
	if wrong := snapshot.Examine(ctx, from, cp); len(wrong) > 0 {
		return fmt.Errorf("checkpoint %d of job %q is broken:\n%w", cp.Number, cp.JobName, errors.Join(wrong...))
	}
	_, err = fmt.Fprintf(stdout, "checkpoint %d of job %q is whole: %d operators, %d bytes of state\n",
		cp.Number, cp.JobName, len(cp.Operators), cp.Bytes())
	return err
}
