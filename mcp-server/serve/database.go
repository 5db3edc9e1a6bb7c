package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/admin"
	"github.com/pgmesh/pgmesh/mcp-server/examine"
	"github.com/pgmesh/pgmesh/mcp-server/feed"
	"github.com/pgmesh/pgmesh/mcp-server/housekeep"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/members"
	"github.com/pgmesh/pgmesh/mcp-server/identity/secrets"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/installation"
	"github.com/pgmesh/pgmesh/mcp-server/mirror"
	"github.com/pgmesh/pgmesh/mcp-server/registry"
	"github.com/pgmesh/pgmesh/mcp-server/rollout"
	"github.com/pgmesh/pgmesh/mcp-server/tenancy"
	"github.com/pgmesh/pgmesh/mcp-server/watchdog"
	"github.com/pgmesh/pgmesh/store"
	storefeed "github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/migration"
	"github.com/pgmesh/pgmesh/store/sinks"
)

// database is the source of a server that reads Postgres itself. Nobody may write to it before it
// is open.
type database struct {
	*server
	store      *store.Store
	callers    *callers.Store
	revisions  *storefeed.Feed
	feed       *feed.Feed
	examiner   *examine.Examiner
	admin      *admin.Service
	tokenCache *tokens.Cache
	authority  *authority.Authority
	registry   *registry.Registry
	rollout    *rollout.Service
	mirror     *mirror.Mirror // nil without registries
	watchdog   *watchdog.Watchdog
	installed  *installation.Watch
	opened     chan struct{} // closed once the database is open

	known    knownCallers // as last read
	kept     []byte       // the content of the file
	recalled sync.Once    // the saved state is restored once
}

func (s *server) database() (source, error) {
	d := &database{server: s, opened: make(chan struct{})}
	o := s.options
	var err error
	d.store, err = store.New(o.Database, store.Options{
		Application: "mcp-server", Log: o.Log, LockTimeout: o.Patience.LockTimeout,
		Blocked: func() { d.watchdog.Wake() },
	})
	if err != nil {
		return nil, err
	}
	d.revisions, err = storefeed.New(d.store, storefeed.Options{
		Replica: o.Replica, Poll: o.Poll, Followed: func(err error) { d.feed.Followed(err) },
	})
	if err != nil {
		d.store.Close()
		return nil, err
	}
	d.watchdog = watchdog.New(d.store, o.Patience.Watchdog, o.Log, s.metrics)
	d.installed = installation.New(d.store, installation.Options{}, o.Log)
	d.callers = callers.New(d.store)
	d.tokenCache = tokens.New(d.callers, o.Log)
	if d.authority, err = s.newAuthority(d.store, d.revisions); err != nil {
		d.store.Close()
		return nil, err
	}
	d.examiner = examine.New(d.store, o.Log)
	d.feed = feed.New(d.revisions, s.publisher, s.keys, o.Log, s.metrics)
	d.feed.See = d.examiner.See
	if s.passage != nil {
		d.feed.Published = s.passage.Read
	}
	s.metrics.MustRegister(connectedTo(d.revisions))
	d.admin = admin.New(admin.Config{
		Store: d.store, Feed: d.revisions, News: s.publisher.Subscribe, Served: s.publisher.Served, Ready: func() (string, error) { return s.ready(d) }, Source: s.publisher.Source,
		Opened: d.isOpen, Clients: s.clients.List, Sinks: s.sinksTold, Joined: s.besides(), Keys: s.keys, Version: program.Version(), Log: o.Log,
	})
	d.registry = registry.New(d.store, o.Log, s.metrics, registry.Options{Name: o.Name, Grace: o.WorkloadGrace})
	d.rollout = rollout.New(d.store, o.Log, s.metrics, rollout.Options{Name: o.Name})
	if s.joined != nil {
		d.mirror = mirror.New(d.store, s.joined.Trails(), o.Log, s.metrics, mirror.Options{Name: o.Name})
	}
	return d, nil
}

func (d *database) isOpen() bool {
	select {
	case <-d.opened:
		return true
	default:
		return false
	}
}

func (d *database) places() []string { return d.revisions.Places() }

func (d *database) register(g grpc.ServiceRegistrar) {
	d.admin.Register(g)
	d.authority.Register(g)
	tokens.NewService(d.callers, d.tokenCache, d.options.Log).Register(g)
	secrets.NewService(d.store, d.lent(), d.options.Log).Register(g)
	members.New(d.store, d.authority, d.options.Log).Register(g)
	d.registry.Register(g)
	d.rollout.Register(g)
	tenancy.NewService(d.store, d.options.Log).Register(g)
	watchdog.NewService(d.store, d.options.Log).Register(g)
}

