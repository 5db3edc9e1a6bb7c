// Package failure holds what a command can fail by, and which exit code each failure has.
package failure

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Usage returns a mistake in the command line. The command is nil if its help would be of no use.
func Usage(command *cobra.Command, err error) error { return &usageError{command, err} }

type usageError struct {
	command *cobra.Command
	err     error
}

func (e *usageError) Error() string {
	if e.command == nil {
		return e.err.Error()
	}
	return fmt.Sprintf("%s (see %s --help)", e.text(), e.command.CommandPath())
}

// text says of wrong arguments how the command is written, where cobra only counts them, or takes
// one for a command.
func (e *usageError) text() string {
	text, path := e.err.Error(), e.command.CommandPath()
	word, of, found := strings.Cut(strings.TrimPrefix(text, "unknown command "), " for ")
	switch {
	case found && of == strconv.Quote(path):
		text = word + " is not expected"
	case !strings.Contains(text, " arg(s)"):
		return text
	}
	if e.command.HasParent() {
		path = e.command.Parent().CommandPath() + " " + e.command.Use
	}
	return text + ": write " + path
}

func (e *usageError) Unwrap() error { return e.err }

// Refused has the violations because of which a command changed nothing.
type Refused struct{ Violations kinds.Errors }

func (e *Refused) Error() string {
	if len(e.Violations) == 1 {
		return "nothing was changed, because of the mistake above"
	}
	return fmt.Sprintf("nothing was changed, because of the %d mistakes above", len(e.Violations))
}

// Conflict reports that resources were changed by somebody else since they were read.
type Conflict struct {
	Text string
	Of   []Changed
}

// Changed is a resource that somebody else has changed.
type Changed struct {
	Group, Kind, Namespace, Name string
	How                          string // in words, with the resource
}

func (e *Conflict) Error() string { return e.Text }

// Invalid has the violations found by a command that only checks files.
type Invalid struct {
	Violations kinds.Errors
	Printed    bool // on standard output
}

func (e *Invalid) Error() string { return words.Counted(len(e.Violations), "mistake", "mistakes") }

// Lossy means that something would be lost, which was told, and that nothing may be.
type Lossy struct{ Count int }

func (e *Lossy) Error() string {
	return words.Counted(e.Count, "thing", "things") + " would be lost, and --strict lets nothing be"
}

// ErrDifferent means that the two sides of a comparison differ, which has been printed.
var ErrDifferent = errors.New("they differ")

// ErrTold means that a command has failed which is to say so by its exit code alone.
var ErrTold = errors.New("no")

// comparisonError means that a comparison failed.
type comparisonError struct{ err error }

func (e *comparisonError) Error() string { return e.err.Error() }

func (e *comparisonError) Unwrap() error { return e.err }

// OfComparison wraps the error of a failed comparison, and passes on the result of one.
func OfComparison(err error) error {
	if err == nil || errors.Is(err, ErrDifferent) {
		return err
	}
	return &comparisonError{err}
}

// Unreachable means that the server did not answer.
type Unreachable struct{ Text string }

func (e *Unreachable) Error() string { return e.Text }

// Denied means that the caller lacks permission.
type Denied struct{ Text string }

func (e *Denied) Error() string { return e.Text }

// NotOffered means that the server, an older one or not pgmesh's, lacks a feature.
type NotOffered struct{ Text string }

func (e *NotOffered) Error() string { return e.Text }

// Relay means that a relay lacks a feature, since it has no database.
type Relay struct{ Text string }

func (e *Relay) Error() string { return e.Text }

// IsRelay reports whether an error comes from a relay, which has no database to ask.
func IsRelay(err error) bool {
	_, is := errors.AsType[*Relay](err)
	return is
}

// IsNotTold reports whether the server cannot tell, being none that has that, or does not tell this caller.
func IsNotTold(err error) bool {
	_, others := errors.AsType[*NotOffered](err)
	_, denied := errors.AsType[*Denied](err)
	return others || denied || IsRelay(err)
}

// NotRun means that not enough proxies run a change.
type NotRun struct {
	Text    string
	Refused bool // they refuse it, in place of being late
}

func (e *NotRun) Error() string { return e.Text }

// Committed is what failed after a change was made.
type Committed struct {
	Change string // what stays, in words
	Err    error
}

func (e *Committed) Error() string { return e.Change + ": " + e.Err.Error() }

func (e *Committed) Unwrap() error { return e.Err }

// Several has several failures of one command.
type Several []error

func (e Several) Error() string { return errors.Join(e...).Error() }

// MistakesOf returns the violations of an error that have not been printed yet.
func MistakesOf(err error) kinds.Errors {
	if refused, ok := errors.AsType[*Refused](err); ok {
		return refused.Violations
	}
	if invalid, ok := errors.AsType[*Invalid](err); ok && !invalid.Printed {
		return invalid.Violations
	}
	return nil
}
