package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sds"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
)

// envoySocket is the path of the socket that serves Envoy's configuration and secrets.
func (m *member) envoySocket() (string, error) {
	return listen.UnixPath("state-dir", m.state.Path, "envoy.sock")
}

// openEnvoySocket listens on the socket.
func (m *member) openEnvoySocket() (net.Listener, error) {
	path, err := m.envoySocket()
	if err != nil {
		return nil, err
	}
	_ = os.RemoveAll(m.state.File("sds")) // where earlier versions had the socket
	socket, err := listen.Unix(path)
	if err != nil {
		return nil, err
	}
	if err := m.tuning.own(path); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}

// keepFlags say what is stored for an Envoy that starts while discovery is away.
type keepFlags struct{ secrets bool }

func (f *keepFlags) declare(flags *pflag.FlagSet) {
	flags.BoolVar(&f.secrets, "keep-secrets", false, "keep on disk also the certificates and keys of a gateway that come from discovery, "+
		"in a file that this account alone may read: without them it does not serve TLS after a restart while discovery is away")
}

// lastGood opens the last good configuration. The owner has everything that configuration depends on, so a
// proxy that changed does not use an old one.
func (m *member) lastGood(who *machine, log *slog.Logger) (*lastgood.Store, error) {
	o, err := m.complete(who)
	if err != nil {
		return nil, err
	}
	owner := []string{"id=" + o.ID, "ip=" + o.IP, "domain=" + o.Domain, "role=" + string(o.Role), "interception=" + string(o.Interception), "xds=" + string(o.XDS)}
	if who != nil {
		owner = append(owner, "identity="+who.Workload.String())
	} else {
		owner = append(owner, "namespace="+o.Namespace, "service-account="+o.ServiceAccount)
	}
	for _, label := range slices.Sorted(maps.Keys(o.Labels)) {
		owner = append(owner, "label "+label+"="+o.Labels[label])
	}
	return lastgood.Open(lastgood.Options{
		Folder: m.state.File("config"), Owner: strings.Join(owner, ", "), Secrets: m.keep.secrets, Log: log,
	})
}

// serveEnvoy prepares to serve Envoy its configuration and secrets. The returned function runs until the
// context ends.
func (m *member) serveEnvoy(ctx context.Context, who *machine, o relay.Options, parts *status.Parts) (run func() error, err error) {
	secrets := sds.New(o.Log)
	current, err := who.keep(ctx, secrets, o.Discovery, o.Log)
	if err != nil {
		return nil, err
	}
	if o.Kept, err = m.lastGood(who, o.Log); err != nil {
		return nil, err
	}
	socket, err := m.openEnvoySocket()
	if err != nil {
		return nil, err
	}
	config, server := relay.New(o), grpc.NewServer(append(panics.ServerOptions(), relay.ServerOption())...)
	config.Register(server)
	secrets.Register(server)
	parts.XDS = config.Report
	return func() error {
		defer o.Kept.Close()
		var group errgroup.Group
		group.Go(current)
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
