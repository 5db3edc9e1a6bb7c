// Package serve puts the stages of discovery together: configuration in over MCP, Envoy's
// configuration out over xDS.
package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/discovery/gatewaynames"
	"github.com/pgmesh/pgmesh/discovery/identity/jwks"
	"github.com/pgmesh/pgmesh/discovery/inspect"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/passage"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/rollout"
	"github.com/pgmesh/pgmesh/internal/access"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/adsmetrics"
	"github.com/pgmesh/pgmesh/internal/kit/notify"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/tracing"
)

// Options are what the program's flags set.
type Options struct {
	Sources    Sources
	Listen     string          // for xDS and certificates; "" means the default port, only on loopback without TLS
	HTTP       monitor.Options // health, metrics and pages for people
	Plaintext  listen.Plaintext
	Identity   Identity // used without --insecure
	Limits     ads.Limits
	RequestMiB int          // the largest request of a proxy
	Keys       jwks.Options // for keys that tokens are checked with
	// RoutesByHost is the number of rules with exact hosts from which a gateway's port gets its
	// routes host by host; 0 means never.
	RoutesByHost int
	// OwnGateways makes routers serve only the Gateways of their own namespace.
	OwnGateways bool
	// ReportProxies has mcp-server told what each proxy runs.
	ReportProxies bool
	Traces        tracing.Options
	Log           *slog.Logger
}

// DefaultRequestMiB has room for the names and versions of forty thousand resources.
const DefaultRequestMiB = 4

// Addresses are where a started program listens.
type Addresses struct{ XDS, HTTP net.Addr }

// Run serves until the context ends. It calls started, which may be nil, once the sockets are open.
func Run(ctx context.Context, o Options, started func(Addresses)) error {
	metrics := monitor.NewRegistry()
	who, err := o.mode(ctx, metrics)
	if err != nil {
		return ended(err)
	}
	defer who.close()
	config, pages, err := o.Sources.open(o.Plaintext, who.proves(), o.Log, metrics)
	if err != nil {
		return err
	}
	keys, err := jwks.New(o.Keys, o.Log, metrics)
	if err != nil {
		return err
	}
	tracer, way, err := o.trace(config, metrics)
	if err != nil {
		return err
	}
	defer tracer.Close(o.Log)
	xds, web, err := o.listen(who.listens())
	if err != nil {
		return err
	}
	engine := push.New(o.Log, metrics)
	engine.DivideByHostsFrom(o.RoutesByHost)
	guests := who.guests(engine, keys, metrics)
	machines := o.machines(who, guests, metrics)
	follower := newFollower(machines.following(engine.Update), metrics)
	follower.keys, follower.first, follower.names, follower.trust = keys, mesh.First(o.OwnGateways), gatewaynames.New(o.Log), guests.trust()
	follower.trace(way, engine)
	streams, server := o.server(engine, guests, way, metrics)
	reporter := o.reporter(who, rollout.Of(engine, streams), metrics)
	pages = append(append(pages, o.pages(engine, o.inspector(engine, streams, guests, metrics))...), machines.Page())
	machines.AddTo(server)
	if err := access.Check(server.GetServiceInfo()); err != nil {
		return errors.Join(err, xds.Close(), web.Close())
	}
	if started != nil {
		started(Addresses{xds.Addr(), web.Addr()})
	}
	o.Log.Info("serving", "xds", xds.Addr().String(), "http", web.Addr().String(), "sources", config.Name())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return config.Run(ctx, follower.hears(engine)) })
	g.Go(func() error { return follower.run(ctx) })
	g.Go(func() error { return keys.Run(ctx) })
	g.Go(func() error { return follower.names.Run(ctx) })
	g.Go(func() error { return machines.Run(ctx) })
	g.Go(func() error { return reporter.Run(ctx) })
	guests.run(ctx, g)
	g.Go(func() error {
		return rpc.Serve(ctx, server, xds, func() { shutdown(streams, guests, machines) })
	})
	ready := guests.ready(config.Ready)
	g.Go(func() error { return monitor.Serve(ctx, web, o.HTTP.Access, withOldNames(metrics), ready, pages...) })
	g.Go(func() error { return notify.RunWhenReady(ctx, ready.Ask) })
	defer guests.flush()
	defer way.Close()
	return o.farewell(ended(g.Wait()))
}

// server serves xDS, and the calls of members.
func (o *Options) server(engine *push.Engine, g guests, way *passage.Recorder, metrics prometheus.Registerer) (*ads.Server, *grpc.Server) {
	var observer ads.Observer = adsmetrics.New(metrics, adsmetrics.Discovery, push.Label)
	if way != nil {
		observer = ads.Observers{observer, way.Observer()}
	}
	largest := grpc.MaxRecvMsgSize(cmp.Or(o.RequestMiB, DefaultRequestMiB) << 20)
	server := rpc.NewServer(append(g.serverOptions(o.Limits.Unfinished(observer)), largest)...)
	streams := push.NewServer(engine, o.Limits, observer, o.Log)
	streams.Register(server)
	g.register(server)
	return streams, server
}

// listen opens the sockets.
func (o *Options) listen(t listen.Transport) (xds, web net.Listener, err error) {
	if err := o.HTTP.Access.Check(); err != nil {
		return nil, nil, err
	}
	if xds, err = o.listenXDS(t); err != nil {
		return nil, nil, err
	}
	if web, err = listen.TCP("http", o.HTTP.Address); err != nil {
		return nil, nil, errors.Join(err, xds.Close())
	}
	return xds, web, nil
}

// inspector shows the proxies: on pages, in metrics, and to istioctl.
func (o *Options) inspector(engine *push.Engine, streams *ads.Server, g guests, metrics prometheus.Registerer) *inspect.Inspector {
	look := &inspect.Inspector{Engine: engine, Server: streams, Limits: o.Limits}
	look.Register(metrics)
	name, _ := o.Identity.names()
	tool := inspect.Istioctl{Inspector: look, Name: name, Viewer: g.viewer}
	streams.Ask(tool.Questions())
	return look
}

// pages are those for people.
func (o *Options) pages(engine *push.Engine, look *inspect.Inspector) []monitor.Page {
	pages := append([]monitor.Page{problemsPage(engine)}, look.Pages()...)
	if o.HTTP.Profiles {
		pages = append(pages, monitor.Profiles())
	}
	return pages
}

// shutdown ends the streams, which would otherwise stay open.
func shutdown(of ...interface{ Shutdown() }) {
	for _, each := range of {
		each.Shutdown()
	}
}

// ended drops the error of an end that was asked for.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// farewell logs an end that was asked for, so that the log tells it from that of a program that was killed.
func (o *Options) farewell(err error) error {
	if err == nil {
		o.Log.Info("stopped, as it was told to")
	}
	return err
}
