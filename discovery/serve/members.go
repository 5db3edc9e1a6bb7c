package serve

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/pgmesh/pgmesh/discovery/identity/admit"
	"github.com/pgmesh/pgmesh/discovery/identity/issue"
	"github.com/pgmesh/pgmesh/discovery/identity/jwks"
	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/monitor"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// members is what a discovery with TLS does for members of the mesh: it admits them by their
// certificates, and gives machines theirs.
type members struct {
	who          *self
	keeper       *trust.Keeper
	door         *admit.Door
	issue        *issue.Service
	trustService *trust.Service
	keys         *jwks.Keeper
	root         func() string // the root namespace
	log          *slog.Logger
}

func (s *self) guests(engine *push.Engine, keys *jwks.Keeper, metrics prometheus.Registerer) guests {
	who, log := s, s.log
	m := &members{who: who, keeper: who.keeper(metrics), keys: keys, root: engine.RootNamespace, log: log}
	m.trustService = trust.NewService(m.keeper)
	m.door = admit.NewDoor(m.keeper.State, engine.Refuse, log, metrics)
	engine.AdmitBy(m.door.Node)
	var server identityv1.AuthorityServiceClient
	if who.conn != nil {
		server = identityv1.NewAuthorityServiceClient(who.conn)
	}
	renewals := limits.NewRenewals(who.options.Renewals, metrics)
	m.issue = issue.New(issue.Config{
		Trust: m.keeper.State, Authority: m.keeper.Authority, Server: server, Folder: who.options.StateDir, Keys: keys.Keys, Lifetime: who.options.Lifetime,
		Strangers: limits.NewStrangers(who.options.Strangers, metrics), Renewals: renewals, Log: log, Metrics: metrics,
	})
	return m
}

func (m *members) trust() trusted { return m.keeper }

const (
	// handshakeWithin bounds the time of a connection before its first request.
	handshakeWithin = 15 * time.Second
	// streamsPerConnection is far more than a machine has.
	streamsPerConnection = 1024
)

func (m *members) serverOptions(unfinished *limits.Memory) []grpc.ServerOption {
	return []grpc.ServerOption{
		bounded(m, unfinished), grpc.ChainStreamInterceptor(m.door.Stream),
		grpc.ConnectionTimeout(handshakeWithin), grpc.MaxConcurrentStreams(streamsPerConnection),
	}
}

// credentials are what discovery shows to clients.
func (m *members) credentials() credentials.TransportCredentials {
	return m.door.Credentials(m.who.certificate())
}

func (m *members) register(server *grpc.Server) {
	m.issue.Register(server)
	m.trustService.Register(server)
}

// Shutdown ends the streams that members have of it.
func (m *members) Shutdown() { m.trustService.Shutdown() }

func (m *members) flush() { m.issue.Flush() }

func (m *members) run(ctx context.Context, g *errgroup.Group) {
	m.who.run(ctx, g)
	g.Go(func() error { return m.keeper.Run(ctx) })
	g.Go(func() error { return m.issue.Run(ctx) })
	g.Go(func() error { return m.followFiles(ctx) })
	g.Go(func() error { return m.followTrust(ctx) })
}

// followFiles takes over changes of the operator's files.
func (m *members) followFiles(ctx context.Context) error {
	for {
		select {
		case <-m.who.changed:
			m.keeper.Refresh()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// followTrust ends the streams of those who are not trusted any more, and logs what keeps discovery
// from signing.
func (m *members) followTrust(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	about := outage{log: m.log}
	for {
		state, changed := m.keeper.Watch()
		if state != nil {
			m.door.Recheck()
			m.keys.WantToo(issue.Sources(state))
		}
		for looked := false; !looked; {
			select {
			case <-changed:
				looked = true
			case <-tick.C:
				_, err := m.keeper.Authority()
				about.look(err, time.Now())
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// ready also says whether discovery can sign. It fails if discovery may still trust somebody who
// was revoked.
func (m *members) ready(config monitor.Ready) monitor.Ready {
	return func() (string, error) {
		about, err := config()
		if err != nil {
			return about, err
		}
		said := []string{about}
		if _, cannot := m.keeper.Authority(); cannot != nil {
			said = append(said, "machines are given no certificates: "+cannot.Error())
		}
		stale, err := m.keeper.Stale()
		said = slices.DeleteFunc(append(said, stale), func(text string) bool { return text == "" })
		return strings.Join(said, "; "), err
	}
}
