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
	exitNotCompared = 6
	exitInterrupted = 130 // what a shell reports of a program that SIGINT ended
	exitUnread      = 141 // the same of SIGPIPE
)

const exitCodesHelp = `Exit codes:
  0    done
  1    it failed, or something that was named does not exist; of diff and compare: there are differences
  2    the command line was not understood
  3    refused, because a resource is not valid, or was changed by somebody else; nothing was changed
  4    the server cannot be reached, did not answer in time, or cannot reach its database
  5    the server does not let this caller do it
  6    of diff and compare: it failed
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

// invalidError is what is wrong with files that were only looked at.
type invalidError struct {
	violations kinds.Errors
	printed    bool // already, on standard output
}

func (e *invalidError) Error() string { return counted(len(e.violations), "mistake", "mistakes") }

// differentError says that the two sides of a comparison differ, which was printed.
type differentError struct{}

func (differentError) Error() string { return "they differ" }

// comparisonError is a comparison that could not be made.
type comparisonError struct{ err error }

func (e *comparisonError) Error() string { return e.err.Error() }

func (e *comparisonError) Unwrap() error { return e.err }

// compared tells the failure of a comparison from its answer.
func compared(err error) error {
	if err == nil || errors.Is(err, differentError{}) {
		return err
	}
	return &comparisonError{err}
}

// unreachableError is a server that gave no answer.
type unreachableError struct{ text string }

func (e *unreachableError) Error() string { return e.text }

// deniedError is what somebody may not do.
type deniedError struct{ text string }

func (e *deniedError) Error() string { return e.text }

// notOfferedError is what a server of others, or an older one, does not have.
type notOfferedError struct{ text string }

func (e *notOfferedError) Error() string { return e.text }

// relayError is what a relay does not do, which has no database.
type relayError struct{ text string }

func (e *relayError) Error() string { return e.text }

// isRelay reports whether a server refuses something because it is a relay of an older release. Relays of this release report their status.
func isRelay(err error) bool {
	_, is := errors.AsType[*relayError](err)
	return is
}

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
	if errors.Is(err, differentError{}) {
		return exitError
	}
	for _, v := range mistakesOf(err) {
		fmt.Fprintln(p.Err, v.Error())
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

// mistakesOf lists what is still to be told.
func mistakesOf(err error) kinds.Errors {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.violations
	}
	if invalid, ok := errors.AsType[*invalidError](err); ok && !invalid.printed {
		return invalid.violations
	}
	return nil
}

func exitCode(err error) int {
	var (
		usage       *usageError
		refused     *refusedError
		invalid     *invalidError
		conflict    *conflictError
		unreachable *unreachableError
		denied      *deniedError
		comparison  *comparisonError
	)
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &refused), errors.As(err, &invalid), errors.As(err, &conflict):
		return exitRefused
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &denied):
		return exitDenied
	case errors.As(err, &comparison):
		return exitNotCompared
	}
	return exitError
}
