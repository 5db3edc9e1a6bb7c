// Package tenancy keeps what the namespaces of tenants may have: quotas, and hosts of their own.
package tenancy

import (
	"context"
	"embed"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is the tenancy of a database. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the tenancy of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Quotas, ResetSetting, PutSetting                              string
	HostGrants, GrantHosts, ForeignClaims, RevokeHosts, HostOwner string
}](files)

// Quota is a namespace's use and limits. The limits apply to whoever may not write to every
// namespace.
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
	rows, err := s.db.Pool().Query(ctx, sql.Quotas, namespaces)
	if err != nil {
		return nil, store.Explain("reading quotas", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Quota])
	return list, store.Explain("reading quotas", err)
}

// QuotaSettings are limits of one namespace, or the defaults for all. Nil leaves a limit as it is,
// and 0 means the default.
type QuotaSettings struct{ MaxResources, MaxBytes, ResourceMaxBytes, MaxDailyBytes *int64 }

// SetQuota sets the limits of a namespace; "" sets the defaults.
func (s *Store) SetQuota(ctx context.Context, namespace string, q QuotaSettings, by string) error {
	return store.ExplainInput("setting a quota", store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
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
		_, err := tx.Exec(ctx, sql.ResetSetting, name, namespace)
		return err
	}
	_, err := tx.Exec(ctx, sql.PutSetting, namespace, name, strconv.FormatInt(value, 10))
	return err
}
