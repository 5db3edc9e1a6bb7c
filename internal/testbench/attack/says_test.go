package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// says waits until a log has a text.
func says(t testing.TB, log func() string, text string) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		if !strings.Contains(log(), text) {
			return fmt.Errorf("no line has %q", text)
		}
		return nil
	})
}
