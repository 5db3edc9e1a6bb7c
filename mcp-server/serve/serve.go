// Package serve puts mcp-server together: a source goes in, MCP and the admin API come out.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/access"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/adsmetrics"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/notify"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mcp-server/announce"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/legacy"
	"github.com/pgmesh/pgmesh/mcp-server/passage"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/readers"
	"github.com/pgmesh/pgmesh/mcp-server/registries"
	"github.com/pgmesh/pgmesh/mcp-server/saved"
)

// Options are what the program's flags set.
type Options struct {
	Database string // connection URL
	Replica  string // connection URL of a hot standby to read revisions from; empty for Database
	Migrate  bool   // update the schema before anything else
	Poll     time.Duration
	Upstream Upstream // instead of Database
	// Registries are read beside the source, or alone.
	Registries Registries
	// Announce has services of the mesh announced in registries.
	Announce  Announce
	StateDir  string          // folder to save what is served in; "" saves nothing
	Listen    string          // MCP and the admin API
	API       string          // the admin API as JSON over HTTP; "" means not at all
	HTTP      monitor.Options // health, metrics and pages for people
	Plaintext listen.Plaintext
	Security  Security
	Legacy    Legacy
	Readers   ads.Limits      // of clients that read over MCP
	Name      string          // of this server in the mesh; the host's if ""
	Hosts     []string        // names and addresses that clients dial; if none, the host's and those of loopback
	Authority authority.Files // instead of the authority in the database
	Patience  Patience
	Sealing   seal.Options // the keys that encrypt secrets; without any, secrets are stored in plain text
	// WorkloadGrace is how long the entry of a lost machine stays; registry.DefaultGrace if 0.
	WorkloadGrace time.Duration
	Traces        tracing.Options
	Log           *slog.Logger
	// Ready is called once clients are served. It may be nil.
	Ready func()
}

// Addresses are where a started program listens.
type Addresses struct {
	MCP, HTTP net.Addr
	API       net.Addr // nil if it is not served
}

// shown is an address for people.
func shown(address net.Addr) string {
	if address == nil {
		return "none"
	}
	return address.String()
}

// Run serves until the context ends. It calls started, which may be nil, once the sockets are open.
// The database may be away at the start and at any time after it: clients that come before the
// first snapshot wait for it.
func Run(ctx context.Context, o Options, started func(Addresses)) error {
	if err := o.checkSource(); err != nil {
		return err
	}
	if err := o.Legacy.check(); err != nil {
		return err
	}
	if err := o.checkAuthority(); err != nil {
		return err
	}
	if err := errors.Join(o.Security.check(o.ownCertificate()), o.HTTP.Access.Check()); err != nil {
		return err
	}
	keys, err := o.Sealing.Load()
	if err != nil {
		return err
	}
	on, err := o.open()
	if err != nil {
		return err
	}
	s, err := newServer(ctx, o, keys)
	if err != nil {
		return errors.Join(err, on.close())
	}
	defer s.tracer.Close(o.Log)
	from, err := s.source(ctx)
	if err == nil {
		s.door, err = o.door(from, s.metrics)
	}
	if ctx.Err() != nil { // it was told to stop while it waited for others
		return on.close()
	}
	if err != nil {
		return errors.Join(err, on.close())
	}
	at := on.addresses()
	if started != nil {
		started(at)
	}
	o.Log.Info("serving", "mcp", at.MCP.String(), "api", shown(at.API), "http", at.HTTP.String())

	g, ctx := errgroup.WithContext(ctx)
	ready := monitor.Ready(func() (string, error) { return s.ready(from) })
	g.Go(func() error { return monitor.Serve(ctx, on.web, o.HTTP.Access, s.metrics, ready, s.pages()...) })
	g.Go(func() error { return notify.RunWhenReady(ctx, ready.Ask) })
	g.Go(func() error { return s.tellReady(ctx) })
	g.Go(func() error { return s.serve(ctx, from, on) })
	g.Go(func() error { return s.follow(ctx, from) })
	g.Go(func() error { return s.dialSinks(ctx) })
	g.Go(func() error { return s.door.run(ctx) })
	g.Go(func() error { return s.views.Run(ctx) })
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	o.Log.Info("stopped, as it was told to")
	return nil
}

