package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mesh-agent/relay"
	"github.com/pgmesh/pgmesh/mesh-agent/sds"
)

// envoySocket is where Envoy has everything from.
func (m *member) envoySocket() (string, error) {
	return listen.UnixPath("state-dir", m.state.folder, "envoy.sock")
}

// openEnvoySocket opens it.
func (m *member) openEnvoySocket() (net.Listener, error) {
	path, err := m.envoySocket()
	if err != nil {
		return nil, err
	}
	_ = os.RemoveAll(filepath.Join(m.state.folder, "sds")) // where it was once
	return listen.Unix(path)
}

// serveEnvoy serves Envoy its configuration and the secrets of its machine, and keeps both new, until the context ends.
func (m *member) serveEnvoy(ctx context.Context, who *machine, o relay.Options) (run func() error, err error) {
	secrets := sds.New(o.Log)
	kept, err := who.keep(ctx, secrets, o.Discovery, o.Log)
	if err != nil {
		return nil, err
	}
	socket, err := m.openEnvoySocket()
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(relay.ServerOption())
	relay.New(o).Register(server)
	secrets.Register(server)
	return func() error {
		var group errgroup.Group
		group.Go(kept)
		group.Go(func() error {
			defer context.AfterFunc(ctx, server.Stop)()
			if err := server.Serve(socket); err != nil && ctx.Err() == nil {
				return fmt.Errorf("serve Envoy: %w", err)
			}
			return nil
		})
		return group.Wait()
	}, nil
}
