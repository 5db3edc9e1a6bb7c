package consul

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// mostDatacenters bounds what an answer can make of goroutines.
const mostDatacenters = 100

// toRead are the datacenters that the URL names: "" is the agent's own. For all of them, Consul is
// asked until it answers.
func (m *mesh) toRead(ctx context.Context) ([]string, error) {
	switch {
	case len(m.datacenters) == 0:
		return []string{""}, nil
	case m.datacenters[0] != "*":
		return m.datacenters, nil
	}
	transport := m.access.Transport(1)
	defer transport.CloseIdleConnections()
	asks := m.access.Client(transport, m.always())
	var found []string
	loop := retry.Loop{Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}}
	err := loop.Until(ctx, func() error {
		_, err := asks.Ask(ctx, client.Query{Path: client.Datacenters}, &found)
		if err == nil && (len(found) == 0 || len(found) > mostDatacenters) {
			err = errors.New("Consul knows no datacenter, or more than 100: name those to read with dc")
		}
		if err != nil && ctx.Err() == nil {
			m.sayAway(err)
		}
		return err
	})
	slices.Sort(found)
	return slices.Compact(found), err
}
