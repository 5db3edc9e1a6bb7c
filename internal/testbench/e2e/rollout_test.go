package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// wait waits in SQL until all proxies run what is committed.
func (m *mesh) wait(timeout string) error {
	var proxies int
	return m.db.QueryRow(m.t.Context(), "SELECT mesh.wait(timeout => $1::text::interval)", timeout).Scan(&proxies)
}

// proxyState is what SQL says of the mesh's Envoy.
func (m *mesh) proxyState(ctx context.Context) (state string, current bool, err error) {
	err = m.db.QueryRow(ctx, "SELECT state, coalesce(runs, 0) = mesh.newest_revision() FROM mesh.proxies WHERE namespace = $1", m.namespace).Scan(&state, &current)
	return state, current, err
}

func (m *mesh) awaitProxyState(want string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		state, _, err := m.proxyState(ctx)
		if err == nil && state != want {
			err = fmt.Errorf("the proxy of %s is %s, want %s", m.namespace, state, want)
		}
		return err
	})
}

// awaitStanding waits until the EnvoyFilter stands so, by SQL.
func (m *mesh) awaitStanding(want string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		var is string
		err := m.db.QueryRow(ctx, `SELECT format('%s %s concerned, %s run it, %s %s it, Programmed=%s', concerned, CASE concerned WHEN 1 THEN 'proxy' ELSE 'proxies' END, running,
				refusing, CASE refusing WHEN 1 THEN 'refuses' ELSE 'refuse' END, (SELECT c ->> 'reason' FROM jsonb_array_elements(conditions) c WHERE c ->> 'type' = 'Programmed'))
			FROM mesh.status_of('envoyfilter', $1, 'broken')`, m.namespace).Scan(&is)
		if err == nil && is != want {
			err = fmt.Errorf("the EnvoyFilter: %s; want: %s", is, want)
		}
		return err
	})
}

// requireRefusal checks that SQL tells which EnvoyFilter the mesh's Envoy refuses, in which words.
func (m *mesh) requireRefusal(filter string) {
	m.t.Helper()
	var reason, kind, name string
	var newest bool
	require.NoError(m.t, m.db.QueryRow(m.t.Context(), "SELECT reason, source_kind, source_name, revision = mesh.newest_revision() FROM mesh.refusals WHERE namespace = $1", m.namespace).
		Scan(&reason, &kind, &name, &newest))
	require.Equal(m.t, []string{"EnvoyFilter", filter}, []string{kind, name})
	require.Contains(m.t, reason, "function")
	require.True(m.t, newest)
}

// requireRollout checks that SQL tells how far the newest revision has come: the mesh's Envoy runs
// it, and it concerns no other.
func (m *mesh) requireRollout() {
	m.t.Helper()
	var numbers [5]int
	var inOrder bool
	require.NoError(m.t, m.db.QueryRow(m.t.Context(), `SELECT concerned, ran, refused, to_answer, away, committed_at <= first_at AND first_at <= half_at AND half_at <= last_at AND last_at < now()
		FROM mesh.rollouts WHERE revision = mesh.newest_revision()`).Scan(&numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4], &inOrder))
	require.Equal(m.t, [5]int{1, 1, 0, 0, 0}, numbers)
	require.True(m.t, inOrder)
	var runner string
	require.NoError(m.t, m.db.QueryRow(m.t.Context(), "SELECT namespace FROM mesh.runs('envoyfilter', $1, 'broken')", m.namespace).Scan(&runner))
	require.Equal(m.t, m.namespace, runner)
}

// luaThatDoesNotCompile passes every check but Envoy's.
var luaThatDoesNotCompile = strings.Replace(luaHeader, "function envoy_on_response(handle)", "function function", 1)

// When SQL says that all proxies run a change, the next request finds it in force. If one refuses
// it, SQL says which.
func TestSQLSaysWhatEachEnvoyRuns(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	one, two := meshOn(t, control, database), meshOn(t, control, database, "--xds", "sotw")
	one.awaitProxyState("synced") // proxies that are not known yet are not waited for
	two.awaitProxyState("synced")
	b := newBackend(t, "v1", nil)
	one.commit(one.service(reviews, b))
	two.commit(two.service(reviews, b))
	for n := range 20 {
		for _, m := range []*mesh{one, two} {
			m.commit(virtualService(reviews, fmt.Sprintf(`http: [{headers: {response: {set: {edit: "%d"}}}, route: [{destination: {host: reviews.mesh}}]}]`, n)))
		}
		require.NoError(t, one.wait("30s"))
		for _, m := range []*mesh{one, two} {
			require.NoError(t, m.numbered(t.Context(), reviews, "edit", n), "right after mesh.wait")
			state, current, err := m.proxyState(t.Context())
			require.NoError(t, err)
			require.Equal(t, "synced", state)
			require.True(t, current)
		}
	}

	one.commit(envoyFilter("broken", luaThatDoesNotCompile))
	one.awaitProxyState("refused")
	var pg *pgconn.PgError
	require.ErrorAs(t, one.wait("1s"), &pg)
	require.Equal(t, "MS009", pg.Code)
	require.Regexp(t, "is run by 1 of 2 connected proxies.*"+one.namespace+"/client.*refuses .*'<name>' expected near 'function'.*; it was made from EnvoyFilter "+one.namespace+"/broken, spec.configPatches.0., which .* changed in revision", pg.Message)
	two.awaitProxyState("synced")
	one.awaitStanding("1 proxy concerned, 0 run it, 1 refuses it, Programmed=Refused")
	one.requireRefusal("broken")
	one.commit(envoyFilter("broken", luaHeader))
	require.NoError(t, one.wait("30s"))
	one.header(reviews, "x-lua", "was here")
	one.awaitStanding("1 proxy concerned, 1 run it, 0 refuse it, Programmed=Programmed")
	one.requireRollout()

	two.agent.Stop()
	two.awaitProxyState("away")
	control.Discovery.Kill()
	one.awaitProxyState("away")
	require.NoError(t, control.Discovery.Start())
	one.awaitProxyState("synced")
	control.MCPServer.Kill()
	one.awaitProxyState("away")
	require.NoError(t, control.MCPServer.Start())
	one.awaitProxyState("synced")
	require.NoError(t, one.wait("30s"))
}
