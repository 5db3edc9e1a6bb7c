package terse

import (
	"log/slog"
	"strings"
)

// Writer logs what libraries write about calls and connections, which peers often cause.
type Writer struct{ Log *slog.Logger }

// Write logs a line as a warning.
func (w Writer) Write(text []byte) (int, error) {
	w.Log.Warn("a library complains", "text", strings.TrimSpace(string(text)))
	return len(text), nil
}
