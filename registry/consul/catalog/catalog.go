// Package catalog follows the services of one datacenter of Consul.
//
// Consul tells of changes by blocking queries, each of which is a connection, and an agent allows 200
// from one machine. A query for each service is precise, and too many in a large catalog; one for
// all instances is as large as the catalog. So there are a few of each sort:
//
//   - One for the names of services and their tags, which any instance that comes, goes or changes
//     wakes; one for the nodes; and one each for the checks that are critical and that warn, which
//     are few, and whose differences say whose health has changed ([lists]).
//   - One for each of the services that changed last ([watches]). A small catalog has all of them
//     watched, and a large one too where Consul is asked over TLS, and so over HTTP/2: there a query
//     takes no connection.
//   - What is not watched is looked through whenever some service has changed, and nobody knows which
//     ([sweep]): service by service, the last changed first.
//
// A session begins with reading everything and ends with the first failure, and then the next one
// begins. So nothing that was missed stays so.
package catalog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// Listener is told what the catalog has. It is called from one goroutine at a time, by the names
// that services have in Consul, in lower case: Consul does not tell cases apart.
type Listener interface {
	// All tells of everything there is, at first and after a failure.
	All(services map[string][]Instance)
	// Changed tells what some services are now; one without instances is gone.
	Changed(services map[string][]Instance)
	// Bad says that the answer about a service cannot be used; nil says that it can.
	Bad(name string, err error)
	// Away says that Consul cannot be asked, and why; nil that it can.
	Away(err error)
}

// Catalog is one datacenter.
type Catalog struct {
	Client     *client.Client
	Datacenter string // "": the agent's own
	// Watches is how many services may have a query of their own where that takes a connection, and
	// Streams where queries share connections.
	Watches, Streams int
	Log              *slog.Logger

	// known is what the last session knew: what a token may no longer see is not gone.
	known map[string]*known
	// seen says that the servers themselves were in the list of services once.
	seen bool
}

// readers is how many services are read at once, and urgent how many more for changes alone.
const (
	readers = 16
	urgent  = 4
)

// Beside is how many connections to Consul there are at most beside those of watches.
const Beside = readers + urgent + lists

// crowded makes do with fewer watches if the agent allows no more connections.
func (c *Catalog) crowded(err error) {
	if refusal, is := errors.AsType[*client.Refusal](err); is && refusal.Crowded() && c.Watches > 0 {
		c.Watches = c.Watches * 3 / 4
		c.Log.Warn("Consul allows fewer connections than there are services to watch; the others are looked through", "watched", c.Watches, "error", err)
	}
}

// stable is how long a session lasts that is no failure to begin one.
const stable = 10 * time.Second

// Run follows the catalog until the context ends, whose error it returns.
func (c *Catalog) Run(ctx context.Context, listener Listener) error {
	loop := retry.Loop{Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}, Stable: stable}
	return loop.Forever(ctx, func(func()) error {
		err := c.session(ctx, listener)
		c.crowded(err)
		if ctx.Err() == nil {
			listener.Away(err)
		}
		return err
	})
}
