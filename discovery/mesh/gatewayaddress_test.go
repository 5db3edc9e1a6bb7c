package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// bindsOf lists where a router listens, which may be all of its addresses.
func bindsOf(m *mesh.Mesh, addresses ...string) (binds []string) {
	for _, s := range m.Frontend(webRouter(addresses...)).Sockets {
		binds = append(binds, s.Bind)
	}
	return binds
}

func webRouter(addresses ...string) *mesh.Proxy {
	return &mesh.Proxy{Type: mesh.Router, Namespace: "edge", Addresses: addresses, Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "web"}}
}

func TestAGatewayListensAtTheAddressesThatItAsksFor(t *testing.T) {
	t.Parallel()
	asking := func(addresses string) kinds.Batch {
		return kinds.Batch{Revision: 1, Changes: fromText(t, `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {gatewayClassName: pgmesh, addresses: `+addresses+`, listeners: [{name: http, port: 80, protocol: HTTP}]}
`)}
	}
	store := configstore.New()
	m := mesh.Build(store.Apply(asking("[{value: 10.0.0.1}, {value: 'fd00::1'}]")), nil)
	require.Equal(t, []string{"10.0.0.1"}, bindsOf(m, "10.0.0.1", "10.0.0.2"))
	require.Equal(t, []string{"10.0.0.1", "fd00::1"}, bindsOf(m, "fd00:0::1", "10.0.0.1"))
	require.Equal(t, []string{""}, bindsOf(m, "10.0.0.2"), "the addresses may come to it later")

	one, another, other := webRouter("10.0.0.1"), webRouter("10.0.0.2"), webRouter("10.0.0.3")
	require.NotEqual(t, m.Class(one), m.Class(another))
	require.Equal(t, m.Class(another), m.Class(other))
	next := mesh.Build(store.Apply(asking("[{value: 10.0.0.2}]")), m)
	require.False(t, next.SortsLike(m), "proxies have other classes now")
	require.Equal(t, []string{""}, bindsOf(next, "10.0.0.1"))
	require.Equal(t, []string{"10.0.0.2"}, bindsOf(next, "10.0.0.2"))
}
