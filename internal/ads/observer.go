package ads

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// Observer is notified of events on the streams. Its methods are called from many goroutines and
// must not block.
type Observer interface {
	Opened(*Stream)
	Closed(*Stream)
	// Sent is called before a message is sent: a whole response, or a part of a large one.
	Sent(*Stream, Message)
	Acked(*Stream, Verdict)
	Nacked(*Stream, Verdict)
	// Refusing is called when the number of resources that the client refuses changes by `more`,
	// which may be negative. It needs Config.Quarantine.
	Refusing(s *Stream, typeURL string, more int)
	// Limited is called when a limit was reached: with how long a client had to wait for it, or
	// with turnedAway if it was refused.
	Limited(limit string, waited time.Duration, turnedAway bool)
	// Unreceived is called when a client leaves without answering a response larger than gRPC
	// clients receive by default.
	Unreceived(s *Stream, typeURL string, bytes int)
}

// Message describes a message to a client about one type.
type Message struct {
	TypeURL, Revision  string
	Resources, Removed int
	Bytes              int
	News               *served.News // the oldest change in it; nil if there is none or it is unknown
}

// Verdict describes a client's answer to a response.
type Verdict struct {
	TypeURL, Revision string
	Reason            string        // of a refusal
	After             time.Duration // since the response was sent
	News              *served.News  // as in the Message
}

type silent struct{}

func (silent) Opened(*Stream)                      {}
func (silent) Closed(*Stream)                      {}
func (silent) Sent(*Stream, Message)               {}
func (silent) Acked(*Stream, Verdict)              {}
func (silent) Nacked(*Stream, Verdict)             {}
func (silent) Refusing(*Stream, string, int)       {}
func (silent) Limited(string, time.Duration, bool) {}
func (silent) Unreceived(*Stream, string, int)     {}

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
