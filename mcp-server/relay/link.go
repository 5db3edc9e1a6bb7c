package relay

import (
	"sync"
	"time"
)

// Link is the state of the connection to the upstreams.
type Link struct {
	Connected bool
	Since     time.Time // when Connected last changed
	Losses    int64     // how often an upstream that was followed has been lost
}

// link is a Link under construction.
type link struct {
	mu  sync.Mutex
	now Link
}

func (l *link) set(connected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.Connected != connected {
		l.now.Connected, l.now.Since = connected, time.Now()
	}
}

// lost counts an upstream that was followed, and was not left on purpose.
func (l *link) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Losses++
}

// Link returns the state of the connection to the upstreams.
func (r *Relay) Link() Link {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.link.now
}
