package ads

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
func (all Observers) Sent(s *Stream, typeURL, revision string, resources, removed int) {
	for _, o := range all {
		o.Sent(s, typeURL, revision, resources, removed)
	}
}

// Acked tells each.
func (all Observers) Acked(s *Stream, typeURL, revision string) {
	for _, o := range all {
		o.Acked(s, typeURL, revision)
	}
}

// Nacked tells each.
func (all Observers) Nacked(s *Stream, typeURL, revision, reason string) {
	for _, o := range all {
		o.Nacked(s, typeURL, revision, reason)
	}
}

// Unreceived tells each of it.
func (all Observers) Unreceived(s *Stream, typeURL string, bytes int) {
	for _, o := range all {
		o.Unreceived(s, typeURL, bytes)
	}
}
