package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// longestWait bounds every wait. Only something broken reaches it.
const longestWait = 30 * time.Second

// eventually asks until the answer is nil.
func eventually(t testing.TB, ask func(context.Context) error) {
	t.Helper()
	poll.Within(t, longestWait, ask)
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
