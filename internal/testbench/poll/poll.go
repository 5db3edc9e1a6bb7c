// Package poll waits for what a test can only ask for again and again.
package poll

import (
	"context"
	"testing"
	"time"
)

// The pause between two questions is as long as the last one took, within these bounds: who answers has
// to get on with what is waited for, and a page of many metrics keeps an Envoy busy for seconds.
const (
	shortestPause = 2 * time.Millisecond
	longestPause  = 2 * time.Second
)

// Longest bounds a wait that nothing says more of. Only something broken reaches it.
const Longest = 30 * time.Second

// Eventually asks until the answer is nil, for as long as Longest.
func Eventually(t testing.TB, ask func(context.Context) error) {
	t.Helper()
	Within(t, Longest, ask)
}

// Within asks until the answer is nil. After the limit it fails the test with the last error,
// except that the end of the context itself explains nothing.
func Within(t testing.TB, limit time.Duration, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last error
	for {
		asked := time.Now()
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-time.After(min(max(time.Since(asked), shortestPause), longestPause)):
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", limit, last)
		}
	}
}
