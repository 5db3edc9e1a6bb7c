// Package mirror has one server write what a registry has into the database, where people find it
// in mesh.services. What clients are served never comes from there.
//
// The first server to claim a registry mirrors it, for as long as its session with the database
// lasts; others wait for their turn. What has not changed is not written, and while nothing changes,
// nothing is asked.
package mirror

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	joined "github.com/pgmesh/pgmesh/mcp-server/registries"
	"github.com/pgmesh/pgmesh/mcp-server/writeback"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/registries"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// Options of a Mirror. The zero value is right for production, except for the name.
type Options struct {
	Name          string        // the server's
	ClaimInterval time.Duration // how often to try to claim what another server mirrors; 5 s if 0
	CheckInterval time.Duration // how often to ask whether the session is there; 5 s if 0
	CheckTimeout  time.Duration // how long the session may take to answer; 10 s if 0
}

const (
	// pause lies between two transactions, so that a registry in which much changes does not cost one
	// each time. What changes after a pause is written at once.
	pause = 200 * time.Millisecond

	// leaveTimeout bounds leaving the registries to others. Without that they are found to be left
	// once the session is gone.
	leaveTimeout = 3 * time.Second
)

// Mirror mirrors the registries of a server.
type Mirror struct {
	store   *registries.Store
	keepers *rollout.Store
	trails  []*joined.Trail
	options Options
	log     *slog.Logger
	mine    *prometheus.GaugeVec
}

// New returns the mirror of registries, in the order in which they count.
func New(s *store.Store, trails []*joined.Trail, log *slog.Logger, metrics prometheus.Registerer, o Options) *Mirror {
	if o.ClaimInterval == 0 {
		o.ClaimInterval = 5 * time.Second
	}
	if o.CheckInterval == 0 {
		o.CheckInterval = 5 * time.Second
	}
	if o.CheckTimeout == 0 {
		o.CheckTimeout = 10 * time.Second
	}
	m := &Mirror{
		store: registries.New(s), keepers: rollout.New(s), trails: trails, options: o, log: log,
		mine: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pgmesh_mcp_server_origin_mirrored", Help: "1 while this server is the one that shows the registry in mesh.services.",
		}, []string{"registry"}),
	}
	for _, t := range trails {
		m.mine.WithLabelValues(t.Name()).Set(0)
	}
	metrics.MustRegister(m.mine)
	return m
}

// Run mirrors until the context ends.
func (m *Mirror) Run(ctx context.Context) error {
	return retry.Loop{
		Pauses: retry.Pauses{First: time.Second, Longest: 30 * time.Second},
		Reason: func(err error, again time.Duration) {
			m.log.Warn("cannot show registries in mesh.services; they are served all the same, and the server goes on trying", "again_in", again, "error", err)
		},
	}.Forever(ctx, func(works func()) error { return m.term(ctx, works) })
}

// term mirrors for as long as one session lasts.
func (m *Mirror) term(ctx context.Context, works func()) error {
	keeper, err := m.keepers.Keep(ctx, m.options.Name)
	if err != nil {
		return err
	}
	defer m.leave(keeper)
	works()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.check(ctx, keeper) })
	for i, t := range m.trails {
		g.Go(func() error { return m.follow(ctx, keeper, t, i+1) })
	}
	return g.Wait()
}

func (m *Mirror) leave(keeper *rollout.Keeper) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := m.store.Leave(ctx, keeper); err != nil {
		m.log.Debug("cannot leave registries to other servers at once", "error", err)
	}
	keeper.Close(ctx)
}

// check ends the term when its session is lost, or does not answer: another server may have a
// database that does.
func (m *Mirror) check(ctx context.Context, keeper *rollout.Keeper) error {
	for wait.For(ctx, m.options.CheckInterval) {
		if err := m.alive(ctx, keeper); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *Mirror) alive(ctx context.Context, keeper *rollout.Keeper) error {
	ctx, cancel := context.WithTimeout(ctx, m.options.CheckTimeout)
	defer cancel()
	return keeper.Alive(ctx)
}

// follow mirrors a registry whenever no other server does.
func (m *Mirror) follow(ctx context.Context, keeper *rollout.Keeper, t *joined.Trail, rank int) error {
	for {
		mine, err := m.store.Claim(ctx, keeper, registries.Registry{Name: t.Name(), Rank: rank}, t.Status().Read)
		if err != nil {
			return err
		}
		if mine {
			err := m.serve(ctx, keeper, t)
			if m.mine.WithLabelValues(t.Name()).Set(0); err != nil {
				return err
			}
		}
		if !wait.For(ctx, m.options.ClaimInterval) {
			return ctx.Err()
		}
	}
}

// errMirroredElsewhere ends what goes on beside a mirror.
var errMirroredElsewhere = errors.New("another server mirrors the registry")

// serve mirrors a registry that was claimed, and has what becomes of it written there, until another
// server has it.
func (m *Mirror) serve(ctx context.Context, keeper *rollout.Keeper, t *joined.Trail) error {
	w := writeback.New(m.store, t, m.log)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.Run(ctx) })
	g.Go(func() error {
		if err := m.keepUp(ctx, keeper, t, w); err != nil {
			return err
		}
		return errMirroredElsewhere
	})
	if err := g.Wait(); !errors.Is(err, errMirroredElsewhere) {
		return err
	}
	return nil
}
