// Package wait is for what goes on after a while, unless it is to end.
package wait

import (
	"context"
	"time"
)

// For waits, and tells whether it has: it has not if the context has ended first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
