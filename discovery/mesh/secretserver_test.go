package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

const secretServer = `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec:
  extensionProviders:
  - {name: gate, envoyExtAuthzGrpc: {service: vault.shop, port: 9000}}
  - {name: first, sds: {service: shop/vault.shop, port: 9000}}
  - {name: second, sds: {service: nobody.shop, port: 80}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vault, namespace: shop}
spec: {hosts: [vault.shop], ports: [{number: 9000, name: grpc, protocol: GRPC}], resolution: STATIC, endpoints: [{address: 10.0.0.9}]}
`

func TestTheFirstProviderOfSecretsIsAsked(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	m := mesh.Build(apply(t, store, secretServer), nil)
	require.Equal(t, mesh.SecretServer{Host: "vault.shop", Port: 9000}, m.SecretServer())
	require.Empty(t, m.Problems())
	before := m.Surroundings()

	entry, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	m = mesh.Build(store.Apply(kinds.Batch{Revision: 2, Changes: []kinds.Change{
		{Key: kinds.Key{Kind: entry, Namespace: "shop", Name: "vault"}},
	}}), m)
	require.Empty(t, m.SecretServer().Host)
	require.NotEqual(t, before, m.Surroundings(), "listeners are remade")
	problems := map[string]string{}
	for _, p := range m.Problems() {
		problems[p.Path] = p.Reason
	}
	require.Contains(t, problems["spec.extensionProviders[1]"], `the provider cannot be asked for secrets: no ServiceEntry has the service "shop/vault.shop"`)
}
