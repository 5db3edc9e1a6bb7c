package authority

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// freshness is how recent this server's view of the database is.
type freshness struct {
	mu        sync.Mutex
	readAt    time.Time // the last read that succeeded, by the database's clock
	readLocal time.Time // the same, by our clock
	failure   error     // of the last read; nil if it succeeded
	notedAt   time.Time // when readAt was published last, by our clock
}

// streams are the WatchTrust streams of servers.
type streams struct {
	mu       sync.Mutex
	lastSent map[*watchStream]*State // nil before the first
	changed  chan struct{}           // closed and replaced when a stream was sent a state or ended
}

// watchStream is one WatchTrust stream.
type watchStream struct{ identity string }

func newStreams() *streams {
	return &streams{lastSent: map[*watchStream]*State{}, changed: make(chan struct{})}
}

// sent records the state that a stream was sent; nil for a stream that has just begun.
func (s *streams) sent(l *watchStream, state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastSent[l] = state
	close(s.changed)
	s.changed = make(chan struct{})
}

// gone forgets a stream that has ended.
func (s *streams) gone(l *watchStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lastSent, l)
	close(s.changed)
	s.changed = make(chan struct{})
}

// behind lists the servers that were not sent the current state yet, and returns a channel that is
// closed when that may have changed.
func (s *streams) behind(current *State) (names []string, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l, told := range s.lastSent {
		if told != current {
			names = append(names, l.identity)
		}
	}
	return names, s.changed
}

// record records the outcome of a read, and reports whether to publish it to the other servers:
// after a change, and once in every store.TrustBeat.
func (f *freshness) record(readAt time.Time, changed bool, err error) (tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
	if err != nil {
		return false
	}
	f.readAt, f.readLocal = readAt, time.Now()
	if tell = changed || time.Since(f.notedAt) >= trust.Beat; tell {
		f.notedAt = f.readLocal
	}
	return tell
}

// Stale returns for how long the mesh's trust could not be read, and why; 0 if the last read
// succeeded.
func (a *Authority) Stale() (time.Duration, error) {
	a.freshness.mu.Lock()
	defer a.freshness.mu.Unlock()
	if a.freshness.failure == nil || a.freshness.readLocal.IsZero() {
		return 0, nil
	}
	return time.Since(a.freshness.readLocal), a.freshness.failure
}

// StaleSince returns since when the trust could not be read from a database that is connected, once
// that is longer than StaleAfter; zero otherwise. A database that is away does not count: nobody
// can be revoked then, and no server knows better.
func (a *Authority) StaleSince() time.Time {
	age, _ := a.Stale()
	if age == 0 || age < a.cfg.StaleAfter || !a.cfg.Connected() {
		return time.Time{}
	}
	return time.Now().Add(-age)
}

// publishReadAt tells other servers as of when this one knows the trust. If that fails, a caller
// that waits for a revocation is given this server's name as pending.
func (a *Authority) publishReadAt(ctx context.Context, readAt time.Time) {
	if err := a.cfg.Trust.NoteTrust(ctx, a.instanceID, a.cfg.Name, readAt); err != nil {
		a.cfg.Log.Debug("cannot note as of when this server goes by what the mesh trusts", "error", err)
	}
}

// deregister tells other servers that this one stops.
func (a *Authority) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if a.Current() != nil {
		a.publishReadAt(ctx, time.Time{})
	}
}

// pollInterval is how often InForce polls the database for the other servers, which publish their
// state only there.
const pollInterval = 50 * time.Millisecond

// InForce waits until all known servers know what was committed before the call, or until the
// context ends. It returns the names of those that do not.
func (a *Authority) InForce(ctx context.Context) (pending []string) {
	at, err := a.cfg.Trust.Now(ctx)
	if err != nil {
		return []string{a.Identity()}
	}
	for {
		a.freshness.mu.Lock()
		own := !a.freshness.readAt.Before(at)
		a.freshness.mu.Unlock()
		if !own {
			a.Read(ctx)
		}
		missing, news := a.pendingServers(ctx, at)
		if len(missing) == 0 {
			return nil
		}
		again := time.NewTimer(pollInterval)
		select {
		case <-news:
			again.Stop()
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return missing
		}
	}
}

// pendingServers lists the servers that do not know yet what was committed before a time.
func (a *Authority) pendingServers(ctx context.Context, at time.Time) (names []string, news <-chan struct{}) {
	found := map[string]bool{}
	a.freshness.mu.Lock()
	if a.freshness.readAt.Before(at) {
		found[a.Identity()] = true
	}
	a.freshness.mu.Unlock()
	behind, news := a.streams.behind(a.Current())
	for _, name := range behind {
		found[name] = true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // also answer when the caller's time is over
	defer cancel()
	others, err := a.cfg.Trust.TrustLags(ctx, at, a.instanceID)
	if err != nil {
		found["the other servers, which cannot be asked"] = true
	}
	for _, name := range others {
		found["pgmesh/mcp-server/"+name] = true
	}
	return slices.Sorted(maps.Keys(found)), news
}
