// Package defaultdeny turns on and off that requests are denied unless an AuthorizationPolicy
// allows them.
package defaultdeny

import (
	"context"
	"embed"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/query"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Store is the default deny of a database. Its methods may be called concurrently.
type Store struct {
	db        *store.Store
	resources *resources.Store
}

// New returns the default deny of a database.
func New(db *store.Store) *Store { return &Store{db, resources.New(db)} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct{ State, Exceptions, Set string }](files)

// State says whether requests are denied unless an AuthorizationPolicy allows them.
type State struct {
	Enabled            bool
	Policy             *kinds.Key // the policy that denies
	MutualTLS          string     // the mode of sidecars without a policy of their own
	PeerAuthentication *kinds.Key // the resource that sets the mode
	Exceptions         []Exception
}

// Exception is a resource that allows more than named members.
type Exception struct {
	Key    kinds.Key
	Reason string
}

const security = "security.istio.io"

// Read reads the state of default deny.
func (s *Store) Read(ctx context.Context) (d State, err error) {
	err = s.db.Reading(ctx, func(tx pgx.Tx) error {
		var root string
		var policy, peer *string
		err := tx.QueryRow(ctx, sql.State).Scan(&d.Enabled, &policy, &d.MutualTLS, &peer, &root)
		if err != nil {
			return err
		}
		d.Policy, d.PeerAuthentication = s.named("AuthorizationPolicy", root, policy), s.named("PeerAuthentication", root, peer)
		exceptions, err := tx.Query(ctx, sql.Exceptions)
		if err != nil {
			return err
		}
		k, reason := rows.Key{Group: security}, ""
		_, err = pgx.ForEachRow(exceptions, []any{&k.Kind, &k.Namespace, &k.Name, &reason}, func() error {
			if known, ok := k.Known(s.db, 0); ok {
				d.Exceptions = append(d.Exceptions, Exception{known, reason})
			}
			return nil
		})
		return err
	})
	return d, store.Explain("asking whether default deny is on", err)
}

// named returns the key of a policy; nil if it has no name.
func (s *Store) named(kind, namespace string, name *string) *kinds.Key {
	if name == nil {
		return nil
	}
	k := rows.Key{Group: security, Kind: kind, Namespace: namespace, Name: *name}
	known, ok := k.Known(s.db, 0)
	if !ok {
		return nil
	}
	return &known
}

// Set turns default deny on or off, as a revision. Only the Apply's origin and options count.
func (s *Store) Set(ctx context.Context, enabled bool, a resources.Apply) (resources.Called, error) {
	done, err := s.resources.Call(ctx, a, nil, sql.Set, enabled)
	return done, store.Explain("setting default deny", err)
}
