package rollout

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Listed is a proxy as mesh.proxies shows it.
type Listed struct {
	Description

	Discovery, Server string
	State             string
	Sent, Runs        int64 // 0 for none yet
	Refused           uint32
	Changed           time.Time // since when it is in this state
	Gone              time.Time // since when it is away; zero if it is not, or nobody knows yet

	Took *time.Duration // by the last change; nil before the first
}

// Filter selects proxies. An empty field selects all.
type Filter struct {
	Namespaces   []string
	Proxy, State string
}

// List lists the proxies that are connected, or have not been away for long.
func (s *Store) List(ctx context.Context, f Filter) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.List, f.Namespaces, store.Storable(f.Proxy), store.Storable(f.State))
	if err != nil {
		return nil, store.Explain("reading which proxies there are", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Listed, err error) {
		err = p.scan(row)
		return p, err
	})
	return list, store.Explain("reading which proxies there are", err)
}

// scan reads the columns of a proxy, and those that follow.
func (p *Listed) scan(row pgx.CollectableRow, more ...any) error {
	var took *int64
	err := row.Scan(append([]any{
		&p.Namespace, &p.Proxy, &p.Node, &p.Role, &p.ServiceAccount, &p.Labels, &p.Locality, &p.Network, &p.Addresses, &p.Envoy, &p.Agent, &p.Protocol,
		&p.Discovery, &p.Server, &p.Connected, &p.State, &p.Sent, &p.Runs, &p.Refused, &p.Changed, &p.Gone, &p.CertificateEnds, &took,
	}, more...)...)
	if took != nil {
		p.Took = new(time.Duration)
		*p.Took = time.Duration(*took) * time.Microsecond
	}
	return err
}
