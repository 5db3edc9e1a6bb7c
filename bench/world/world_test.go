package world

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func laid(t *testing.T, w World) *World {
	t.Helper()
	require.NoError(t, w.Lay())
	return &w
}

func TestScope(t *testing.T) {
	t.Parallel()
	whole := laid(t, World{Services: 30, Endpoints: 2, Namespaces: 4})
	require.Equal(t, 30, whole.Visible(3))
	require.Equal(t, 30, whole.SeenByAll())

	scoped := laid(t, World{Services: 1000, Endpoints: 2, Scope: 50})
	require.Equal(t, 22, scoped.Namespaces, "of 45 services each, and 5 that all see")
	require.Equal(t, 5, scoped.SeenByAll())
	require.Equal(t, "common", scoped.Namespace(4))
	all := 5
	for n := range scoped.Namespaces {
		require.InDelta(t, 50, scoped.Visible(n), 1)
		all += len(scoped.homes[n])
	}
	require.Equal(t, 1000, all, "every service is somewhere")

	require.ErrorContains(t, (&World{Services: 10, Scope: 11}).Lay(), "--scope 11")
}

func TestProxiesAreDistinctEndpoints(t *testing.T) {
	t.Parallel()
	w := laid(t, World{Services: 30, Endpoints: 2, Namespaces: 4})
	p := Who{World: w, Workloads: true, Interception: "REDIRECT", Metadata: map[string]string{"CLUSTER_ID": "c"}}
	mesh, addresses := Documents(w.Resources()), map[string]bool{}
	for i := range 70 {
		n, err := p.Node(i)
		require.NoError(t, err)
		address := strings.Split(n.GetId(), "~")[1]
		require.False(t, addresses[address])
		addresses[address] = true
		service, _, is := p.Serves(i)
		require.Equal(t, is, strings.Contains(mesh, `"`+address+`"`))
		if is {
			require.Equal(t, w.Namespace(service), n.GetMetadata().GetFields()["NAMESPACE"].GetStringValue())
			require.Equal(t, ServiceName(service), n.GetMetadata().GetFields()["LABELS"].GetStructValue().GetFields()["app"].GetStringValue())
		}
		require.Equal(t, "c", n.GetMetadata().GetFields()["CLUSTER_ID"].GetStringValue())
	}
	_, _, is := p.Serves(70)
	require.False(t, is, "there are no more endpoints than 60")
}
