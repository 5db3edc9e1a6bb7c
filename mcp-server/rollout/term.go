package rollout

import (
	"context"
	"errors"
	"time"

	"github.com/pgmesh/pgmesh/store/rollout"
)

// term is the time of one keeper: from the first report to the last, unless its connection is lost.
type term struct {
	keeper  *rollout.Keeper
	lost    chan struct{} // closed when the keeper's reports count no more
	reports int           // how many there are; the Service's mutex guards it
}

// join returns the present term, or a new one. Who joins it has to leave it.
func (s *Service) join(ctx context.Context) (*term, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t := s.joinPresent(); t != nil {
		return t, nil
	}
	keeper, err := s.store.Keep(ctx, s.options.Name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term = &term{keeper: keeper, lost: make(chan struct{}), reports: 1}
	return s.term, nil
}

func (s *Service) joinPresent() *term {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != nil {
		s.term.reports++
	}
	return s.term
}

// leave ends a report's part in a term. The last one closes the keeper, in the background: its
// discovery need not wait for that.
func (s *Service) leave(t *term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.reports--
	if t.reports > 0 {
		return
	}
	if s.term == t {
		s.term = nil
	}
	s.streams.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		t.keeper.Close(ctx)
	})
}

// watch asks the keeper at each interval, and when there is doubt, until the context ends.
func (s *Service) watch(ctx context.Context) {
	tick := time.NewTicker(s.options.CheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.doubt:
		case <-ctx.Done():
			return
		}
		s.check(ctx)
	}
}

// check asks the keeper whether it has its connection, and ends its reports if not.
func (s *Service) check(ctx context.Context) {
	s.mu.Lock()
	t := s.term
	s.mu.Unlock()
	if t == nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	err := t.keeper.Alive(asking)
	switch {
	case err == nil || ctx.Err() != nil:
		return
	case !errors.Is(err, rollout.ErrEnded):
		s.log.Debug("cannot ask whether reports of proxies count", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != t { // its last report ended meanwhile
		return
	}
	s.term = nil
	close(t.lost)
	s.log.Warn("the connection by which reports of proxies count is lost: discoveries begin theirs anew", "reports", t.reports, "error", err)
}

// recheck has the keeper asked now, so that no new report joins one that is lost.
func (s *Service) recheck() {
	select {
	case s.doubt <- struct{}{}:
	default:
	}
}
