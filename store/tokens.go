package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Token is the record of a bearer token.
type Token struct {
	ID      int64
	Name    string
	Hash    []byte // SHA-256
	Scopes  []string
	Created time.Time
	By      string    // who created it
	Expires time.Time // zero for never
	Revoked time.Time // zero if it is not revoked
	Revoker string
	Used    time.Time // to the minute; zero for never
}

// ErrTokenExists says that a token with that name is in force.
var ErrTokenExists = errors.New("there is a token of that name already")

// InvalidError is a request that cannot be fulfilled, with advice.
type InvalidError struct{ Reason, Advice string }

func (e *InvalidError) Error() string { return e.Reason + " (" + e.Advice + ")" }

// CreateToken stores the hash of a new token, in the name of its By.
func (s *Store) CreateToken(ctx context.Context, t Token) error {
	var expires *time.Time
	if !t.Expires.IsZero() {
		expires = &t.Expires
	}
	err := s.inTheNameOf(ctx, t.By, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT mesh.create_token($1, $2, $3, $4)", t.Name, t.Hash, t.Scopes, expires)
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "23505":
			return fmt.Errorf("%w: %q (%s)", ErrTokenExists, t.Name, pg.Hint)
		case "22023":
			return &InvalidError{pg.Message, pg.Hint}
		}
	}
	return explain("keeping a token", err)
}

// RevokeToken revokes a token, in the name of by, and reports whether one of that name was in force.
func (s *Store) RevokeToken(ctx context.Context, name, by string) (revoked bool, err error) {
	err = s.inTheNameOf(ctx, by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.revoke_token($1)", name).Scan(&revoked)
	})
	return revoked, explain("revoking a token", err)
}

// inTheNameOf runs a transaction about trust with an author; "" means the database role.
func (s *Store) inTheNameOf(ctx context.Context, author string, do func(pgx.Tx) error) error {
	return inTheNameOf(ctx, s.trust, author, do)
}

func inTheNameOf(ctx context.Context, pool *pgxpool.Pool, author string, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('mesh.author', $1, true)", author); err != nil {
			return err
		}
		return do(tx)
	})
}

// Tokens returns all tokens, also invalid ones, sorted by name and age.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := s.trust.Query(ctx, `SELECT id, name, hash, scopes, created_at, created_by, coalesce(expires_at, '0001-01-01Z'), coalesce(revoked_at, '0001-01-01Z'),
		coalesce(revoked_by, ''), coalesce(used_at, '0001-01-01Z') FROM mesh.tokens ORDER BY name, id`)
	if err != nil {
		return nil, explain("reading the tokens", err)
	}
	tokens, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Token, err error) {
		err = row.Scan(&t.ID, &t.Name, &t.Hash, &t.Scopes, &t.Created, &t.By, &t.Expires, &t.Revoked, &t.Revoker, &t.Used)
		return t, err
	})
	return tokens, explain("reading the tokens", err)
}

// NoteTokenUses stores when tokens, by their ids, were last used.
func (s *Store) NoteTokenUses(ctx context.Context, uses map[int64]time.Time) error {
	var ids []int64
	var times []time.Time
	for id, at := range uses {
		ids, times = append(ids, id), append(times, at)
	}
	return explain("noting the use of tokens", s.chore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT mesh.note_token_uses($1, $2)", ids, times)
		return err
	}))
}
