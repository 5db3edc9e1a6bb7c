package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	exitInterrupted = 130 // the shells' code for a program ended by SIGINT
	exitUnread      = 141 // the same for SIGPIPE
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

// usage returns a mistake in the command line. The command is nil if its help would be of no use.
func usage(command *cobra.Command, err error) error { return &usageError{command, err} }

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

// refusedError has the violations because of which a command changed nothing.
type refusedError struct{ violations kinds.Errors }

func (e *refusedError) Error() string {
	if len(e.violations) == 1 {
		return "nothing was changed, because of the mistake above"
	}
	return fmt.Sprintf("nothing was changed, because of the %d mistakes above", len(e.violations))
}

// invalidError has the violations found by a command that only checks files.
type invalidError struct {
	violations kinds.Errors
	printed    bool // on standard output
}

func (e *invalidError) Error() string { return counted(len(e.violations), "mistake", "mistakes") }

// errDifferent means that the two sides of a comparison differ, which has been printed.
var errDifferent = errors.New("they differ")

// comparisonError means that a comparison failed.
type comparisonError struct{ err error }

func (e *comparisonError) Error() string { return e.err.Error() }

func (e *comparisonError) Unwrap() error { return e.err }

// compared wraps the error of a failed comparison, and passes on the result of one.
func compared(err error) error {
	if err == nil || errors.Is(err, errDifferent) {
		return err
	}
	return &comparisonError{err}
}

// unreachableError means that the server did not answer.
type unreachableError struct{ text string }

func (e *unreachableError) Error() string { return e.text }

// deniedError means that the caller lacks permission.
type deniedError struct{ text string }

func (e *deniedError) Error() string { return e.text }

// notOfferedError means that the server, an older one or not pgmesh's, lacks a feature.
type notOfferedError struct{ text string }

func (e *notOfferedError) Error() string { return e.text }

// relayError means that a relay lacks a feature, since it has no database.
type relayError struct{ text string }

func (e *relayError) Error() string { return e.text }

// isRelay reports whether an error comes from a relay of an older release. Relays of this release report
// their status.
func isRelay(err error) bool {
	_, is := errors.AsType[*relayError](err)
	return is
}

// failuresError has several failures of one command.
type failuresError []error

func (e failuresError) Error() string { return errors.Join(e...).Error() }

// report writes an error once and returns its exit code.
func report(ctx context.Context, out io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitUnread // as if SIGPIPE had ended the program
	}
	if errors.Is(err, errDifferent) {
		return exitError
	}
	for _, v := range mistakesOf(err) {
		fmt.Fprintln(out, v.Error())
	}
	var several failuresError
	if !errors.As(err, &several) {
		several = failuresError{err}
	}
	for _, e := range several {
		fmt.Fprintln(out, "error:", e)
	}
	return exitCode(err)
}

// mistakesOf returns the violations of an error that have not been printed yet.
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
		misused     *usageError
		refused     *refusedError
		invalid     *invalidError
		conflict    *conflictError
		unreachable *unreachableError
		denied      *deniedError
		comparison  *comparisonError
	)
	switch {
	case errors.As(err, &misused):
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
