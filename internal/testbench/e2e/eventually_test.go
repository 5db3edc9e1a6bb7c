package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// longestWait bounds every wait. Only something broken reaches it.
const longestWait = 20 * time.Second

// eventually asks until the answer is nil.
func eventually(t testing.TB, ask func(context.Context) error) {
	t.Helper()
	within(t, longestWait, ask)
}

// oneAttempt bounds a single question. A connection to something that a change has since replaced
// may stay without an answer.
const oneAttempt = 3 * time.Second

func within(t testing.TB, limit time.Duration, ask func(context.Context) error) {
	t.Helper()
	poll.Within(t, limit, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, oneAttempt)
		defer cancel()
		return ask(ctx)
	})
}
