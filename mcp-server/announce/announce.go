// Package announce has services of the mesh announced in registries elsewhere, so that those outside
// find them.
//
// Each announcer is given the newest state that the server serves, for as long as the server knows
// that it is the newest. While the database is away nothing is wanted, and what was announced stays.
package announce

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	announcing "github.com/pgmesh/pgmesh/registry/announce"
)

// Announcements are those of a server.
type Announcements struct {
	publisher *publish.Publisher
	all       []*announcement
}

// New returns announcements of what a publisher serves.
func New(p *publish.Publisher, log *slog.Logger, metrics prometheus.Registerer, announcers []announcing.Announcer) *Announcements {
	a := &Announcements{publisher: p}
	for _, each := range announcers {
		a.all = append(a.all, &announcement{announcer: each, log: log.With("announcer", each.Name())})
	}
	metrics.MustRegister(a)
	return a
}

// Run announces until the context ends.
func (a *Announcements) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, one := range a.all {
		wanted := &announcing.Wanted{}
		f := &follower{selection: one.announcer.Selection(), log: one.log, chosen: map[string]*chosen{}}
		g.Go(func() error { return f.follow(ctx, a.publisher, wanted) })
		g.Go(func() error { return one.announcer.Run(ctx, wanted, one) })
	}
	return g.Wait()
}

// About says what people should know; "" if all is as it should be.
func (a *Announcements) About() string {
	var parts []string
	for _, one := range a.all {
		if text := one.about(); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// mostReason bounds what is kept and logged of a reason.
const mostReason = 500

// announcement is one announcer with what it has reported.
type announcement struct {
	announcer announcing.Announcer
	log       *slog.Logger

	mu        sync.Mutex
	away      string
	bad       map[string]string
	writes    bool
	instances int
	changes   int64
}

// Away implements announcing.Reports. It logs each reason once.
func (a *announcement) Away(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reason := ""
	if err != nil {
		reason = terse.Kept(err.Error(), mostReason)
	}
	switch reason {
	case a.away:
	case "":
		a.log.Info("services can be announced again")
	default:
		a.log.Warn("services cannot be announced; what was announced stays, and the server goes on trying", "error", reason)
	}
	a.away = reason
}

// Bad implements announcing.Reports.
func (a *announcement) Bad(wrong map[string]error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	bad := make(map[string]string, len(wrong))
	for name, err := range wrong {
		if bad[name] = terse.Kept(err.Error(), mostReason); bad[name] != a.bad[name] {
			a.log.Error("a service cannot be announced as it is", "resource", name, "error", bad[name])
		}
	}
	a.bad = bad
}

// Writes implements announcing.Reports.
func (a *announcement) Writes(is bool, instances int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case is && !a.writes:
		a.log.Info("this server announces the services of the mesh from now on")
	case !is && a.writes:
		a.log.Info("this server no longer announces the services of the mesh; what was announced stays")
	}
	a.writes, a.instances = is, instances
}

// Wrote implements announcing.Reports.
func (a *announcement) Wrote(changes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes += int64(changes)
}

func (a *announcement) about() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var parts []string
	if a.away != "" {
		parts = append(parts, fmt.Sprintf("services cannot be announced as %s: %s", a.announcer.Name(), a.away))
	}
	if len(a.bad) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(a.bad)))
		parts = append(parts, fmt.Sprintf("%d services cannot be announced as %s as they are, such as %s: %s", len(a.bad), a.announcer.Name(), first, a.bad[first]))
	}
	return strings.Join(parts, "; ")
}
