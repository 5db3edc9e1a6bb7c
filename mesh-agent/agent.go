package main

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/host/register"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// agent holds all parts that run in this program, from the machine's identity to its Envoy.
type agent struct {
	*member

	reload       reloadSignals
	statusServer *status.Server
	log          *slog.Logger
	metrics      prometheus.Registerer

	who        *machine
	discovery  *upstream.Upstream
	supervisor *supervise.Supervisor
	apps       appServices
	redirected *redirection
	registered *register.Agent
}

// open opens the parts, each of which may need those before it. Only the machine's identity and the
// connection to discovery are active then.
func (a *agent) open(ctx context.Context, f *envoyFlags, s *scrapeFlags) (err error) {
	registry := monitor.NewRegistry()
	a.metrics = prometheus.WrapRegistererWithPrefix("pgmesh_mesh_agent_", registry)
	if a.who, err = a.machine(ctx, a.log, a.metrics); err != nil {
		f.endInherited(ctx, a.member, a.statusServer, a.log)
		return err
	}
	if a.discovery, err = a.connect(a.who, a.log, a.metrics); err != nil {
		return err
	}
	if a.supervisor, err = a.prepare(ctx, f, a.who, a.discovery, a.reload, a.statusServer, a.log); err != nil {
		return err
	}
	if a.apps, err = a.member.openAppServices(a.who, f.status, a.log, a.metrics); err != nil {
		return err
	}
	a.statusServer.Parts = status.Parts{Identity: a.who.status, Discovery: a.discovery.Report, DNS: a.apps.names.status(), Envoy: a.supervisor.Status}
	a.statusServer.Redirected = a.mode() != bootstrap.None
	if a.redirected, err = a.redirection(ctx, f.status, a.supervisor.Ask, a.statusServer, a.log); err != nil {
		return err
	}
	if a.registered, err = a.openRegistration(a.who, a.discovery, a.statusServer, a.log, a.metrics); err != nil {
		return err
	}
	return s.open(a.statusServer, a.state.Path, a.supervisor, registry, a.metrics)
}

func (a *agent) close() {
	if a.discovery != nil {
		a.discovery.Close()
	}
}

// run runs the parts until ctx ends and Envoy has drained.
func (a *agent) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { a.statusServer.State(status.Ending) })
	serving, end := context.WithCancel(context.WithoutCancel(ctx)) // Envoy needs its certificate until it has drained
	defer end()
	served, err := a.serveEnvoy(serving, a.who,
		relay.Options{Discovery: a.discovery, Names: a.apps.names.sink(), Log: a.log, Metrics: a.metrics}, &a.statusServer.Parts)
	if err != nil {
		return err
	}
	group.Go(served)
	group.Go(func() error { a.apps.run(ctx, serving); return nil })
	if err := serveStatus(serving, group, a.statusServer, a.apps.status); err != nil {
		return err
	}
	staying := a.redirected.run(keepRegistered(ctx, serving, group, a.registered, a.log), group)
	group.Go(func() error { defer end(); defer a.redirected.close(serving); return a.supervisor.Run(staying) })
	group.Go(func() error { return handleServiceManager(ctx, a.reload, a.supervisor) })
	group.Go(func() error { return a.awaitMeshSettings(ctx, a.who, a.discovery, a.supervisor, a.log) })
	return group.Wait()
}

// serveStatus serves the agent's socket and the status port. It runs until after the drain, so that those
// who follow the log see its end.
func serveStatus(serving context.Context, group *errgroup.Group, server *status.Server, port net.Listener) error {
	socket, err := server.Open()
	if err != nil {
		return err
	}
	group.Go(func() error { return server.Serve(serving, socket) })
	if port != nil {
		group.Go(func() error { return server.ServePort(serving, port) })
	}
	return nil
}