// newServer returns what the parts of the program share, before there is a source.
func newServer(ctx context.Context, o Options, keys *seal.Keys) (s *server, err error) {
	s = &server{options: o, metrics: monitor.NewRegistry(), clients: clients.NewRoll(), keys: keys}
	s.observers = ads.Observers{adsmetrics.New(s.metrics, adsmetrics.MCPServer, publish.Label), s.clients}
	s.budgets = o.Readers.Budgets(s.observers)
	s.recallKeys(ctx)
	s.publisher = publish.New(s.metrics)
	if err := errors.Join(s.joinRegistries(), s.openAnnouncers()); err != nil {
		return nil, err
	}
	s.views = readers.New(s.publisher.SubscribeWithSecrets, s.publisher.Subscribe, o.Log, s.metrics)
	s.legacy = s.newLegacy()
	s.sinks = legacy.NewSinks(s.legacy)
	return s, s.trace()
}

// pages are those for people.
func (s *server) pages() []monitor.Page {
	pages := []monitor.Page{s.sinksPage()}
	if s.options.HTTP.Profiles {
		pages = append(pages, monitor.Profiles())
	}
	return pages
}

// readerOf names the owner of a stream: its identity if it has shown one, and else its address.
func readerOf(ctx context.Context) string {
	if who := caller.From(ctx); who != nil && who.Identity() != caller.Local {
		return who.Identity()
	}
	return limits.Origin(ctx)
}

// server is what the parts of the program share.
type server struct {
	options   Options
	metrics   *prometheus.Registry
	publisher *publish.Publisher
	joined    *registries.Registries  // nil without registries
	announced *announce.Announcements // nil without announcers
	legacy    *legacy.Source
	sinks     *legacy.Sinks
	everySink everySink
	clients   *clients.Roll
	views     *readers.Views
	door      *door
	keys      *seal.Keys
	observers ads.Observers
	budgets   *ads.Budgets    // of readers of both generations
	tracer    *tracing.Tracer // nil if nothing is traced, and so is the next
	passage   *passage.Recorder
}

// source is where the mesh comes from, with the APIs that it makes possible.
type source interface {
	// run keeps the publisher at the newest state, and the views at what readers may see, until the
	// context ends.
	run(context.Context) error
	tokens() caller.Tokens
	// mesh knows who belongs to the mesh, if this server does.
	mesh() (_ mesh, known bool)
	register(grpc.ServiceRegistrar)
	// places are where it reads from.
	places() []string
	// closed returns why a method of the registered APIs cannot be used now.
	closed(ctx context.Context, method string) error
	// standing says what is wrong with the source. It returns an error if clients should go to
	// another server.
	standing() (about string, err error)
	// drain ends the streams of the registered APIs. It is called once.
	drain()
}

func (s *server) source(ctx context.Context) (source, error) {
	if len(s.options.Upstream.Addresses) > 0 {
		return s.upstream(ctx)
	}
	if s.options.Database == "" {
		return &bridge{server: s, opened: time.Now()}, nil
	}
	return s.database()
}

// follow runs the source, the registries and the announcers, and saves what is given. What was saved is recalled
// before they begin.
func (s *server) follow(ctx context.Context, from source) error {
	g, ctx := errgroup.WithContext(ctx)
	if s.options.StateDir != "" {
		keeper := saved.New(s.publisher, s.options.Log, s.metrics, saved.Options{Folder: s.options.StateDir, Places: from.places(), Keys: s.keys})
		g.Go(func() error { return keeper.Run(ctx) })
	}
	if s.joined != nil {
		g.Go(func() error { return s.joined.Run(ctx) })
	}
	if s.announced != nil {
		g.Go(func() error { return s.announced.Run(ctx) })
	}
	g.Go(func() error { return from.run(ctx) })
	return g.Wait()
}

// serve serves MCP, and the APIs of the source, over gRPC and over HTTP.
func (s *server) serve(ctx context.Context, from source, on sockets) error {
	within := publish.Within{Limits: s.options.Readers, Budgets: s.budgets, Reader: readerOf}
	streams := publish.NewServer(s.views.Subscribe, within, s.observers, s.options.Log)
	through := newCalls(newMeasured(s.metrics), from.closed)
	stopping, stop := context.WithCancel(context.Background())
	defer stop()
	grpcServer := rpc.NewServer(slices.Concat(s.door.options(s.options.Readers.Unfinished(s.observers)), through.options(), []grpc.ServerOption{grpc.ChainStreamInterceptor(s.hold(stopping))})...)
	streams.Register(grpcServer)
	s.legacy.Register(grpcServer)
	from.register(grpcServer)
	if err := access.Check(grpcServer.GetServiceInfo()); err != nil {
		return err
	}
	drain := func() { stop(); streams.Shutdown(); s.legacy.Shutdown(); from.drain() }

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return rpc.Serve(ctx, grpcServer, on.mcp, drain) })
	if on.api != nil {
		g.Go(func() error { return s.serveAPI(ctx, from, through, on.api) })
	}
	return g.Wait()
}
