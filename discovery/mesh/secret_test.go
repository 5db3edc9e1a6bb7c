package mesh_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/kinds"
)

// Gateways have a secret of another namespace for as long as a Gateway of theirs names it and a grant
// there allows it.
func TestASecretIsLentForAsLongAsItIsGranted(t *testing.T) {
	t.Parallel()
	const gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: web, namespace: edge}\n" +
		"spec: {gatewayClassName: pgmesh, listeners: [{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: pair, namespace: vault}]}}]}\n"
	const grant = "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: g, namespace: vault}\n" +
		"spec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: edge}], to: [{group: '', kind: Secret}]}\n"
	pair := certtest.NewAuthority(t).Issue(nil)
	secret := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: pair, namespace: vault}\ntype: kubernetes.io/tls\nstringData: {tls.crt: %q, tls.key: %q}\n", pair.Cert, pair.Key)
	inEdge, elsewhere := &mesh.Proxy{Type: mesh.Router, Namespace: "edge"}, &mesh.Proxy{Type: mesh.Router, Namespace: "shop"}
	store := configstore.New()
	var m *mesh.Mesh
	lent := func(p *mesh.Proxy) (names []string) {
		for _, s := range m.SecretsFor(p) {
			names = append(names, s.Namespace+"/"+s.Name)
		}
		return names
	}
	step := func(text string, gone bool) {
		documents, err := kinds.Parser{DefaultNamespace: "default", Secrets: true}.Parse("test.yaml", []byte(text))
		require.NoError(t, err)
		batch := kinds.Batch{Revision: store.Snapshot().Revision + 1}
		for _, d := range documents {
			change := put(d.Resource)
			if gone {
				change.Resource = nil
			}
			batch.Changes = append(batch.Changes, change)
		}
		m = mesh.Build(store.Apply(batch), m)
	}
	const asked = "kubernetes-gateway://vault/pair"
	refused := func() {
		require.Empty(t, lent(inEdge))
		reason, hint := m.WhyNot(inEdge, asked)
		require.Equal(t, "forbidden", reason)
		require.Contains(t, hint, "a ReferenceGrant there allows")
	}
	step(gateway+"---\n"+secret, false)
	refused()
	step(grant, false)
	require.Equal(t, []string{"vault/pair"}, lent(inEdge))
	require.Empty(t, lent(elsewhere), "the grant is for edge alone")
	step(grant, true)
	refused()
	step(grant, false)
	step(secret, true)
	reason, hint := m.WhyNot(inEdge, asked)
	require.Equal(t, mesh.UnknownSecret, reason)
	require.Contains(t, hint, "into the namespace vault")
	step(secret, false)
	require.Equal(t, []string{"vault/pair"}, lent(inEdge))
	step(gateway, true)
	refused()
}
