package e2e

import (
	"context"
	"testing"
	"time"
)

// patience bounds every wait; only something broken reaches it.
const patience = 20 * time.Second

// tick is how often is asked what cannot be waited for.
const tick = 2 * time.Millisecond

// eventually asks until all is as wanted. The last complaint is what the test fails with.
func eventually(t testing.TB, ask func(context.Context) error) {
	t.Helper()
	within(t, patience, ask)
}

func within(t testing.TB, limit time.Duration, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var complaint error
	for {
		err := attempt(ctx, ask)
		if err == nil {
			return
		}
		if ctx.Err() == nil || complaint == nil { // the end of the context itself explains nothing
			complaint = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", limit, complaint)
		}
	}
}

// oneAttempt bounds a single try: a connection that was accepted by what a change has since replaced may stay
// without an answer.
const oneAttempt = 3 * time.Second

func attempt(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, oneAttempt)
	defer cancel()
	return ask(ctx)
}