func (d *database) tokens() caller.Tokens { return d.tokenCache }

func (d *database) mesh() (mesh, bool) { return d.authority, true }

func (d *database) drain() {
	d.admin.Shutdown()
	d.registry.Shutdown()
	d.rollout.Shutdown()
	d.authority.Shutdown()
}

// run follows the database, and serves as the mesh's authority, even while the database is away.
func (d *database) run(ctx context.Context) error {
	defer d.store.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.authority.Run(ctx) })
	g.Go(func() error { return d.openAndFollow(ctx) })
	return g.Wait()
}

// openAndFollow waits until the database can be opened, and follows it.
func (d *database) openAndFollow(ctx context.Context) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	close(d.opened)
	news := d.publisher.Subscribe()
	defer news.Close()
	keeper := housekeep.New(d.store, news.Changed(), d.options.Log, d.metrics, housekeep.Options{})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.feed.Run(ctx) })
	g.Go(func() error { return keeper.Run(ctx) })
	g.Go(func() error { return d.watchdog.Run(ctx) })
	g.Go(func() error { return d.installed.Run(ctx) })
	g.Go(func() error { return d.examiner.Run(ctx) })
	g.Go(func() error { return sinks.Follow(ctx, d.store, d.sinksOfTable()) })
	g.Go(func() error { return d.tokenCache.Run(ctx) })
	g.Go(func() error { return d.followCallers(ctx) })
	g.Go(func() error { return d.registry.Run(ctx) })
	g.Go(func() error { return d.rollout.Run(ctx) })
	if d.mirror != nil {
		g.Go(func() error { return d.mirror.Run(ctx) })
	}
	return g.Wait()
}

// open tries again as long as the database may come back without anybody's help, or there is
// something saved to serve meanwhile: a server that serves what it saved must not end because a
// password is wrong today. One that has no certificate to show serves nobody.
func (d *database) open(ctx context.Context) error {
	silent := time.AfterFunc(recallAfter, func() { d.recall(ctx, nil) })
	defer silent.Stop()
	return retry.Loop{
		Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 2 * time.Second},
		Failed: func(err error, _ time.Duration) {
			d.recall(ctx, err)
			d.publisher.Lost(err)
		},
		Reason: func(err error, _ time.Duration) {
			d.options.Log.Warn("cannot open the database; the server goes on trying", "error", err)
		},
	}.Until(ctx, func() error {
		err := d.tryToOpen(ctx)
		if err == nil || store.Temporary(err) {
			return err
		}
		d.recall(ctx, err)
		if !d.publisher.Primed() || d.options.ownAuthority() && d.authority.Current() == nil {
			return retry.Stop(err)
		}
		return err
	})
}

func (d *database) tryToOpen(ctx context.Context) error {
	if d.options.Migrate {
		if err := migration.UpTelling(ctx, d.options.Database, func(line string) { d.options.Log.Info(line) }); err != nil {
			return err
		}
	}
	if err := d.store.Check(ctx); err != nil {
		return err
	}
	err := d.unlockKeys(ctx)
	if err == nil {
		err = d.authority.Open(ctx)
	}
	return d.explainOtherMesh(ctx, err)
}

// explainOtherMesh says, with an error if there is one, that the database holds another mesh than what was
// saved. Then a key that opens what was saved may not open what is in the database.
func (d *database) explainOtherMesh(ctx context.Context, err error) error {
	saved := d.publisher.SavedMesh()
	if saved == "" || err != nil && store.Temporary(err) {
		return err
	}
	mesh, unread := d.revisions.Installation(ctx)
	switch {
	case unread != nil || mesh == saved:
		return err
	case err == nil:
		d.options.Log.Warn("the database holds another mesh than what was saved: clients are given what it has, and no more", "folder", d.options.StateDir, "saved", saved, "mesh", mesh)
		return nil
	}
	return fmt.Errorf("the database holds the mesh %s, and what this server saved in %s is of the mesh %s. Give it the database of the mesh that it saved; "+
		"or, if the other is meant, the keys of that mesh and an empty --state-dir: %w", mesh, d.options.StateDir, saved, err)
}

func connectedTo(f *storefeed.Feed) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pgmesh_mcp_server_database_connected", Help: "1 while the feed of the database is being followed.",
	}, func() float64 {
		if f.Status().Connected {
			return 1
		}
		return 0
	})
}
