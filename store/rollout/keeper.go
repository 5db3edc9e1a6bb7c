package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
)

// Keeper keeps reports in force for as long as its session lasts. Its methods may be called
// concurrently, but messages of one report one after the other.
type Keeper struct {
	db *store.Store
	id int32

	mu   sync.Mutex // for the session, which does one thing at a time
	conn *pgx.Conn
}

// Keep connects a keeper for the reports that a server takes. Close it.
func (s *Store) Keep(ctx context.Context, server string) (*Keeper, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	config, err := s.db.ConnConfig("", "reports")
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, store.Explain("connecting a keeper of reports", err)
	}
	k := &Keeper{db: s.db, conn: conn}
	if _, err = conn.Exec(ctx, sql.PrepareKeeper); err == nil {
		err = conn.QueryRow(ctx, sql.Keep, text(server)).Scan(&k.id)
	}
	if err != nil {
		store.CloseConn(conn)
		return nil, store.Explain("keeping reports", err)
	}
	return k, nil
}

// ID is the number of the keeper, which other tables name it by.
func (k *Keeper) ID() int32 { return k.id }

// Alive asks whether the reports of the keeper count, and returns ErrEnded, with the reason, if
// they do not.
func (k *Keeper) Alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	var alive bool
	switch err := k.conn.QueryRow(ctx, sql.Alive, k.id).Scan(&alive); {
	case err != nil && k.conn.IsClosed():
		return fmt.Errorf("%w: %w", ErrEnded, store.Explain("asking for the keeper of reports", err))
	case err != nil:
		return store.Explain("asking for the keeper of reports", err)
	case !alive:
		return ErrEnded
	}
	return nil
}

// Close ends the reports of the keeper, and its session.
func (k *Keeper) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.conn.IsClosed() {
		_, _ = k.conn.Exec(ctx, sql.EndAll, k.id) // without it they end with the session
	}
	store.CloseConn(k.conn)
}

// Begin begins the report of a discovery.
func (k *Keeper) Begin(ctx context.Context, discovery string) (id int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = k.db.Pool().QueryRow(ctx, sql.Begin, k.id, text(discovery)).Scan(&id)
	return id, explain("beginning a report", err)
}

// End ends a report. Its proxies are away from then on.
func (k *Keeper) End(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	_, err := k.db.Pool().Exec(ctx, sql.End, k.id, id)
	return explain("ending a report", err)
}

func explain(doing string, err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == codeEnded {
		return ErrEnded
	}
	return store.ExplainInput(doing, err)
}
