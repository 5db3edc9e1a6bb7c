package probe

import (
	"log/slog"
	"time"
)

// Hurried returns a Liveness with a short first interval.
func Hurried(l Liveness, first time.Duration) Liveness {
	l.first, l.Log = first, slog.New(slog.DiscardHandler)
	return l
}
