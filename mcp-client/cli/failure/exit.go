package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnreachable = 4
	exitDenied      = 5
	exitNotCompared = 6
	exitNotTaken    = 7
	exitLate        = 8
	exitInterrupted = 130 // the shells' code for a program ended by SIGINT
	exitUnread      = 141 // the same for SIGPIPE
)

// ExitCodes tells people of the codes.
const ExitCodes = `Exit codes:
  0    done
  1    it failed, or something that was named does not exist; of diff and compare: there are differences
  2    the command line was not understood
  3    refused, because a resource is not valid, or was changed by somebody else, or something would be lost; nothing was changed
  4    the server cannot be reached, did not answer in time, or cannot reach its database
  5    the server does not let this caller do it
  6    of diff and compare: it failed
  7    of --wait: the change is committed, and so many proxies refuse it that the rest is not enough; of rollout status: some refuse it
  8    of --wait: the change is committed, and not enough proxies ran it in time; of rollout status: some have not answered yet
  130  interrupted
  141  whoever read the output went away`

// Report writes an error once and returns its exit code.
func Report(ctx context.Context, out io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitUnread // as if SIGPIPE had ended the program
	}
	if errors.Is(err, ErrDifferent) || errors.Is(err, ErrTold) {
		return exitError
	}
	for _, v := range MistakesOf(err) {
		fmt.Fprintln(out, v.Error())
	}
	var several Several
	if !errors.As(err, &several) {
		several = Several{err}
	}
	for _, e := range several {
		fmt.Fprintln(out, "error:", e)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var (
		misused     *usageError
		refused     *Refused
		invalid     *Invalid
		conflict    *Conflict
		lossy       *Lossy
		unreachable *Unreachable
		denied      *Denied
		comparison  *comparisonError
		notRun      *NotRun
	)
	switch {
	case errors.As(err, &misused):
		return exitUsage
	case errors.As(err, &refused), errors.As(err, &invalid), errors.As(err, &conflict), errors.As(err, &lossy):
		return exitRefused
	case errors.As(err, &unreachable):
		return exitUnreachable
	case errors.As(err, &denied):
		return exitDenied
	case errors.As(err, &comparison):
		return exitNotCompared
	case errors.As(err, &notRun) && notRun.Refused:
		return exitNotTaken
	case errors.As(err, &notRun):
		return exitLate
	}
	return exitError
}
