package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// DefaultDeny tells whether nobody is let in but whom some AuthorizationPolicy allows.
type DefaultDeny struct {
	Enabled            bool
	Policy             *kinds.Key // which makes it so
	MutualTLS          string     // what sidecars demand where nothing else is said
	PeerAuthentication *kinds.Key // which says so
	Exceptions         []DefaultDenyException
}

// DefaultDenyException is a resource that lets in more than members that are named.
type DefaultDenyException struct {
	Key    kinds.Key
	Reason string
}

const security = "security.istio.io"

// DefaultDeny tells whether it is on.
func (s *Store) DefaultDeny(ctx context.Context) (d DefaultDeny, err error) {
	err = s.reading(ctx, func(tx pgx.Tx) error {
		var root string
		var policy, peer *string
		err := tx.QueryRow(ctx, "SELECT enabled, policy, mutual_tls, peer_authentication, mesh.root_namespace() FROM mesh.default_deny").Scan(&d.Enabled, &policy, &d.MutualTLS, &peer, &root)
		if err != nil {
			return err
		}
		d.Policy, d.PeerAuthentication = s.named("AuthorizationPolicy", root, policy), s.named("PeerAuthentication", root, peer)
		rows, err := tx.Query(ctx, `SELECT kind, namespace, name, exception FROM mesh.default_deny_exceptions ORDER BY namespace COLLATE "C", kind COLLATE "C", name COLLATE "C"`)
		if err != nil {
			return err
		}
		k, reason := key{group: security}, ""
		_, err = pgx.ForEachRow(rows, []any{&k.kind, &k.namespace, &k.name, &reason}, func() error {
			if known, ok := s.resolve(k, 0); ok {
				d.Exceptions = append(d.Exceptions, DefaultDenyException{known, reason})
			}
			return nil
		})
		return err
	})
	return d, explain("asking whether default deny is on", err)
}

// named is the key of a policy, if it has a name.
func (s *Store) named(kind, namespace string, name *string) *kinds.Key {
	if name == nil {
		return nil
	}
	known, ok := s.resolve(key{group: security, kind: kind, namespace: namespace, name: *name}, 0)
	if !ok {
		return nil
	}
	return &known
}

// SetDefaultDeny turns it on or off, as a revision. Of the Apply only what it says of itself counts.
func (s *Store) SetDefaultDeny(ctx context.Context, enabled bool, a Apply) (Restored, error) {
	done, err := s.changeBy(ctx, a, nil, "SELECT operation, api_group, kind, namespace, name FROM mesh.set_default_deny($1)", enabled)
	return done, explain("setting default deny", err)
}
