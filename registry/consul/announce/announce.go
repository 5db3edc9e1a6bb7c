// Package announce writes services of the mesh into the catalog of a Consul, so that those outside
// the mesh find them.
//
// All of them are at one node of their own, which has no agent. Their meta says that they are the
// mesh's: nothing else is ever changed. Of all servers one writes ([lock]), and each transaction
// holds only while that one has the lock, so a server that has lost it without knowing writes
// nothing.
package announce

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/registry/announce"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// Announcer writes into one Consul.
type Announcer struct {
	*settings

	access *client.Access
	log    *slog.Logger
}

// Open reads the settings of an announcer from its URL, and the files that it names.
func Open(u *url.URL, o reload.Options) (*Announcer, error) {
	s, err := read(u)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Announcer{settings: s, log: o.Log}
	a.access, err = s.client.Load(o)
	return a, err
}

// Name implements announce.Announcer.
func (a *Announcer) Name() string { return a.name }

// Selection implements announce.Announcer.
func (a *Announcer) Selection() announce.Selection { return a.selection }

// connections are one for the lock, one for renewing it, and those that write.
const connections = 4

// stable is how long a term lasts that is no failure to begin one.
const stable = 10 * time.Second

// Run implements announce.Announcer.
func (a *Announcer) Run(ctx context.Context, wanted *announce.Wanted, reports announce.Reports) error {
	transport := a.access.Transport(connections)
	defer transport.CloseIdleConnections()
	l := &lock{client: a.access.Client(transport, url.Values{}), key: "pgmesh/announce/" + a.name}
	loop := retry.Loop{Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}, Stable: stable}
	return loop.Forever(ctx, func(func()) error {
		err := a.term(ctx, l, wanted, reports)
		if ctx.Err() == nil {
			reports.Away(err)
			reports.Writes(false, 0)
		}
		return err
	})
}

// term waits for the lock, and writes for as long as it is held and this server knows what is wanted.
func (a *Announcer) term(ctx context.Context, l *lock, wanted *announce.Wanted, reports announce.Reports) error {
	mesh, err := meshOf(ctx, wanted)
	if err != nil {
		return err
	}
	if err := l.await(ctx, mesh, func() { reports.Away(nil) }); err != nil {
		return err
	}
	defer l.release()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.renew(ctx) })
	g.Go(func() error {
		w := newWriter(a, l, mesh, reports)
		return w.write(ctx, wanted)
	})
	return g.Wait()
}

// meshOf waits until it is known what is wanted, and returns the id of the mesh.
func meshOf(ctx context.Context, wanted *announce.Wanted) (mesh string, err error) {
	for {
		now, changed := wanted.Now()
		if now != nil {
			return now.Mesh, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
