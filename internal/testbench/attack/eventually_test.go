package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait; only something broken reaches it.
const patience = 30 * time.Second

// eventually asks until all is as wanted. The last complaint is what the test fails with.
func eventually(t testing.TB, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	var complaint error
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || complaint == nil { // the end of the context itself explains nothing
			complaint = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", patience, complaint)
		}
	}
}

// says waits until a log has a text.
func says(t testing.TB, log func() string, text string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if !strings.Contains(log(), text) {
			return fmt.Errorf("no line has %q", text)
		}
		return nil
	})
}
