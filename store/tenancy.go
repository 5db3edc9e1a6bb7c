package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Quota is a namespace's use and limits. The limits apply to whoever may not write to every namespace.
type Quota struct {
	Namespace        string
	Resources        int64
	MaxResources     int64
	Bytes            int64
	MaxBytes         int64
	ResourceMaxBytes int64
	WrittenToday     int64
	MaxDailyBytes    int64
}

// Quotas lists the quotas of some namespaces; all if none are given.
func (s *Store) Quotas(ctx context.Context, namespaces []string) ([]Quota, error) {
	rows, err := s.pool.Query(ctx, `SELECT namespace, resources, max_resources, bytes, max_bytes, mesh.setting('resource_max_bytes', namespace)::bigint, written_today, max_written
		FROM mesh.quotas WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY namespace COLLATE "C"`, namespaces)
	if err != nil {
		return nil, Explain("reading quotas", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Quota])
	return list, Explain("reading quotas", err)
}

// QuotaSettings are limits of one namespace, or the defaults for all. Nil leaves a limit as it is, and 0
// means the default.
type QuotaSettings struct{ MaxResources, MaxBytes, ResourceMaxBytes, MaxDailyBytes *int64 }

// SetQuota sets the limits of a namespace; "" sets the defaults.
func (s *Store) SetQuota(ctx context.Context, namespace string, q QuotaSettings, by string) error {
	return ExplainInput("setting a quota", InTheNameOf(ctx, s.trust, by, func(tx pgx.Tx) error {
		for _, set := range []struct {
			name  string
			value *int64
		}{
			{"namespace_max_resources", q.MaxResources},
			{"namespace_max_bytes", q.MaxBytes},
			{"resource_max_bytes", q.ResourceMaxBytes},
			{"namespace_max_daily_bytes", q.MaxDailyBytes},
		} {
			if set.value == nil {
				continue
			}
			if err := putSetting(ctx, tx, namespace, set.name, *set.value); err != nil {
				return err
			}
		}
		return nil
	}))
}

func putSetting(ctx context.Context, tx pgx.Tx, namespace, name string, value int64) error {
	if value == 0 {
		_, err := tx.Exec(ctx, "SELECT mesh.reset_setting($1, $2)", name, namespace)
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO mesh.settings (namespace, name, value) VALUES ($1, $2, $3)
		ON CONFLICT (name, namespace) DO UPDATE SET value = EXCLUDED.value`, namespace, name, strconv.FormatInt(value, 10))
	return err
}

// HostGrant is the ownership of a pattern of hosts.
type HostGrant struct {
	Pattern   string
	Namespace string // "" means that nobody may claim them
	By        string
	At        time.Time
}

// HostGrants lists the grants of some namespaces; all if none are given.
func (s *Store) HostGrants(ctx context.Context, namespaces []string) ([]HostGrant, error) {
	rows, err := s.pool.Query(ctx, `SELECT pattern, namespace, granted_by, granted_at FROM mesh.host_grants
		WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY pattern COLLATE "C"`, namespaces)
	if err != nil {
		return nil, Explain("reading the owners of hosts", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[HostGrant])
	return list, Explain("reading the owners of hosts", err)
}

// GrantHosts makes a namespace the owner of hosts, in the name of by. It returns how many resources claim
// hosts that others now own.
func (s *Store) GrantHosts(ctx context.Context, namespace string, patterns []string, by string) (foreign int64, err error) {
	err = InTheNameOf(ctx, s.trust, by, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT mesh.grant_hosts($1, p) FROM unnest($2::text[]) p", namespace, patterns); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT mesh.foreign_claims()").Scan(&foreign)
	})
	return foreign, ExplainInput("granting hosts", err)
}

// RevokeHosts revokes grants. If a pattern was not granted, it returns that pattern and revokes none.
func (s *Store) RevokeHosts(ctx context.Context, patterns []string, by string) (missing string, err error) {
	err = InTheNameOf(ctx, s.trust, by, func(tx pgx.Tx) error {
		for _, pattern := range patterns {
			var was bool
			if err := tx.QueryRow(ctx, "SELECT mesh.revoke_hosts($1)", pattern).Scan(&was); err != nil {
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
	return "", ExplainInput("revoking hosts", err)
}

var errUngranted = errors.New("it was not granted") // rolls the transaction back

// HostOwner returns the namespace that alone may claim a host for others; "" if nobody may. The host is
// not owned if everybody may claim it.
func (s *Store) HostOwner(ctx context.Context, host string) (namespace string, owned bool, err error) {
	var owner *string
	if err := s.pool.QueryRow(ctx, "SELECT mesh.owner_of_host(lower($1))", host).Scan(&owner); err != nil || owner == nil {
		return "", false, Explain("asking who owns a host", err)
	}
	return *owner, true, nil
}
