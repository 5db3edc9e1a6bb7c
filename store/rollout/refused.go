package rollout

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// mostRefusals is how many refusals are listed: a mesh where more is refused is not read to the end.
const mostRefusals = 5000

// RefusedResource is a resource of Envoy's that a proxy refuses, as mesh.refusals shows it.
type RefusedResource struct {
	Namespace, Proxy, Discovery string
	TypeURL, Resource, Reason   string
	Since                       time.Time
	Source                      Source // the one that changed last; without a kind if none is known
	Revision                    int64  // of that change
	Author                      string
	Sources                     []Source
}

// Refusals lists what proxies of some namespaces refuse, or of all if they are nil; or one proxy.
// What that was made from is told as far as the reader may know it.
func (s *Store) Refusals(ctx context.Context, may []string, namespaces []string, proxy string) ([]RefusedResource, error) {
	return read(ctx, s, may, "reading what proxies refuse", func(row pgx.CollectableRow) (r RefusedResource, err error) {
		err = row.Scan(&r.Namespace, &r.Proxy, &r.Discovery, &r.TypeURL, &r.Resource, &r.Reason, &r.Since,
			&r.Source.Group, &r.Source.Kind, &r.Source.Namespace, &r.Source.Name, &r.Source.Path, &r.Revision, &r.Author, &r.Sources)
		return r, err
	}, sql.Refusals, namespaces, store.Storable(proxy), mostRefusals)
}
