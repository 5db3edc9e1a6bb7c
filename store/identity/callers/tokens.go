package callers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
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

// CreateToken stores the hash of a new token, in the name of its By.
func (s *Store) CreateToken(ctx context.Context, t Token) error {
	var expires *time.Time
	if !t.Expires.IsZero() {
		expires = &t.Expires
	}
	err := store.InTheNameOf(ctx, s.db.TrustPool(), t.By, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql.CreateToken, t.Name, t.Hash, t.Scopes, expires)
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "23505":
			return fmt.Errorf("%w: %q (%s)", ErrTokenExists, t.Name, pg.Hint)
		case "22023":
			return &store.InvalidError{Reason: pg.Message, Advice: pg.Hint}
		}
	}
	return store.Explain("keeping a token", err)
}

// RevokeToken revokes a token, in the name of by, and reports whether one of that name was in
// force.
func (s *Store) RevokeToken(ctx context.Context, name, by string) (revoked bool, err error) {
	err = store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.RevokeToken, name).Scan(&revoked)
	})
	return revoked, store.Explain("revoking a token", err)
}

// Tokens returns all tokens, also invalid ones, sorted by name and age.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.TrustPool().Query(ctx, sql.Tokens)
	if err != nil {
		return nil, store.Explain("reading the tokens", err)
	}
	tokens, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Token, err error) {
		err = row.Scan(&t.ID, &t.Name, &t.Hash, &t.Scopes, &t.Created, &t.By, &t.Expires, &t.Revoked, &t.Revoker, &t.Used)
		return t, err
	})
	return tokens, store.Explain("reading the tokens", err)
}

// NoteTokenUses stores when tokens, by their ids, were last used.
func (s *Store) NoteTokenUses(ctx context.Context, uses map[int64]time.Time) error {
	var ids []int64
	var times []time.Time
	for id, at := range uses {
		ids, times = append(ids, id), append(times, at)
	}
	return store.Explain("noting the use of tokens", s.db.Chore(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql.NoteTokenUses, ids, times)
		return err
	}))
}
