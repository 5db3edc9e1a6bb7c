package tenancy

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// HostGrant is the ownership of a pattern of hosts.
type HostGrant struct {
	Pattern   string
	Namespace string // "" means that nobody may claim them
	By        string
	At        time.Time
}

// HostGrants lists the grants of some namespaces; all if none are given.
func (s *Store) HostGrants(ctx context.Context, namespaces []string) ([]HostGrant, error) {
	rows, err := s.db.Pool().Query(ctx, sql.HostGrants, namespaces)
	if err != nil {
		return nil, store.Explain("reading the owners of hosts", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[HostGrant])
	return list, store.Explain("reading the owners of hosts", err)
}

// GrantHosts makes a namespace the owner of hosts, in the name of by. It returns how many resources
// claim hosts that others now own.
func (s *Store) GrantHosts(ctx context.Context, namespace string, patterns []string, by string) (foreign int64, err error) {
	err = store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql.GrantHosts, namespace, patterns); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sql.ForeignClaims).Scan(&foreign)
	})
	return foreign, store.ExplainInput("granting hosts", err)
}

// RevokeHosts revokes grants. If a pattern was not granted, it returns that pattern and revokes
// none.
func (s *Store) RevokeHosts(ctx context.Context, patterns []string, by string) (missing string, err error) {
	err = store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		for _, pattern := range patterns {
			var was bool
			if err := tx.QueryRow(ctx, sql.RevokeHosts, pattern).Scan(&was); err != nil {
				return err
			}
			if !was {
				missing = pattern
				return errUngranted
			}
		}
		return nil
	})
	if errors.Is(err, errUngranted) {
		return missing, nil
	}
	return "", store.ExplainInput("revoking hosts", err)
}

var errUngranted = errors.New("it was not granted") // rolls the transaction back

// HostOwner returns the namespace that alone may claim a host for others; "" if nobody may. The
// host is not owned if everybody may claim it.
func (s *Store) HostOwner(ctx context.Context, host string) (namespace string, owned bool, err error) {
	var owner *string
	if err := s.db.Pool().QueryRow(ctx, sql.HostOwner, host).Scan(&owner); err != nil || owner == nil {
		return "", false, store.Explain("asking who owns a host", err)
	}
	return *owner, true, nil
}
