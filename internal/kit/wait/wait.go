// Package wait sleeps until a time has passed or a context ends.
package wait

import (
	"context"
	"time"
)

// For waits for d and reports whether it did; it returns false if ctx ends first.
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
