// Package serve puts the stages of discovery together: configuration in over MCP, Envoy's configuration out over xDS.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/adsmetrics"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

// Options are what the program's flags set.
type Options struct {
	Sources   Sources
	Listen    string // xDS
	HTTP      string // health and metrics
	Plaintext listen.Plaintext
	Log       *slog.Logger
}

// Addresses are where a started program listens.
type Addresses struct{ XDS, HTTP net.Addr }

// Run serves until the context ends. Started is called once the sockets are open, if it is not nil.
func Run(ctx context.Context, o Options, started func(Addresses)) error {
	metrics := monitor.NewRegistry()
	config, pages, err := o.Sources.open(o.Plaintext, o.Log, metrics)
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
	engine := push.New(o.Log, metrics)
	pages["GET /problems"] = problemsPage(engine)
	streams := push.NewServer(engine, adsmetrics.New(metrics, "discovery", push.Label), o.Log)
	server := rpc.NewServer()
	streams.Register(server)

	if started != nil {
		started(Addresses{xds.Addr(), web.Addr()})
	}
	o.Log.Info("serving", "xds", xds.Addr().String(), "http", web.Addr().String(), "sources", config.Name())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return config.Run(ctx, follow(engine, metrics)) })
	g.Go(func() error { return rpc.Serve(ctx, server, xds, streams.Shutdown) })
	g.Go(func() error { return monitor.Serve(ctx, web, metrics, config.Ready, pages) })
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
func follow(engine *push.Engine, metrics prometheus.Registerer) func(configstore.Batch) error {
	config, current := configstore.New(), (*mesh.Mesh)(nil)
	revision := prometheus.NewGauge(prometheus.GaugeOpts{Name: "pgmesh_discovery_revision", Help: "The revision that proxies are served."})
	metrics.MustRegister(revision)
	return func(b configstore.Batch) error {
		before := config.Snapshot()
		changes := make([]push.Change, len(b.Changes))
		for i, c := range b.Changes {
			changes[i] = push.Change{Before: before.Get(c.Key), After: c.Resource}
		}
		b.Decode()
		current = mesh.Build(config.Apply(b), current)
		engine.Update(current, b.Revision, changes)
		revision.Set(float64(b.Revision))
		return nil
	}
}
