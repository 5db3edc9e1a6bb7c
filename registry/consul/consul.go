// Package consul reads services from Consul: its catalog, with the health that Consul knows.
//
// Package client asks Consul, package catalog follows the services of one datacenter, and this one
// makes of those of all datacenters what the mesh has ([resources]).
package consul

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/consul/catalog"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// Registry is one Consul, with one or several of its datacenters.
type Registry struct {
	*settings

	access *client.Access
	log    *slog.Logger
}

// Open reads the settings of a registry from its URL, and the files that it names.
func Open(u *url.URL, o reload.Options) (*Registry, error) {
	s, err := read(u)
	if err != nil {
		return nil, err
	}
	if !kinds.ValidNamespace(s.name) {
		return nil, fmt.Errorf("%q cannot be the name of a registry: give it one with name, of lower-case letters, digits and -", s.name)
	}
	if !kinds.ValidNamespace(s.into) {
		return nil, fmt.Errorf("%q cannot be a namespace of the mesh: name one with into, of lower-case letters, digits and -", s.into)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Registry{settings: s, log: o.Log}
	if r.access, err = s.client.Load(o); err != nil {
		return nil, err
	}
	return r, nil
}

// Name implements registry.Registry.
func (r *Registry) Name() string { return r.name }

// Run implements registry.Registry.
func (r *Registry) Run(ctx context.Context, sink registry.Sink) error {
	m := newMesh(r, sink)
	datacenters, err := m.toRead(ctx)
	if err != nil {
		return err
	}
	transport := r.access.Transport(r.watches + catalog.Beside*len(datacenters))
	defer transport.CloseIdleConnections()
	asks := r.access.Client(transport, r.always())
	group, ctx := errgroup.WithContext(ctx)
	parts := make([]*part, len(datacenters))
	for i, datacenter := range datacenters {
		parts[i] = m.add(datacenter)
	}
	for _, p := range parts {
		c := &catalog.Catalog{
			Client: asks, Datacenter: p.datacenter, Watches: r.watches / len(parts), Streams: r.streams / len(parts),
			Log: r.log.With("registry", r.name, "datacenter", p.datacenter),
		}
		group.Go(func() error { return c.Run(ctx, p) })
	}
	return group.Wait()
}

// always are parameters of every question.
func (r *Registry) always() url.Values {
	always := url.Values{}
	if r.namespace != "" {
		always.Set("ns", r.namespace)
	}
	if r.partition != "" {
		always.Set("partition", r.partition)
	}
	return always
}
