package run

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/scrape"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/host/namesake"
	"github.com/pgmesh/pgmesh/mesh-agent/host/ownmark"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/services/register"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/passage"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// agent holds all parts that run in this program, from the machine's identity to its Envoy.
type agent struct {
	*Options

	reload  reloadSignals
	server  *status.Server
	log     *slog.Logger
	metrics prometheus.Registerer

	who        *member.Member
	began      joined // as what
	name       *namesake.Holder
	discovery  *upstream.Upstream
	tracer     *tracing.Tracer // nil if nothing is traced, and so is the next
	passage    *passage.Recorder
	supervisor *supervise.Supervisor
	apps       appServices
	redirected *redirection
	registered *register.Agent
}

// open opens the parts, each of which may need those before it. Only the machine's identity and the
// connection to discovery are active then.
func (a *agent) open(ctx context.Context) (err error) {
	registry := monitor.NewRegistry()
	a.metrics = registry
	if a.who, err = a.Machine.Member(ctx, a.log, a.metrics); err != nil {
		a.endInherited(ctx)
		return err
	}
	a.began = a.joined()
	if a.discovery, err = a.Machine.Connect(a.who, a.log, a.metrics); err != nil {
		return err
	}
	if err = a.trace(); err != nil {
		return err
	}
	if a.supervisor, err = a.prepareEnvoy(ctx); err != nil {
		return err
	}
	if a.apps, err = a.openAppServices(); err != nil {
		return err
	}
	a.server.Parts = status.Parts{Identity: a.who.Status, Revoked: a.discovery.Revoked, Discovery: a.discovery.Report, DNS: a.apps.names.Status(), Envoy: a.supervisor.Status}
	a.server.Redirected = a.Machine.Mode() != bootstrap.None
	if a.redirected, err = a.openRedirection(ctx); err != nil {
		return err
	}
	if a.registered, err = a.openRegistration(); err != nil {
		return err
	}
	if a.name, err = a.holdName(); err != nil {
		return err
	}
	if err := a.openStatus(registry); err != nil {
		return err
	}
	a.resumeDrain()
	return nil
}

// resumeDrain has this agent go on to drain, if the one before was killed or reloaded while it did.
func (a *agent) resumeDrain() {
	since := a.Machine.State.Drained()
	if since.IsZero() {
		return
	}
	a.supervisor.StartDraining()
	if a.registered != nil {
		a.registered.Withdrawn()
	}
	a.server.Drained(since)
}

// trace has the way of revisions recorded, if that is asked for.
func (a *agent) trace() error {
	proxy, err := a.Machine.Proxy(a.who)
	if err != nil {
		return err
	}
	a.Traces.Dialer = &net.Dialer{Control: ownmark.Control} // marked, or redirection would send it to Envoy
	if a.tracer, err = a.Traces.Open("mesh-agent", proxy.ID, a.log, a.metrics); err != nil {
		return err
	}
	a.passage = passage.New(a.tracer, proxy.NodeID())
	return nil
}

// holdName tells other agents of this machine that this one has the name.
func (a *agent) holdName() (*namesake.Holder, error) {
	proxy, err := a.Machine.Proxy(a.who)
	if err != nil {
		return nil, err
	}
	servers, err := a.Machine.Servers()
	return namesake.New(namesake.Name{Discovery: servers, Namespace: proxy.Namespace, ID: proxy.ID}, a.Machine.State.Path, a.log), err
}

// openStatus gives the status server the metrics, and the Envoy to ask and to drain.
func (a *agent) openStatus(own *prometheus.Registry) error {
	s, folder := a.server, a.Machine.State.Path
	s.StateDir, s.Ready, s.Rejoin, s.Reload, s.Namesake = folder, a.supervisor.Ready, a.rejoin, a.supervisor.Reload, a.name.Trouble
	s.Drainer.Drain, s.Drainer.Undrain = a.supervisor.Drain, a.supervisor.Undrain
	s.Drainer.Save, s.Drainer.Remove = a.Machine.State.SaveDrained, a.Machine.State.RemoveDrained
	s.Envoy, s.Metrics = envoyadmin.OfStateDir(folder), own
	page, err := scrape.Open(a.Scrape, s.Envoy, own, a.log, a.metrics)
	if err != nil {
		return err
	}
	s.StatsPage, page.Counting = page, a.who.Introduce
	return nil
}

func (a *agent) close() {
	a.tracer.Close(a.log)
	if a.discovery != nil {
		a.discovery.Close()
	}
}

// run runs the parts until ctx ends and Envoy has drained.
func (a *agent) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { a.server.State(status.Ending) })
	serving, end := context.WithCancel(context.WithoutCancel(ctx)) // Envoy needs its certificate until it has drained
	defer end()
	served, err := a.serveEnvoy(serving, relay.Options{Discovery: a.discovery, Names: a.apps.names.Sink(), Passage: a.passage, Log: a.log, Metrics: a.metrics})
	if err != nil {
		return err
	}
	group.Go(served)
	group.Go(func() error { a.apps.run(ctx, serving); return nil })
	if err := serveStatus(serving, group, a.server, a.apps.status); err != nil {
		return err
	}
	member := a.keepRegistered(ctx, serving, group)
	staying := a.redirected.run(member.staying(ctx, serving), group)
	group.Go(func() error {
		defer end()
		defer member.leave(serving)
		defer a.redirected.close(serving)
		return a.supervisor.Run(staying)
	})
	group.Go(func() error { return a.name.Run(ctx) })
	group.Go(func() error { a.server.FollowDrain(ctx); return nil })
	group.Go(func() error { return handleServiceManager(ctx, a.reload, a.supervisor) })
	group.Go(func() error { return a.Machine.AwaitMeshSettings(ctx, a.who, a.discovery, a.supervisor.Reload, a.log) })
	if err := group.Wait(); err != nil {
		return err
	}
	return a.Machine.State.RemoveDrained() // who starts the agent again wants it to serve
}

// serveStatus serves the agent's socket and the status port. It runs until after the drain, so that
// those who follow the log see its end.
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
