package sinks

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// rest is how long this program leaves a sink that it could not reach to others.
type rest struct {
	until time.Time
	times uint // how often the sink was let go in a row
}

func (r *rest) active() bool { return r != nil && time.Now().Before(r.until) }

// maxPatienceFactor bounds how much longer a sink is tried if no other program takes it.
const maxPatienceFactor = 16

// patience returns how long a sink is tried before it is let go. It doubles while nobody else takes
// the sink, because then the sink is away.
func (s *session) patience(address string) time.Duration {
	times := uint(0)
	if r := s.backoffs[address]; r != nil {
		times = r.times
	}
	return s.LetGo * time.Duration(min(maxPatienceFactor, 1<<min(times, 10)))
}

// reportStates reports the state of each sink to the database, and lets go of those that cannot be
// reached from here.
func (s *session) reportStates(ctx context.Context) error {
	if s.States == nil {
		return nil
	}
	for address, now := range s.States() {
		if !s.held[address] { // it comes from a flag
			continue
		}
		if now.Connected {
			delete(s.backoffs, address)
		}
		letGo := !now.Connected && now.Error != "" && time.Since(now.Since) >= s.patience(address)
		if now == s.reported[address] && !letGo {
			continue
		}
		if _, err := s.conn.Exec(ctx, sql.ReportState, address, s.Server, now.Connected, now.Since, now.Error, letGo); err != nil {
			return err
		}
		s.reported[address] = now
		if letGo {
			if err := s.letGo(ctx, address, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// letGo leaves a sink to other programs for a while.
func (s *session) letGo(ctx context.Context, address string, now State) error {
	if _, err := s.conn.Exec(ctx, sql.Release, address); err != nil {
		return err
	}
	r := s.backoffs[address]
	if r == nil {
		r = &rest{}
		s.backoffs[address] = r
		s.log.Warn("cannot reach a sink, and leaves it to another server that can; it is tried again if there is none", "sink", address, "since", now.Since, "error", now.Error)
	}
	r.until, r.times = time.Now().Add(s.Rest), r.times+1
	s.held[address] = false
	delete(s.reported, address)
	return nil
}

// readStatuses reads the states of all sinks at all servers.
func (s *session) readStatuses(ctx context.Context, sinks int) error {
	switch {
	case s.Seen == nil:
		return nil
	case sinks == 0:
		s.Seen(nil)
		return nil
	}
	rows, err := s.conn.Query(ctx, sql.Statuses)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Status])
	if err == nil {
		s.Seen(all)
	}
	return err
}
