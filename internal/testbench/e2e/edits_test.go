package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const (
	edits       = 100
	requestRate = 500
	// requestsPerEdit is the least number of requests between two edits, so that requests meet
	// every stage of one, even on a busy machine.
	requestsPerEdit = 13
)

// These tests are about a rate, so they are not parallel.

func TestEditsLoseNoRequest(t *testing.T) { loseNoRequest(t, newMesh(t)) }

func TestEditsLoseNoRequestOfAnEnvoyThatSpeaksStateOfTheWorld(t *testing.T) {
	loseNoRequest(t, newMesh(t, "--xds", "sotw"))
}

func loseNoRequest(t *testing.T, m *mesh) {
	t.Helper()
	e := &editor{mesh: m, v1: newBackend(t, "v1", nil), v2: newBackend(t, "v2", nil), v3: newBackend(t, "v3", nil)}
	e.edit(0)
	m.listening()
	traffic := m.startTraffic(reviews, requestRate)

	for n := 1; n <= edits; n++ {
		traffic.await(requestsPerEdit)
		e.edit(n)
		e.effective(n)
	}

	rate, failure := traffic.end()
	t.Logf("%.0f requests a second, %d in all, during %d edits", rate, traffic.sent.Load(), edits)
	require.Empty(t, failure)
}

// editor changes the routes of one host, in every way that could lose a request.
type editor struct {
	*mesh
	v1, v2, v3 *backend
}

// edit makes the n-th change. Each but the first builds on the one before it.
func (e *editor) edit(n int) {
	e.t.Helper()
	e.transaction(func(tx pgx.Tx) {
		switch n % 6 {
		case 0: // from a service that goes with this edit
			e.put(tx, e.service(reviews, e.v1, e.v2), subsets(reviews, "v1", "v2"))
			e.route(tx, n, "[{destination: {host: reviews.mesh, subset: v1}, weight: 100}]")
			if n > 0 {
				e.remove(tx, "ServiceEntry", nameOf(e.next(n-1)))
			}
		case 1: // weights
			e.route(tx, n, "[{destination: {host: reviews.mesh, subset: v1}, weight: 30}, {destination: {host: reviews.mesh, subset: v2}, weight: 70}]")
		case 2: // matches
			e.put(tx, virtualService(reviews, fmt.Sprintf(`
http:
- match: [{headers: {edit: {exact: "%[1]d"}}}, {uri: {prefix: /edit/%[1]d}}]
  route: [{destination: {host: reviews.mesh, subset: v2}}]
- headers: {response: {set: {edit: "%[1]d"}}}
  route: [{destination: {host: reviews.mesh, subset: v1}}]
`, n)))
		case 3: // a subset with endpoints of its own
			e.put(tx, e.service(reviews, e.v1, e.v2, e.v3), subsets(reviews, "v1", "v2", "v3"))
			e.route(tx, n, "[{destination: {host: reviews.mesh, subset: v3}}]")
		case 4: // which goes again
			e.put(tx, e.service(reviews, e.v1, e.v2), subsets(reviews, "v1", "v2"))
			e.route(tx, n, "[{destination: {host: reviews.mesh, subset: v2}}]")
		case 5: // a new service
			e.put(tx, e.service(e.next(n), e.v3))
			e.route(tx, n, fmt.Sprintf("[{destination: {host: %s}}]", e.next(n)))
		}
	})
}

func (e *editor) next(n int) string { return fmt.Sprintf("next-%d.mesh", n) }

// route replaces the rules of the host by one that puts the number of the edit into every answer.
func (e *editor) route(tx pgx.Tx, n int, destinations string) {
	e.t.Helper()
	e.put(tx, virtualService(reviews, fmt.Sprintf(`http: [{headers: {response: {set: {edit: "%d"}}}, route: %s}]`, n, destinations)))
}

// effective waits until Envoy answers with the n-th edit.
func (e *editor) effective(n int) {
	e.t.Helper()
	eventually(e.t, func(ctx context.Context) error { return e.numbered(ctx, reviews, "edit", n) })
}

// numbered returns an error unless a host answers with this number in a header.
func (m *mesh) numbered(ctx context.Context, host, header string, want int) error {
	a, err := m.ask(ctx, request{host: host})
	if err != nil {
		return err
	}
	if got := a.header.Get(header); a.status != http.StatusOK || got != strconv.Itoa(want) {
		return fmt.Errorf("%s answered %d with %s %q, want %d", host, a.status, header, got, want)
	}
	return nil
}
