// Package retry tries again what has failed, after pauses that grow. Whatever waits and tries again
// says with it how long the pauses are, what ends them, what makes them short again, and what is
// logged.
//
// To look at something again and again that does not fail is to poll: package wait is enough for
// that.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Loop says how something is tried again.
type Loop struct {
	Pauses Pauses
	// Stable is how long an attempt must last to count as one that worked, whatever ends it; 0 if
	// its length says nothing.
	Stable time.Duration
	// Attempts is how many attempts may fail in a row; any number if 0.
	Attempts int
	// Failed is told each failure, and in which time the next attempt follows. It may be nil.
	Failed func(err error, again time.Duration)
	// Reason is told a failure unless the one before it was the same and nothing worked since: for
	// logs that say each reason once. It may be nil.
	Reason func(err error, again time.Duration)
}

// ErrAtOnce is returned by an attempt that worked and is to be followed by another one without a
// pause.
var ErrAtOnce = errors.New("the next attempt is to follow at once")

// stop is an error that ends a loop.
type stop struct{ err error }

func (s *stop) Error() string { return "no further attempt: " + s.err.Error() }

// Stop is returned by an attempt after which there must be no other. The loop then returns err,
// which may be nil.
func Stop(err error) error { return &stop{err} }

// Until makes attempts until one succeeds. It returns the error of ctx when that ends.
func (l Loop) Until(ctx context.Context, attempt func() error) error {
	return l.Forever(ctx, func(func()) error {
		if err := attempt(); err != nil {
			return err
		}
		return Stop(nil)
	})
}

// Forever makes one attempt after the other until the context ends, whose error it returns, or an
// attempt returns Stop. An attempt calls works when it has got somewhere, or returns nil: the
// pauses then begin with the first again.
func (l Loop) Forever(ctx context.Context, attempt func(works func()) error) error {
	at := &progress{Loop: l, backoff: l.Pauses.Backoff()}
	for {
		begun := time.Now()
		err := attempt(at.worked)
		if ended, is := errors.AsType[*stop](err); is {
			return ended.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		atOnce := errors.Is(err, ErrAtOnce)
		if err == nil || atOnce || l.Stable > 0 && time.Since(begun) > l.Stable {
			at.worked()
		}
		if atOnce {
			continue
		}
		pause := at.backoff.Next()
		if at.failed(err, pause) {
			return err
		}
		if !wait.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// progress is how far a loop has got.
type progress struct {
	Loop

	backoff  *Backoff
	failures int    // in a row
	reason   string // of the last failure
}

func (p *progress) worked() {
	p.backoff.Reset()
	p.failures, p.reason = 0, ""
}

// failed tells of a failure, and reports whether it was the last that is allowed.
func (p *progress) failed(err error, again time.Duration) bool {
	if err == nil {
		return false
	}
	if p.failures++; p.failures == p.Attempts {
		return true
	}
	if p.Failed != nil {
		p.Failed(err, again)
	}
	if text := err.Error(); p.Reason != nil && text != p.reason {
		p.reason = text
		p.Reason(err, again)
	}
	return false
}
