package authority

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

// freshness is as of when this server goes by what the database says.
type freshness struct {
	mu      sync.Mutex
	readAt  time.Time // by the clock of the database
	heard   time.Time // by ours
	failure error     // of the last reading; nil if it succeeded
	noted   time.Time // when others were told, by our clock
}

// streams are the servers that are told what is trusted.
type streams struct {
	mu   sync.Mutex
	told map[*listener]*State // what each was sent last
	news chan struct{}        // closed, and made anew, when one was sent something or has gone
}

// listener is one stream.
type listener struct{ identity string }

func newStreams() *streams {
	return &streams{told: map[*listener]*State{}, news: make(chan struct{})}
}

// sent notes what a stream has handed on; nil stands for a stream that has begun.
func (s *streams) sent(l *listener, state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[l] = state
	close(s.news)
	s.news = make(chan struct{})
}

func (s *streams) gone(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.told, l)
	close(s.news)
	s.news = make(chan struct{})
}

// behind names those that were not sent a state, and returns what is closed when that may have changed.
func (s *streams) behind(current *State) (names []string, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l, told := range s.told {
		if told != current {
			names = append(names, l.identity)
		}
	}
	return names, s.news
}

// heardFrom takes in how a reading went, and tells whether others are to be told as of when this server goes by the database.
func (f *freshness) heardFrom(readAt time.Time, changed bool, err error) (tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
	if err != nil {
		return false
	}
	f.readAt, f.heard = readAt, time.Now()
	if tell = changed || time.Since(f.noted) >= store.TrustBeat; tell {
		f.noted = f.heard
	}
	return tell
}

// Stale tells for how long this server has not been able to read what the mesh trusts, and why. It is 0 while it can.
func (a *Authority) Stale() (time.Duration, error) {
	a.fresh.mu.Lock()
	defer a.fresh.mu.Unlock()
	if a.fresh.failure == nil || a.fresh.heard.IsZero() {
		return 0, nil
	}
	return time.Since(a.fresh.heard), a.fresh.failure
}

// StaleSince is since when this server has not been able to read what the mesh trusts from a database that answers, once that is longer than it may be;
// zero otherwise. While the database is away nobody can be revoked, and no server knows better.
func (a *Authority) StaleSince() time.Time {
	age, _ := a.Stale()
	if age == 0 || age < a.cfg.StaleAfter || !a.cfg.Store.Status().Connected {
		return time.Time{}
	}
	return time.Now().Add(-age)
}

// note tells other servers as of when this one goes by the database. Who waits for a revocation is told of this server's name without it.
func (a *Authority) note(ctx context.Context, readAt time.Time) {
	if err := a.cfg.Store.NoteTrust(ctx, a.life, a.cfg.Name, readAt); err != nil {
		a.cfg.Log.Debug("cannot note as of when this server goes by what the mesh trusts", "error", err)
	}
}

// leave tells others that this server goes.
func (a *Authority) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if a.Current() != nil {
		a.note(ctx, time.Time{})
	}
}

// lookAgain is how often other servers of the mesh are looked after, which tell the database alone.
const lookAgain = 50 * time.Millisecond

// InForce returns when all servers that are known go by what was committed before the call, and at the latest when the context ends: then with
// the names of those that do not.
func (a *Authority) InForce(ctx context.Context) (pending []string) {
	at, err := a.cfg.Store.Now(ctx)
	if err != nil {
		return []string{a.Identity()}
	}
	for {
		a.fresh.mu.Lock()
		own := !a.fresh.readAt.Before(at)
		a.fresh.mu.Unlock()
		if !own {
			a.Read(ctx)
		}
		missing, news := a.missing(ctx, at)
		if len(missing) == 0 {
			return nil
		}
		again := time.NewTimer(lookAgain)
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

// missing names who does not go yet by what was committed at a time.
func (a *Authority) missing(ctx context.Context, at time.Time) (names []string, news <-chan struct{}) {
	found := map[string]bool{}
	a.fresh.mu.Lock()
	if a.fresh.readAt.Before(at) {
		found[a.Identity()] = true
	}
	a.fresh.mu.Unlock()
	behind, news := a.streams.behind(a.Current())
	for _, name := range behind {
		found[name] = true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // who is late is named also where the time is over
	defer cancel()
	others, err := a.cfg.Store.TrustLags(ctx, at, a.life)
	if err != nil {
		found["the other servers, which cannot be asked"] = true
	}
	for _, name := range others {
		found["pgmesh/mcp-server/"+name] = true
	}
	return slices.Sorted(maps.Keys(found)), news
}
