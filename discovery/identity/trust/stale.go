package trust

import (
	"fmt"
	"sync"
	"time"
)

// staleness records since when it is not known who was revoked.
type staleness struct {
	mu    sync.Mutex
	stale time.Time // since when the connected mcp-server cannot read it; zero while it can
	away  time.Time // since when no mcp-server is connected; zero while one is
}

func (s *staleness) told(since time.Time) (became bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	became = since.IsZero() != s.stale.IsZero()
	s.stale, s.away = since, time.Time{}
	return became
}

func (s *staleness) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.IsZero() {
		s.away = time.Now()
	}
}

// age is how long ago revocations were last known.
func (s *staleness) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.stale
	if since.IsZero() {
		since = s.away
	}
	if since.IsZero() {
		return 0
	}
	return max(time.Since(since), time.Nanosecond)
}

// Stale says what is wrong with what is known of revocations. It is an error if a connected server
// cannot read them: others may know of newer ones. While all servers are away nobody can be
// revoked.
func (k *Keeper) Stale() (about string, err error) {
	at := &k.stale
	at.mu.Lock()
	defer at.mu.Unlock()
	switch {
	case !at.stale.IsZero():
		return "", fmt.Errorf("mcp-server has not been able to read what the mesh trusts since %s, and who was revoked since is trusted here: its /readyz says why", stampOf(at.stale))
	case !at.away.IsZero():
		return "no mcp-server has told what the mesh trusts since " + stampOf(at.away), nil
	}
	return "", nil
}

func stampOf(t time.Time) string { return t.UTC().Format(time.RFC3339) }
