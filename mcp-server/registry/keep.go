package registry

import (
	"context"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/store"
)

// keepSessions refreshes all sessions in one statement, and ends those that are over.
func (r *Registry) keepSessions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Lease)
	defer cancel()
	if err := r.refresh(ctx); err != nil {
		if ctx.Err() == nil && !store.Temporary(err) {
			r.log.Error("cannot refresh the sessions of registrations: they end after their lease; the server goes on trying", "lease", r.options.Lease, "error", err)
		}
		return
	}
	r.endSessions(ctx)
}

// refresh refreshes the sessions, and drops those that do not count any more. It also drops
// sessions whose last transaction the database does not have: it was replaced by a database that
// was behind.
func (r *Registry) refresh(ctx context.Context) error {
	r.mu.Lock()
	open := maps.Clone(r.sessions)
	r.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	taken := map[int64]int64{}
	for id, s := range open {
		s.mu.Lock()
		taken[id] = s.committed
		s.mu.Unlock()
	}
	found, err := r.machines.RefreshSessions(ctx, r.keeper, slices.Collect(maps.Keys(open)))
	if err != nil {
		return err
	}
	for id, s := range open {
		if number, counts := found[id]; counts && number >= taken[id] {
			continue
		}
		if r.dropSession(s) {
			r.log.Warn("a session of registrations counts no more: the database, or this server, was away", "session", id)
		}
	}
	return nil
}

// dropSession ends the stream of a session, unless that has ended, and reports whether it did.
func (r *Registry) dropSession(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.id] != s {
		return false
	}
	delete(r.sessions, s.id)
	close(s.lost)
	return true
}
