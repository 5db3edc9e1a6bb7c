package ads

import "time"

// Observers is an Observer made of several, which all hear everything.
type Observers []Observer

// Opened tells each.
func (all Observers) Opened(s *Stream) {
	for _, o := range all {
		o.Opened(s)
	}
}

// Closed tells each.
func (all Observers) Closed(s *Stream) {
	for _, o := range all {
		o.Closed(s)
	}
}

// Sent tells each.
func (all Observers) Sent(s *Stream, m Message) {
	for _, o := range all {
		o.Sent(s, m)
	}
}

// Acked tells each.
func (all Observers) Acked(s *Stream, v Verdict) {
	for _, o := range all {
		o.Acked(s, v)
	}
}

// Nacked tells each.
func (all Observers) Nacked(s *Stream, v Verdict) {
	for _, o := range all {
		o.Nacked(s, v)
	}
}

// Refusing tells each.
func (all Observers) Refusing(s *Stream, typeURL string, more int) {
	for _, o := range all {
		o.Refusing(s, typeURL, more)
	}
}

// Limited tells each.
func (all Observers) Limited(limit string, waited time.Duration, turnedAway bool) {
	for _, o := range all {
		o.Limited(limit, waited, turnedAway)
	}
}

// Unreceived tells each of it.
func (all Observers) Unreceived(s *Stream, typeURL string, bytes int) {
	for _, o := range all {
		o.Unreceived(s, typeURL, bytes)
	}
}
