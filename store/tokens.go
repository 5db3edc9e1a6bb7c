package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	err := InTheNameOf(ctx, s.trust, t.By, func(tx pgx.Tx) error {
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
	return Explain("keeping a token", err)
}

// RevokeToken revokes a token, in the name of by, and reports whether one of that name was in force.
func (s *Store) RevokeToken(ctx context.Context, name, by string) (revoked bool, err error) {
	err = InTheNameOf(ctx, s.trust, by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.revoke_token($1)", name).Scan(&revoked)
	})
	return revoked, Explain("revoking a token", err)
}

// Tokens returns all tokens, also invalid ones, sorted by name and age.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	rows, err := s.trust.Query(ctx, `SELECT id, name, hash, scopes, created_at, created_by, coalesce(expires_at, '0001-01-01Z'), coalesce(revoked_at, '0001-01-01Z'),
		coalesce(revoked_by, ''), coalesce(used_at, '0001-01-01Z') FROM mesh.tokens ORDER BY name, id`)
	if err != nil {
		return nil, Explain("reading the tokens", err)
	}
	tokens, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Token, err error) {
		err = row.Scan(&t.ID, &t.Name, &t.Hash, &t.Scopes, &t.Created, &t.By, &t.Expires, &t.Revoked, &t.Revoker, &t.Used)
		return t, err
	})
	return tokens, Explain("reading the tokens", err)
}

// NoteTokenUses stores when tokens, by their ids, were last used.
func (s *Store) NoteTokenUses(ctx context.Context, uses map[int64]time.Time) error {
	var ids []int64
	var times []time.Time
	for id, at := range uses {
		ids, times = append(ids, id), append(times, at)
	}
	return Explain("noting the use of tokens", s.Chore(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT mesh.note_token_uses($1, $2)", ids, times)
		return err
	}))
}
