package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Authority is one that signs for the mesh, will, or has.
type Authority struct {
	ID          int64
	State       AuthorityState
	Fingerprint string // SHA-256 of its certificate, in hexadecimal
	Chain       []byte // its certificate and those between it and its root, as PEM
	SealedKey   string `json:"-"` // as whoever made it has encrypted it; empty once it is retired, and where keys were not asked for
	NotBefore   time.Time
	NotAfter    time.Time
	Created     time.Time
	By          string    // who made it
	Activated   time.Time // since when it signs; never if zero, as with the times after it
	Activator   string
	Replaced    time.Time // since when another signs
	Retired     time.Time
	Retirer     string
}

// AuthorityState is what an authority is trusted with.
type AuthorityState string

// The states, in the order in which an authority goes through them.
const (
	NextAuthority     AuthorityState = "next"     // trusted, and signs nothing yet
	ActiveAuthority   AuthorityState = "active"   // signs
	PreviousAuthority AuthorityState = "previous" // trusted, for certificates that it signed are in use
	RetiredAuthority  AuthorityState = "retired"
)

// Authorities lists the authorities of the mesh, the oldest first, without their keys.
func (s *Store) Authorities(ctx context.Context) ([]Authority, error) {
	return s.authorities(ctx, "''")
}

// AuthoritiesWithKeys lists them with their encrypted keys, which servers alone may read.
func (s *Store) AuthoritiesWithKeys(ctx context.Context) ([]Authority, error) {
	return s.authorities(ctx, "(SELECT k.sealed_key FROM mesh.authority_keys k WHERE k.id = a.id)")
}

func (s *Store) authorities(ctx context.Context, key string) ([]Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := s.trust.Query(ctx, `SELECT id, state, fingerprint, chain, `+key+`, not_before, not_after, created_at, created_by,
		coalesce(activated_at, '0001-01-01Z'), coalesce(activated_by, ''), coalesce(replaced_at, '0001-01-01Z'), coalesce(retired_at, '0001-01-01Z'), coalesce(retired_by, '')
		FROM mesh.authorities a ORDER BY id`)
	if err != nil {
		return nil, explain("reading the authorities", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Authority, err error) {
		var chain string
		err = row.Scan(&a.ID, &a.State, &a.Fingerprint, &chain, &a.SealedKey, &a.NotBefore, &a.NotAfter, &a.Created, &a.By,
			&a.Activated, &a.Activator, &a.Replaced, &a.Retired, &a.Retirer)
		a.Chain = []byte(chain)
		return a, err
	})
	return list, explain("reading the authorities", err)
}

// FirstAuthority keeps the first authority of a mesh, in somebody's name. Of those who try at the same time one wins; for the others it
// changes nothing, and they read Authorities again.
func (s *Store) FirstAuthority(ctx context.Context, chain []byte, sealedKey, by string) (won bool, err error) {
	err = s.inTheNameOf(ctx, by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT won FROM mesh.first_authority($1, $2)", string(chain), sealedKey).Scan(&won)
	})
	return won, explainInput("keeping the authority of the mesh", err)
}

// AddAuthority keeps an authority that is to sign next, and returns its id.
func (s *Store) AddAuthority(ctx context.Context, chain []byte, sealedKey, by string) (id int64, err error) {
	err = s.inTheNameOf(ctx, by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.add_authority($1, $2)", string(chain), sealedKey).Scan(&id)
	})
	return id, explainInput("keeping an authority", err)
}

// ActivateAuthority has the next authority sign. Unforced, it is a RefusedError before everybody had the time to learn of it.
func (s *Store) ActivateAuthority(ctx context.Context, id int64, forced bool, by string) error {
	return s.changeAuthority(ctx, "activating an authority", "SELECT mesh.activate_authority($1, $2)", id, forced, by)
}

// RetireAuthority ends the trust in an authority and forgets its key. Unforced, it is a RefusedError while members of the mesh have certificates of it.
func (s *Store) RetireAuthority(ctx context.Context, id int64, forced bool, by string) error {
	return s.changeAuthority(ctx, "retiring an authority", "SELECT mesh.retire_authority($1, $2)", id, forced, by)
}

func (s *Store) changeAuthority(ctx context.Context, doing, query string, id int64, forced bool, by string) error {
	return explainInput(doing, s.inTheNameOf(ctx, by, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, query, id, forced)
		return err
	}))
}

// ResealAuthority keeps the key of an authority as it is encrypted anew, and tells whether it was still encrypted as it is said.
func (s *Store) ResealAuthority(ctx context.Context, id int64, was, is string) (done bool, err error) {
	err = s.trust.QueryRow(ctx, "SELECT mesh.reseal_authority($1, $2, $3)", id, was, is).Scan(&done)
	return done, explainInput("keeping the key of an authority", err)
}

// explainInput is explain for what people write, of which the database says what would be right.
func explainInput(doing string, err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "22023" {
		return &InvalidError{pg.Message, pg.Hint}
	}
	return explain(doing, err)
}
