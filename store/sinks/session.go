package sinks

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/notifications"
)

// session is a connection. While it lasts, the database knows which sinks this program has.
type session struct {
	Options

	conn     *pgx.Conn
	log      *slog.Logger
	held     map[string]bool
	backoffs map[string]*rest // by address: the sinks that this program let go
	reported map[string]State // by address: the state reported last
}

func follow(ctx context.Context, db *store.Store, options Options, resting map[string]*rest, healthy func()) error {
	config := db.Pool().Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] += " sinks"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer store.CloseConn(conn)
	s := &session{options, conn, db.Log(), map[string]bool{}, resting, map[string]State{}}
	for {
		list, err := s.read(ctx)
		if err != nil {
			return err
		}
		healthy()
		options.Dial(list)
		if err := s.wait(ctx, options.Poll); err != nil {
			return err
		}
		if !wait.For(ctx, notifications.SpuriousPause) { // handle many notifications at once
			return ctx.Err()
		}
	}
}

// read subscribes to changes, and returns the sinks that this program now has. A hot standby gives
// none.
func (s *session) read(ctx context.Context) ([]Sink, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	if standby, err := notifications.ListenForServers(ctx, s.conn); err != nil || standby {
		return nil, err
	}
	rows, err := s.conn.Query(ctx, sql.Sinks)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Sink])
	if err != nil {
		return nil, err
	}
	if err := s.release(ctx, all); err != nil {
		return nil, err
	}
	if err := s.reportStates(ctx); err != nil {
		return nil, err
	}
	var mine []Sink
	for _, sink := range all {
		if err := s.take(ctx, sink.Address); err != nil {
			return nil, err
		}
		if s.held[sink.Address] {
			mine = append(mine, sink)
		}
	}
	return mine, s.readStatuses(ctx, len(all))
}

// take acquires a sink unless another program has it.
func (s *session) take(ctx context.Context, address string) error {
	if s.held[address] || s.backoffs[address].active() {
		return nil
	}
	var got bool
	err := s.conn.QueryRow(ctx, sql.Take, address, s.Server).Scan(&got)
	s.held[address] = got
	return err
}

// release releases the sinks that are not in a list.
func (s *session) release(ctx context.Context, keep []Sink) error {
	for address, held := range s.held {
		if slices.ContainsFunc(keep, func(k Sink) bool { return k.Address == address }) {
			continue
		}
		if held {
			if _, err := s.conn.Exec(ctx, sql.Release, address); err != nil {
				return err
			}
		}
		delete(s.held, address)
		delete(s.backoffs, address)
		delete(s.reported, address)
	}
	return nil
}

// wait waits until there may be something new, or another program may have released a sink.
func (s *session) wait(ctx context.Context, poll time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, poll)
	defer cancel()
	for {
		n, err := s.conn.WaitForNotification(waiting)
		switch {
		case err == nil && n.Payload != "sinks": // a change of another table
		case waiting.Err() != nil && ctx.Err() == nil:
			return nil
		default:
			return err
		}
	}
}
