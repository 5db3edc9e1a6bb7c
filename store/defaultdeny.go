package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// DefaultDeny says whether requests are denied unless an AuthorizationPolicy allows them.
type DefaultDeny struct {
	Enabled            bool
	Policy             *kinds.Key // the policy that denies
	MutualTLS          string     // the mode of sidecars without a policy of their own
	PeerAuthentication *kinds.Key // the resource that sets the mode
	Exceptions         []DefaultDenyException
}

// DefaultDenyException is a resource that allows more than named members.
type DefaultDenyException struct {
	Key    kinds.Key
	Reason string
}

const security = "security.istio.io"

// DefaultDeny reads the state of default deny.
func (s *Store) DefaultDeny(ctx context.Context) (d DefaultDeny, err error) {
	err = s.Reading(ctx, func(tx pgx.Tx) error {
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
	return d, Explain("asking whether default deny is on", err)
}

// named returns the key of a policy; nil if it has no name.
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

// SetDefaultDeny turns default deny on or off, as a revision. Only the Apply's origin and options count.
func (s *Store) SetDefaultDeny(ctx context.Context, enabled bool, a Apply) (Restored, error) {
	done, err := s.changeBy(ctx, a, nil, "SELECT operation, api_group, kind, namespace, name FROM mesh.set_default_deny($1)", enabled)
	return done, Explain("setting default deny", err)
}
