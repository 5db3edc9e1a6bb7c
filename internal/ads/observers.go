package ads

import "time"

// Observers is an Observer that notifies several others of everything.
type Observers []Observer

// Opened implements Observer.
func (all Observers) Opened(s *Stream) {
	for _, o := range all {
		o.Opened(s)
	}
}

// Closed implements Observer.
func (all Observers) Closed(s *Stream) {
	for _, o := range all {
		o.Closed(s)
	}
}

// Sent implements Observer.
func (all Observers) Sent(s *Stream, m Message) {
	for _, o := range all {
		o.Sent(s, m)
	}
}

// Acked implements Observer.
func (all Observers) Acked(s *Stream, v Verdict) {
	for _, o := range all {
		o.Acked(s, v)
	}
}

// Nacked implements Observer.
func (all Observers) Nacked(s *Stream, v Verdict) {
	for _, o := range all {
		o.Nacked(s, v)
	}
}

// Refusing implements Observer.
func (all Observers) Refusing(s *Stream, typeURL string, more int) {
	for _, o := range all {
		o.Refusing(s, typeURL, more)
	}
}

// Limited implements Observer.
func (all Observers) Limited(limit string, waited time.Duration, turnedAway bool) {
	for _, o := range all {
		o.Limited(limit, waited, turnedAway)
	}
}

// Unreceived implements Observer.
func (all Observers) Unreceived(s *Stream, typeURL string, bytes int) {
	for _, o := range all {
		o.Unreceived(s, typeURL, bytes)
	}
}
