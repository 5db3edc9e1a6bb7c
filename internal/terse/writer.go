package terse

import (
	"log/slog"
	"strings"
)

// Writer logs what libraries write about calls and connections, which are often somebody else's doing.
type Writer struct{ Log *slog.Logger }

// Write logs a line.
func (w Writer) Write(text []byte) (int, error) {
	w.Log.Warn("a library complains", "text", strings.TrimSpace(string(text)))
	return len(text), nil
}
