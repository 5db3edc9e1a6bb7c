// Package serve puts mcp-server together: the store's feed in, MCP and the admin API out.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/adsmetrics"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/mcp-server/admin"
	"github.com/pgmesh/pgmesh/mcp-server/feed"
	"github.com/pgmesh/pgmesh/mcp-server/housekeep"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/store"
)

// Options are what the program's flags set.
type Options struct {
	Database  string // connection URL
	Replica   string // connection URL of a hot standby to read revisions from; empty for Database
	Migrate   bool   // bring the schema up to date first
	Poll      time.Duration
	Listen    string // MCP and the admin API
	HTTP      string // health and metrics
	Plaintext listen.Plaintext
	Log       *slog.Logger
}

// Addresses are where a started program listens.
type Addresses struct{ MCP, HTTP net.Addr }

// Run serves until the context ends. Started is called once the sockets are open, if it is not nil. The database may be away, at
// the start and at any time after it: clients that come before the first snapshot wait for it.
func Run(ctx context.Context, o Options, started func(Addresses)) error {
	if o.Database == "" {
		return errors.New("--database is missing: the URL of the Postgres database that holds the mesh, such as postgres://user@host/mesh")
	}
	socket, err := o.Plaintext.TCP("listen", o.Listen)
	if err != nil {
		return err
	}
	web, err := listen.TCP("http", o.HTTP)
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	if started != nil {
		started(Addresses{socket.Addr(), web.Addr()})
	}
	o.Log.Info("serving", "mcp", socket.Addr().String(), "http", web.Addr().String())

	s := &server{options: o, metrics: monitor.NewRegistry()}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return monitor.Serve(ctx, web, s.metrics, s.ready, nil) })
	g.Go(func() error { return s.run(ctx, socket) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// server is the program between the start of its sockets and their end.
type server struct {
	options Options
	metrics *prometheus.Registry
	phase   phase
}

// run opens the store, which may take until the database is there, and serves from it. The socket is open before: a client that
// connects too early waits and is not turned away.
func (s *server) run(ctx context.Context, socket net.Listener) error {
	defer socket.Close()
	opened, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer opened.Close()
	log := s.options.Log
	publisher := publish.New(s.metrics)
	source := feed.New(opened, publisher, log, s.metrics)
	streams := publish.NewServer(publisher, adsmetrics.New(s.metrics, "mcp_server", publish.Label), log)
	s.metrics.MustRegister(connectedTo(opened))
	s.phase.opened(publisher)
	grpcServer := rpc.NewServer()
	streams.Register(grpcServer)
	admin.New(opened, publisher.Served, log).Register(grpcServer)

	news := publisher.Subscribe()
	defer news.Close()
	keeper := housekeep.New(opened, news.Changed(), log, s.metrics, housekeep.Options{})

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return source.Run(ctx) })
	g.Go(func() error { return keeper.Run(ctx) })
	g.Go(func() error { return rpc.Serve(ctx, grpcServer, socket, streams.Shutdown) })
	return g.Wait()
}

func (s *server) ready() error { return s.phase.ready() }

func connectedTo(s *store.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgmesh_mcp_server_database_connected", Help: "1 while the feed of the database is being followed.",
	}, func() float64 {
		if s.Status().Connected {
			return 1
		}
		return 0
	})
}
