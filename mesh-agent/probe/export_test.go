package probe

import (
	"log/slog"
	"time"
)

// Hurried is a liveness whose first pause is short.
func Hurried(l Liveness, first time.Duration) Liveness {
	l.first, l.Log = first, slog.New(slog.DiscardHandler)
	return l
}
