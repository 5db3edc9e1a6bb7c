package serve

import (
	"log/slog"
	"time"
)

const (
	// lookEvery is how often discovery checks whether it can sign.
	lookEvery = 250 * time.Millisecond
	// lasts is how long it may be unable to, before that is logged. At the start it takes a moment
	// until mcp-server has given an authority.
	lasts = 2 * time.Second
)

// outage tracks how long discovery cannot sign. If that lasts, it logs each reason once, and then
// the end.
type outage struct {
	log   *slog.Logger
	since time.Time // zero while it can sign
	said  string
}

// look is told why discovery cannot sign now; nil if it can.
func (s *outage) look(err error, now time.Time) {
	switch {
	case err == nil && s.said != "":
		s.log.Info("discovery can give machines certificates", "could_not_for", now.Sub(s.since).Round(time.Millisecond))
		s.since, s.said = time.Time{}, ""
	case err == nil:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = now
	case now.Sub(s.since) >= lasts && err.Error() != s.said:
		s.log.Warn("discovery cannot give machines certificates now; those that have one are served", "reason", err)
		s.said = err.Error()
	}
}
