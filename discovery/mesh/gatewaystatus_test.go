package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// statedBy has the status of each resource of the Gateway API, as text.
func statedBy(m *mesh.Mesh) map[string]string {
	out := map[string]string{}
	for of, s := range m.APIStatuses().Since(mesh.APIStatuses{}) {
		out[of.String()] = s.Text()
	}
	return out
}

// requireTold checks that what differs between two meshes leads from what one states to what the other
// does, and no more.
func requireTold(t *testing.T, before, after *mesh.Mesh) {
	t.Helper()
	is := statedBy(before)
	for of, s := range after.APIStatuses().Since(before.APIStatuses()) {
		if s == nil {
			require.Contains(t, is, of.String())
			delete(is, of.String())
			continue
		}
		require.NotEqual(t, is[of.String()], s.Text(), "%s is told anew", of)
		is[of.String()] = s.Text()
	}
	require.Equal(t, statedBy(after), is)
}

// What a route and a Gateway say follows what they name, though they are not edited.
func TestStatusesFollowWhatTheyDependOn(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	var m *mesh.Mesh
	revision := int64(0)
	apply := func(changes ...kinds.Change) map[string]string {
		revision++
		before := m
		m = mesh.Build(store.Apply(kinds.Batch{Revision: revision, Changes: changes}), m)
		if before != nil {
			requireTold(t, before, m)
		}
		return statedBy(m)
	}
	gone := func(text string) kinds.Change { return kinds.Change{Key: fromText(t, text)[0].Key} }

	all := apply(fromText(t, apiGatewayText+numbered(1, "a")+numbered(2, "a"))...)
	require.Contains(t, all["HTTPRoute edge/r1"], "BackendNotFound")
	require.Contains(t, all["Gateway edge/web"], `"attachedRoutes":2`)

	entry := "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\nspec: {hosts: [%], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}\n"
	exact, wildcard := strings.ReplaceAll(entry, "%", "a.edge.svc.cluster.local"), strings.ReplaceAll(entry, "%", "'*.svc.cluster.local'")
	for _, text := range []string{exact, wildcard} {
		require.NotContains(t, apply(fromText(t, text)...)["HTTPRoute edge/r1"], "BackendNotFound")
		require.Contains(t, apply(gone(text))["HTTPRoute edge/r1"], "BackendNotFound")
	}
	require.Contains(t, apply(gone(numbered(2, "a")))["Gateway edge/web"], `"attachedRoutes":1`)

	all = apply(fromText(t, strings.Replace(apiGatewayText, "port: 80", "port: 80, hostname: other.example.com", 1))...)
	require.Contains(t, all["HTTPRoute edge/r1"], "NoMatchingListenerHostname")
	require.Contains(t, all["Gateway edge/web"], `"attachedRoutes":0`)
	all = apply(gone(apiGatewayText))
	require.NotContains(t, all, "Gateway edge/web")
	require.Equal(t, "{}", all["HTTPRoute edge/r1"], "nobody knows whose Gateway that is")
	require.Empty(t, apply(gone(numbered(1, "a"))))
}
