package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

const twoServices = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1, serviceAccount: cart}, {address: 10.0.0.2, serviceAccount: spare}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  subjectAltNames: [spiffe://partner.example/ns/shop/sa/cart]
  endpoints: [{address: 10.0.0.3, serviceAccount: web}]
`

func TestARevocationChangesOnlyTheServicesOfTheIdentity(t *testing.T) {
	t.Parallel()
	before := build(t, twoServices)
	after := before.WithTrust(mesh.Trust{Revoked: []string{"ns/shop/sa/cart"}})
	cart, web := after.Services()[0], after.Services()[1]

	require.NotSame(t, before.Services()[0], cart)
	require.Same(t, before.Services()[0].Shape, cart.Shape, "its endpoints alone are others")
	require.True(t, cart.Endpoints[0].Revoked)
	require.False(t, cart.Endpoints[1].Revoked)
	require.Equal(t, []string{"spiffe://cluster.local/ns/shop/sa/spare"}, after.Identities(cart))
	require.Equal(t, []string{"spiffe://cluster.local/ns/shop/sa/web", "spiffe://partner.example/ns/shop/sa/cart"}, after.Identities(web), "another mesh's")

	all := after.WithTrust(mesh.Trust{Revoked: []string{"ns/shop/sa/spare", "ns/shop/sa/cart"}})
	require.Equal(t, []string{"spiffe://revoked.invalid/"}, all.Identities(all.Services()[0]), "not anybody")

	restored := all.WithTrust(mesh.Trust{})
	require.Equal(t, before.Identities(before.Services()[0]), restored.Identities(restored.Services()[0]))
	require.False(t, restored.Services()[0].Endpoints[0].Revoked)
}

func TestTheSameTrustIsTheSameMesh(t *testing.T) {
	t.Parallel()
	m := build(t, twoServices).WithTrust(mesh.Trust{Revoked: []string{"ns/a/sa/b", "ns/c/sa/d"}, Federated: []string{"x", "y"}})
	require.Same(t, m, m.WithTrust(mesh.Trust{Revoked: []string{"ns/c/sa/d", "ns/a/sa/b"}, Federated: []string{"y", "x", "x"}}))
	federated := m.WithTrust(mesh.Trust{Revoked: m.Trust().Revoked})
	require.NotSame(t, m, federated)
	require.Same(t, m.Services()[0], federated.Services()[0])
}
