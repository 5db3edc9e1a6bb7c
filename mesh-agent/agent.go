package main

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/mesh-agent/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/register"
	"github.com/pgmesh/pgmesh/mesh-agent/relay"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/upstream"
)

// agent is all that runs in this program, from the machine's identity to its Envoy.
type agent struct {
	*member

	reloads reloads
	about   *status.Server
	log     *slog.Logger
	metrics prometheus.Registerer

	who        *machine
	discovery  *upstream.Upstream
	supervisor *supervise.Supervisor
	beside     beside
	redirected *redirection
	registered *register.Agent
}

// open makes the parts, each of those before it. Nothing but the machine's identity and its connection to discovery is at work yet.
func (a *agent) open(ctx context.Context, f *envoyFlags, s *scrapeFlags) (err error) {
	registry := monitor.NewRegistry()
	a.metrics = prometheus.WrapRegistererWithPrefix("pgmesh_mesh_agent_", registry)
	if a.who, err = a.machine(ctx, a.log, a.metrics); err != nil {
		f.endLeft(ctx, a.member, a.about, a.log)
		return err
	}
	if a.discovery, err = a.connect(a.who, a.log, a.metrics); err != nil {
		return err
	}
	if a.supervisor, err = a.prepare(ctx, f, a.who, a.discovery, a.reloads, a.about, a.log); err != nil {
		return err
	}
	if a.beside, err = a.member.beside(a.who, f.status, a.log, a.metrics); err != nil {
		return err
	}
	a.about.Parts = status.Parts{Identity: a.who.status, Discovery: discoveryStatus(a.discovery), DNS: a.beside.names.status(), Envoy: a.supervisor.Status}
	a.about.Redirected = a.mode() != bootstrap.None
	if a.redirected, err = a.redirection(ctx, f.status, a.supervisor.Ask, a.about, a.log); err != nil {
		return err
	}
	if a.registered, err = a.registering(a.who, a.discovery, a.about, a.log, a.metrics); err != nil {
		return err
	}
	return s.open(a.about, a.state.folder, a.supervisor, registry, a.metrics)
}

func (a *agent) close() {
	if a.discovery != nil {
		a.discovery.Close()
	}
}

// run has the parts work until ctx ends and Envoy has drained.
func (a *agent) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { a.about.State(status.Ending) })
	lasting, end := context.WithCancel(context.WithoutCancel(ctx)) // Envoy needs its certificate until it has drained
	defer end()
	served, err := a.serveEnvoy(lasting, a.who,
		relay.Options{Discovery: a.discovery, Names: a.beside.names.take(), Log: a.log, Metrics: a.metrics}, &a.about.Parts)
	if err != nil {
		return err
	}
	group.Go(served)
	group.Go(func() error { a.beside.run(ctx, lasting); return nil })
	if err := answer(lasting, group, a.about, a.beside.status); err != nil {
		return err
	}
	staying := a.redirected.during(stay(ctx, lasting, group, a.registered, a.log), group)
	group.Go(func() error { defer end(); defer a.redirected.close(lasting); return a.supervisor.Run(staying) })
	group.Go(func() error { return heed(ctx, a.reloads, a.supervisor) })
	group.Go(func() error { return a.awaitMesh(ctx, a.who, a.discovery, a.supervisor, a.log) })
	return group.Wait()
}

// answer answers who asks for the status: people over the agent's socket, and machines over the status port. Who follows the end wants to hear
// all of it.
func answer(lasting context.Context, group *errgroup.Group, about *status.Server, port net.Listener) error {
	socket, err := about.Open()
	if err != nil {
		return err
	}
	group.Go(func() error { return about.Serve(lasting, socket) })
	if port != nil {
		group.Go(func() error { return about.ServePort(lasting, port) })
	}
	return nil
}
