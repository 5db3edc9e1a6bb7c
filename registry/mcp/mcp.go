// Package mcp is a registry that is another MCP server: a bridge, a server of another mesh, an istiod,
// or whatever else speaks MCP.
//
// A [Registry] follows the server as discovery does, with mcp-client/mcp. Services become the
// registry's, with the workloads that they select as endpoints, so that nothing of the other mesh
// mixes with what this one selects. Resources of other kinds keep their names, and are taken only on
// request.
package mcp

import (
	"context"
	"log/slog"
	"net/url"

	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	client "github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/registry"
)

// Registry is another server, or several of one mesh, of which one is followed at a time.
type Registry struct {
	*settings

	connection *dial.Connection
	log        *slog.Logger
}

// Open reads the settings of a registry from its URL, and the files that it names.
func Open(u *url.URL, o reload.Options) (*Registry, error) {
	s, err := read(u)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	log := o.Log.With("registry", s.name)
	connection, err := s.dial.To(log, s.servers...)
	if err != nil {
		return nil, err
	}
	return &Registry{settings: s, connection: connection, log: log}, nil
}

// Name implements registry.Registry.
func (r *Registry) Name() string { return r.name }

// Run implements registry.Registry.
func (r *Registry) Run(ctx context.Context, sink registry.Sink) error {
	m := newMesh(r, sink)
	m.client = client.New(client.Config{
		Targets: r.servers, Protocol: r.protocol, Kinds: r.asked(), Name: "mcp-server", Namespace: r.within, Log: r.log,
		DialOptions: r.connection.DialOptions(), HoldEmpty: r.holdEmpty, AnswerTimeout: r.patience,
		Up: m.up, Down: m.down, Synced: m.synced, Standing: func(told client.Standing) error { return m.stand(ctx, told) },
	})
	defer m.watchSilence(r.patience)()
	return m.client.Run(ctx, m.apply)
}

var _ registry.Registry = (*Registry)(nil)
