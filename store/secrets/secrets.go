// Package secrets keeps secrets, which are no resources, and the keys that servers encrypt them
// with.
package secrets

import (
	"context"
	"embed"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is the secrets of a database. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the secrets of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Secrets, AllSecrets, ChangedSecrets string
	SealingKeys, AddSealingKey          string
}](files)

// Secret is a secret as stored: its values are base64, or encrypted by whoever wrote them.
type Secret struct {
	Namespace, Name     string
	Type                string
	Labels              map[string]string
	Data                map[string]string
	ServiceAccounts     []string          // of the gateways that may have it; all in its namespace if empty
	Digests             map[string]string // these tell values apart and reveal nothing else
	NotBefore, NotAfter time.Time         // of its certificate; zero if there is none
	Author              string
	Created, Updated    time.Time
}

// Key names the secret.
func (s *Secret) Key() kinds.Key {
	return kinds.Key{Kind: kinds.Secret, Namespace: s.Namespace, Name: s.Name}
}

// String keeps the values out of logs and errors.
func (s *Secret) String() string { return s.Key().String() }

// List lists the secrets of some namespaces; all if none are given.
func (s *Store) List(ctx context.Context, namespaces []string) ([]*Secret, error) {
	rows, err := s.db.Pool().Query(ctx, sql.Secrets, namespaces)
	if err != nil {
		return nil, store.Explain("reading secrets", err)
	}
	list, err := collect(rows)
	return list, store.Explain("reading secrets", err)
}

// All lists all secrets that a transaction sees, in no particular order.
func All(ctx context.Context, tx pgx.Tx) ([]*Secret, error) {
	rows, err := tx.Query(ctx, sql.AllSecrets)
	if err != nil {
		return nil, err
	}
	return collect(rows)
}
