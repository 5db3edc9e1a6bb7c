package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

func script(name, rest, code string) string {
	return fmt.Sprintf("\napiVersion: extensions.istio.io/v1alpha1\nkind: TrafficExtension\nmetadata: {name: %s}\nspec: {%s lua: {inlineCode: %q}}", name, rest, code)
}

const luaSaying = `function envoy_on_response(handle) handle:headers():add("x-says", %q) end`

// From a row in SQL to a script that runs in Envoy. One that Envoy refuses changes nothing, SQL says
// whose it is, and the listeners that it is in take other changes.
func TestScriptsRunAndBadOnesAreNamed(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	for _, form := range []string{"delta", "sotw"} {
		m := meshOn(t, control, database, "--xds", form)
		m.awaitProxyState("synced")
		m.commit(m.service(reviews, newBackend(t, "v1", nil)), script("says", "match: [{mode: CLIENT}],", fmt.Sprintf(luaSaying, "one")), script("served", "match: [{mode: SERVER}],", fmt.Sprintf(luaSaying, "no")))
		require.NoError(t, m.wait("30s"))
		says := func() string { return strings.Join(m.must(request{host: reviews}).header.Values("x-says"), " ") }
		require.Equal(t, "one", says(), "right after mesh.wait")

		m.commit(script("says", "match: [{mode: CLIENT}],", "function function"))
		m.awaitProxyState("refused")
		require.Equal(t, "one", says())
		var kind, name, reason string
		require.NoError(t, m.db.QueryRow(t.Context(), "SELECT source_kind, source_name, reason FROM mesh.refusals WHERE namespace = $1", m.namespace).Scan(&kind, &name, &reason))
		require.Equal(t, []string{"TrafficExtension", "says"}, []string{kind, name})
		require.Contains(t, reason, "'<name>' expected near 'function'")
		var refusing int
		require.NoError(t, m.db.QueryRow(t.Context(), "SELECT refusing FROM mesh.status_of('trafficextension', $1, 'says')", m.namespace).Scan(&refusing))
		require.Equal(t, 1, refusing)

		m.commit(script("more", "priority: 5,", fmt.Sprintf(luaSaying, "more")))
		eventuallySays(m, "one more")
		m.commit(script("says", "match: [{mode: CLIENT}],", fmt.Sprintf(luaSaying, "two")))
		require.NoError(t, m.wait("30s"))
		require.Equal(t, "two more", says())
		var runner string
		require.NoError(t, m.db.QueryRow(t.Context(), "SELECT namespace FROM mesh.runs('trafficextension', $1, 'says')", m.namespace).Scan(&runner))
		require.Equal(t, m.namespace, runner)
		require.Equal(t, http.StatusOK, m.must(request{host: reviews}).status)
	}
}

// eventuallySays waits until all scripts of the mesh's client have said this.
func eventuallySays(m *mesh, want string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: reviews})
		if err != nil {
			return err
		}
		if is := strings.Join(a.header.Values("x-says"), " "); is != want {
			return fmt.Errorf("the scripts say %q, want %q", is, want)
		}
		return nil
	})
}
