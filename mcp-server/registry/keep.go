package registry

import (
	"context"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/store"
)

// keep says for all sessions in one statement that their streams are there, and tells of those that have ended.
func (r *Registry) keep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Lease)
	defer cancel()
	if err := r.refresh(ctx); err != nil {
		if ctx.Err() == nil && !store.Temporary(err) {
			r.log.Error("cannot refresh the sessions of registrations: they end after their lease; the server goes on trying", "lease", r.options.Lease, "error", err)
		}
		return
	}
	r.end(ctx)
}

// refresh ends the sessions that count no more, and those of which the database has forgotten what it had taken: another has taken its place that was
// behind it.
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
		taken[id] = s.taken
		s.mu.Unlock()
	}
	found, err := r.store.RefreshWorkloadSessions(ctx, r.keeper, slices.Collect(maps.Keys(open)))
	if err != nil {
		return err
	}
	for id, s := range open {
		if number, counts := found[id]; counts && number >= taken[id] {
			continue
		}
		if r.lose(s) {
			r.log.Warn("a session of registrations counts no more: the database, or this server, was away", "session", id)
		}
	}
	return nil
}

// lose ends the stream of a session, unless it has ended.
func (r *Registry) lose(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.id] != s {
		return false
	}
	delete(r.sessions, s.id)
	close(s.lost)
	return true
}
