package trust

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Authority is an authority that signs for the mesh, will sign or has signed.
type Authority struct {
	ID          int64
	State       AuthorityState
	Fingerprint string // SHA-256 of its certificate, in hexadecimal
	Chain       []byte // its certificate and those between it and its root, as PEM
	SealedKey   string `json:"-"` // encrypted by its creator; empty once it is retired, and unless keys were asked for
	NotBefore   time.Time
	NotAfter    time.Time
	Created     time.Time
	By          string    // who created it
	Activated   time.Time // when it began to sign; this and the times below are zero for never
	Activator   string
	Replaced    time.Time // when another began to sign
	Retired     time.Time
	Retirer     string
}

// AuthorityState is the state of an authority.
type AuthorityState string

// The states, in the order in which an authority goes through them.
const (
	NextAuthority     AuthorityState = "next"     // trusted, and does not sign yet
	ActiveAuthority   AuthorityState = "active"   // signs
	PreviousAuthority AuthorityState = "previous" // trusted, because certificates that it signed are in use
	RetiredAuthority  AuthorityState = "retired"
)

// Authorities lists the authorities of the mesh, the oldest first, without their keys.
func (s *Store) Authorities(ctx context.Context) ([]Authority, error) {
	return s.authorities(ctx, sql.Authorities)
}

// AuthoritiesWithKeys lists them with their encrypted keys, which only servers may read.
func (s *Store) AuthoritiesWithKeys(ctx context.Context) ([]Authority, error) {
	return s.authorities(ctx, sql.AuthoritiesWithKeys)
}

func (s *Store) authorities(ctx context.Context, query string) ([]Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.TrustPool().Query(ctx, query)
	if err != nil {
		return nil, store.Explain("reading the authorities", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Authority, err error) {
		var chain string
		err = row.Scan(&a.ID, &a.State, &a.Fingerprint, &chain, &a.SealedKey, &a.NotBefore, &a.NotAfter, &a.Created, &a.By,
			&a.Activated, &a.Activator, &a.Replaced, &a.Retired, &a.Retirer)
		a.Chain = []byte(chain)
		return a, err
	})
	return list, store.Explain("reading the authorities", err)
}

// FirstAuthority stores the first authority of a mesh, in the name of by. If several servers try at
// once, one wins; the others change nothing and read Authorities again.
func (s *Store) FirstAuthority(ctx context.Context, chain []byte, sealedKey, by string) (won bool, err error) {
	err = store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.FirstAuthority, string(chain), sealedKey).Scan(&won)
	})
	return won, store.ExplainInput("keeping the authority of the mesh", err)
}

// AddAuthority stores an authority that is to sign next, and returns its id.
func (s *Store) AddAuthority(ctx context.Context, chain []byte, sealedKey, by string) (id int64, err error) {
	err = store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.AddAuthority, string(chain), sealedKey).Scan(&id)
	})
	return id, store.ExplainInput("keeping an authority", err)
}

// ActivateAuthority makes the next authority sign. Unless forced, it returns a RefusedError before
// everybody had time to learn of the authority.
func (s *Store) ActivateAuthority(ctx context.Context, id int64, forced bool, by string) error {
	return s.changeAuthority(ctx, "activating an authority", sql.ActivateAuthority, id, forced, by)
}

// RetireAuthority ends the trust in an authority and deletes its key. Unless forced, it returns a
// RefusedError while members have certificates of it.
func (s *Store) RetireAuthority(ctx context.Context, id int64, forced bool, by string) error {
	return s.changeAuthority(ctx, "retiring an authority", sql.RetireAuthority, id, forced, by)
}

func (s *Store) changeAuthority(ctx context.Context, doing, query string, id int64, forced bool, by string) error {
	return store.ExplainInput(doing, store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, query, id, forced)
		return err
	}))
}

// ResealAuthority replaces the encrypted key of an authority, and reports whether it still was the
// one given as was.
func (s *Store) ResealAuthority(ctx context.Context, id int64, was, is string) (done bool, err error) {
	err = s.db.TrustPool().QueryRow(ctx, sql.ResealAuthority, id, was, is).Scan(&done)
	return done, store.ExplainInput("keeping the key of an authority", err)
}
