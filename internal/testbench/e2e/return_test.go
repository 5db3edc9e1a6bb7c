package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// While discovery is away, a route moves to a new service, and the service that it led to is
// deleted. Envoy learns of all that at once when discovery is back, and loses no request.
func TestDiscoveryComesBackWithARouteThatHasMovedAway(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	control := newStack(t, server.URL)
	require.NoError(t, control.Start(t.Context()))
	m := meshOn(t, control, server.URL)
	next := func(n int) string { return fmt.Sprintf("moved-%d.mesh", n) }
	b := newBackend(t, "v1", nil)
	move := func(n int) {
		m.transaction(func(tx pgx.Tx) {
			m.put(tx, m.service(next(n), b), virtualService(reviews, fmt.Sprintf(
				`http: [{headers: {response: {set: {%s: "%d"}}}, route: [{destination: {host: %s}}]}]`, numberHeader, n, next(n))))
			if n > 0 {
				m.remove(tx, "ServiceEntry", nameOf(next(n-1)))
			}
		})
	}
	m.commit(m.service(reviews, b))
	move(0)
	m.listening()
	arrived := func(n int) {
		eventually(t, func(ctx context.Context) error { return m.numbered(ctx, reviews, numberHeader, n) })
	}
	arrived(0)

	traffic := m.startTraffic(reviews, requestRate)
	for n := range 5 {
		control.Discovery.Kill()
		move(n + 1)
		require.NoError(t, control.Discovery.Start())
		arrived(n + 1)
	}
	_, failure := traffic.end()
	require.Empty(t, failure)
}
