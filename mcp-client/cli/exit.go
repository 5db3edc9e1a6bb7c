package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
)

const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnreachable = 4
	exitDenied      = 5
	exitInterrupted = 130 // what a shell reports of a program that SIGINT ended
	exitUnread      = 141 // the same of SIGPIPE
)

const exitCodesHelp = `Exit codes:
  0    done
  1    it failed, or something that was named does not exist
  2    the command line was not understood
  3    refused, because a resource is not valid; nothing was changed
  4    the server cannot be reached, did not answer in time, or cannot reach its database
  130  interrupted
  141  whoever read the output went away`

// usageError is a command line that was not understood. The command is nil where its help would not help.
type usageError struct {
	command *cobra.Command
	err     error
}

func (e *usageError) Error() string {
	if e.command == nil {
		return e.err.Error()
	}
	return fmt.Sprintf("%v (see %s --help)", e.err, e.command.CommandPath())
}

func (e *usageError) Unwrap() error { return e.err }

// refusedError is what is wrong with the resources of a command, which therefore did nothing.
type refusedError struct{ violations kinds.Errors }

func (e *refusedError) Error() string {
	if len(e.violations) == 1 {
		return "nothing was changed, because of the mistake above"
	}
	return fmt.Sprintf("nothing was changed, because of the %d mistakes above", len(e.violations))
}

// unreachableError is a server that gave no answer.
type unreachableError struct{ text string }

func (e *unreachableError) Error() string { return e.text }

// deniedError is what somebody may not do.
type deniedError struct{ text string }

func (e *deniedError) Error() string { return e.text }

// failuresError is several failures of one command.
type failuresError []error

func (e failuresError) Error() string { return errors.Join(e...).Error() }

// report writes the error, once, and returns the exit code that goes with it.
func (p *Program) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitUnread // as where the signal ends the program
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		for _, v := range refused.violations {
			fmt.Fprintln(p.Err, v.Error())
		}
	}
	var several failuresError
	if !errors.As(err, &several) {
		several = failuresError{err}
	}
	for _, e := range several {
		fmt.Fprintln(p.Err, "error:", e)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var (
		usage       *usageError
		refused     *refusedError
		unreachable *unreachableError
		denied      *deniedError
	)
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &refused):
		return exitRefused
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &denied):
		return exitDenied
	}
	return exitError
}
