package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// QueryTimeout detects a peer that is gone silently.
const QueryTimeout = 20 * time.Second

// Reading runs queries that all see the same state of the database.
func (s *Store) Reading(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
}

// Chore runs a transaction that gives up, rather than wait, if others have rows locked.
func (s *Store) Chore(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql.GiveUpSoon); err != nil {
			return err
		}
		return do(tx)
	})
}

// InTheNameOf runs a transaction with an author; "" means the database role.
func InTheNameOf(ctx context.Context, pool *pgxpool.Pool, author string, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql.SetAuthor, author); err != nil {
			return err
		}
		return do(tx)
	})
}

// CallInTheNameOf calls a function of the schema with an author. The function reports whether it
// changed anything.
func CallInTheNameOf(ctx context.Context, pool *pgxpool.Pool, doing, author, query string, args ...any) (changed bool, err error) {
	err = InTheNameOf(ctx, pool, author, func(tx pgx.Tx) error { return tx.QueryRow(ctx, query, args...).Scan(&changed) })
	return changed, ExplainInput(doing, err)
}

// CloseConn closes a connection. It does not wait long for a server that does not answer.
func CloseConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
		_ = conn.PgConn().Conn().Close() // pgx keeps it a quarter of a minute, and Postgres the session as long
	}
}
