package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const reviews = "reviews.mesh"

func TestATransactionShiftsACanary(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1", "v2")...), subsets(reviews, "v1", "v2"),
		virtualService(reviews, split(reviews, weight{"v1", 100}, weight{"v2", 0})))
	m.answers(reviews, "v1")
	require.Equal(t, map[string]int{"v1": 20}, m.spread(reviews, 20))

	m.transaction(func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), `
			UPDATE mesh.route_destinations SET weight = CASE subset WHEN 'v1' THEN 0 ELSE 100 END WHERE namespace = $1`, m.namespace)
		require.NoError(t, err)
	})

	m.answers(reviews, "v2")
	require.Equal(t, map[string]int{"v2": 20}, m.spread(reviews, 20))
}

func TestOneTransactionMovesAHostWithItsRulesAndEndpointsAndLosesNoRequest(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	list := backends(t, "v1", "v2", "v3")
	move := func(to *backend) {
		m.commit(m.service(reviews, to), subsets(reviews, to.name), virtualService(reviews, split(reviews, weight{to.name, 100})))
		m.answers(reviews, to.name)
	}
	move(list[0])

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failures := make(chan string, 1)
	go func() { failures <- m.failure(ctx, reviews) }()
	for i := range 30 {
		move(list[(i+1)%3])
	}
	stop()
	require.Empty(t, <-failures)
}

// A transaction takes a route away from a subset, and the subset's endpoints too. The subset keeps
// them until Envoy has the new route.
func TestEndpointsThatGoWithTheirRouteLoseNoRequest(t *testing.T) {
	t.Parallel()
	for _, xds := range []string{"delta", "sotw"} {
		t.Run(xds, func(t *testing.T) {
			t.Parallel()
			keepEndpoints(t, newMesh(t, "--xds", xds))
		})
	}
}

func keepEndpoints(t *testing.T, m *mesh) {
	t.Helper()
	v1, v2 := newBackend(t, "v1", nil), newBackend(t, "v2", nil)
	moves := 0
	move := func(to *backend) {
		moves++
		m.commit(m.service(reviews, to), virtualService(reviews, split(reviews, weight{to.name, 100})), fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews}
spec:
  host: reviews.mesh
  trafficPolicy: {connectionPool: {tcp: {connectTimeout: %ds}}}
  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
`, 10+moves/2%2)) // every other move changes the clusters too, which Envoy then replaces
		m.answers(reviews, to.name)
	}
	move(v1)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failures := make(chan string, 1)
	go func() { failures <- m.failure(ctx, reviews) }()
	for range 10 {
		move(v2)
		move(v1)
	}
	stop()
	require.Empty(t, <-failures)
}

// failure sends requests without a pause, and returns the first bad answer, or "" if the context
// ends before there is one.
func (m *mesh) failure(ctx context.Context, host string) string {
	for ctx.Err() == nil {
		a, err := m.ask(context.WithoutCancel(ctx), request{host: host})
		if err != nil {
			return err.Error()
		}
		if a.status != http.StatusOK {
			return http.StatusText(a.status) + ": " + a.body
		}
	}
	return ""
}

func TestARolledBackTransactionChangesNothing(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1", "v2")...), subsets(reviews, "v1", "v2"), virtualService(reviews, split(reviews, weight{"v1", 100})))
	m.answers(reviews, "v1")

	tx, err := m.db.Begin(t.Context())
	require.NoError(t, err)
	m.put(tx, virtualService(reviews, split(reviews, weight{"v2", 100})))
	require.NoError(t, tx.Rollback(t.Context()))

	// A later commit has arrived, so the other one would have, too.
	m.commit(m.service("later.mesh", backends(t, "later")...))
	m.answers("later.mesh", "later")
	require.Equal(t, map[string]int{"v1": 20}, m.spread(reviews, 20))
}

func TestWithoutItsVirtualServiceAHostHasItsDefaultRoute(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `http: [{directResponse: {status: 418}}]`))
	eventually(t, func(ctx context.Context) error { return m.status(ctx, reviews, http.StatusTeapot) })

	m.transaction(func(tx pgx.Tx) { m.remove(tx, "VirtualService", "reviews") })

	m.answers(reviews, "v1")
}

func TestTheCommandLineShiftsACanary(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1", "v2")...), subsets(reviews, "v1", "v2"), virtualService(reviews, split(reviews, weight{"v1", 100})))
	m.answers(reviews, "v1")

	out, err := m.Client(t.Context(), virtualService(reviews, split(reviews, weight{"v2", 100})), "apply", "-n", m.namespace, "-f", "-")

	require.NoError(t, err, out)
	require.Contains(t, out, "configured")
	m.answers(reviews, "v2")

	out, err = m.Client(t.Context(), "", "delete", "vs", "reviews", "-n", m.namespace)

	require.NoError(t, err, out)
	m.answeredBy(reviews, "v1", "v2")
}
