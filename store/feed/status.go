package feed

import (
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

// Status is the state of a Follow, for health checks and metrics.
type Status struct {
	Following bool           // a call of Follow runs
	Connected bool           // and has its connection
	Standby   bool           // to a hot standby
	Since     time.Time      // when Connected last changed
	Revision  store.Revision // the last revision passed on
	Err       error          // why the connection was lost; nil while connected
	Losses    int64          // how often a connection that there was has been lost
}

// Status returns the state of the running Follow.
func (f *Feed) Status() Status {
	f.status.mu.Lock()
	defer f.status.mu.Unlock()
	return f.status.now
}

type status struct {
	onChange func(error) // may be nil

	mu  sync.Mutex
	now Status
}

func (s *status) connected(standby bool) {
	s.mu.Lock()
	news := !s.now.Connected
	if news {
		s.now.Since = time.Now()
	}
	s.now.Following, s.now.Connected, s.now.Standby, s.now.Err = true, true, standby, nil
	s.mu.Unlock()
	if news && s.onChange != nil {
		s.onChange(nil)
	}
}

func (s *status) lost(err error) {
	s.mu.Lock()
	if s.now.Connected {
		s.now.Losses++
	}
	if s.now.Connected || s.now.Since.IsZero() {
		s.now.Since = time.Now()
	}
	s.now.Following, s.now.Connected, s.now.Err = true, false, err
	s.mu.Unlock()
	if s.onChange != nil {
		s.onChange(err)
	}
}

func (s *status) saw(r store.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Revision = r
}

func (s *status) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Following, s.now.Connected, s.now.Since = false, false, time.Now()
}
