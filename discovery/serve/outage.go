package serve

import (
	"log/slog"
	"time"
)

const (
	// lookEvery is how often it is looked whether discovery can sign.
	lookEvery = 250 * time.Millisecond
	// lasts is how long it may not, without a word: at a start it takes a moment until mcp-server has given an authority.
	lasts = 2 * time.Second
)

// outage is the time in which discovery cannot sign, and what was said of that: each reason once, if it lasts, and that it is over.
type outage struct {
	log   *slog.Logger
	since time.Time // zero while it can
	said  string
}

// look takes in why discovery cannot sign now; nil if it can.
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
