package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

func entryOn(name, rest string) string {
	return `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ` + name + `, namespace: evil}
spec: {hosts: [` + name + `.evil], resolution: STATIC, ` + rest + `}
`
}

func TestAPortOfTheProxyItselfIsAProblemOfTheEntry(t *testing.T) {
	t.Parallel()
	s := configstore.New()
	m := mesh.Build(apply(t, s, entryOn("inbound", "ports: [{number: 15006, name: tcp, protocol: TCP}, {number: 90, name: other, protocol: TCP}]")+
		entryOn("unspecified", "addresses: ['::'], ports: [{number: 15001, name: tcp, protocol: TCP}]")+
		entryOn("addressed", "addresses: [10.0.0.9], ports: [{number: 15006, name: tcp, protocol: TCP}]")), nil)
	require.Equal(t, []string{"inbound spec.ports[0].number", "unspecified spec.ports[0].number"}, problemPlaces(m))

	m = mesh.Build(apply(t, s, entryOn("inbound", "ports: [{number: 16006, name: tcp, protocol: TCP}]")), m)
	require.Equal(t, []string{"unspecified spec.ports[0].number"}, problemPlaces(m))

	m = mesh.Build(apply(t, s, `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {proxyInboundListenPort: 16006}
`), m)
	require.Equal(t, []string{"inbound spec.ports[0].number", "unspecified spec.ports[0].number"}, problemPlaces(m), "the mesh says where proxies listen")
}

// problemPlaces are the names of the resources with problems, and the paths.
func problemPlaces(m *mesh.Mesh) (out []string) {
	for _, p := range m.Problems() {
		out = append(out, p.Of.Name+" "+p.Path)
	}
	return out
}
