// Package serve puts the stages of discovery together: configuration in over MCP, Envoy's configuration out over xDS.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/adsmetrics"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// Options are what the program's flags set.
type Options struct {
	Source    Source
	Listen    string // xDS
	HTTP      string // health and metrics
	Plaintext listen.Plaintext
	Log       *slog.Logger
}

// Addresses are where a started program listens.
type Addresses struct{ XDS, HTTP net.Addr }

// Run serves until the context ends. Started is called once the sockets are open, if it is not nil.
func Run(ctx context.Context, o Options, started func(Addresses)) error {
	client, err := o.Source.client(o.Plaintext, o.Log)
	if err != nil {
		return err
	}
	xds, err := o.Plaintext.TCP("listen", o.Listen)
	if err != nil {
		return err
	}
	web, err := listen.TCP("http", o.HTTP)
	if err != nil {
		return errors.Join(err, xds.Close())
	}
	metrics := monitor.NewRegistry()
	engine := push.New(o.Log, metrics)
	streams := push.NewServer(engine, adsmetrics.New(metrics, "discovery", push.Label), o.Log)
	metrics.MustRegister(revisionOf(client), connectedTo(client), sourceCollector{client})
	server := rpc.NewServer()
	streams.Register(server)

	if started != nil {
		started(Addresses{xds.Addr(), web.Addr()})
	}
	o.Log.Info("serving", "xds", xds.Addr().String(), "http", web.Addr().String(), "mcp", o.Source.Addresses)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return client.Run(ctx, follow(engine)) })
	g.Go(func() error { return rpc.Serve(ctx, server, xds, streams.Shutdown) })
	g.Go(func() error { return monitor.Serve(ctx, web, metrics, ready(client), nil) })
	return ended(g.Wait())
}

// ended tells a failure from the end that was asked for.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// follow applies each batch to the configuration and pushes what follows from it.
func follow(engine *push.Engine) func(mcp.Batch) error {
	config, current := configstore.New(), (*mesh.Mesh)(nil)
	return func(b mcp.Batch) error {
		before := config.Snapshot()
		changes := make([]push.Change, len(b.Changes))
		for i, c := range b.Changes {
			changes[i] = push.Change{Before: before.Get(c.Key), After: c.Resource}
		}
		current = mesh.Build(config.Apply(b), current)
		engine.Update(current, b.Revision, changes)
		return nil
	}
}

func ready(client *mcp.Client) monitor.Ready {
	return func() (about string, err error) {
		s := client.Status()
		switch {
		case s.Synced && !s.Connected: // proxies are served from what is held
			return fmt.Sprintf("serving revision %d; the MCP server is lost: %v", s.Revision, s.LastError), nil
		case s.Synced && s.Standing != nil && !s.Standing.Stale.IsZero():
			return fmt.Sprintf("serving revision %d, which the MCP server knew to be the newest at %s", s.Revision, s.Standing.Stale.UTC().Format(time.RFC3339)), nil
		case s.Synced:
			return "", nil
		case s.LastError != nil:
			return "", fmt.Errorf("no configuration has come from the MCP server: %w", s.LastError)
		default:
			return "", errors.New("no configuration has come from the MCP server yet")
		}
	}
}

func revisionOf(client *mcp.Client) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgmesh_discovery_revision", Help: "The revision that proxies are served.",
	}, func() float64 { return float64(client.Status().Revision) })
}

func connectedTo(client *mcp.Client) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgmesh_discovery_mcp_connected", Help: "1 while the stream to the MCP server is up.",
	}, func() float64 {
		if client.Status().Connected {
			return 1
		}
		return 0
	})
}
