package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

func TestTheNarrowestPeerAuthenticationCounts(t *testing.T) {
	t.Parallel()
	m := build(t, `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: mesh, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: namespace, namespace: legacy}
spec: {mtls: {mode: DISABLE}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: workload, namespace: legacy}
spec:
  selector: {matchLabels: {app: new}}
  mtls: {mode: STRICT}
  portLevelMtls: {8080: {mode: PERMISSIVE}, 9090: {mode: UNSET}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: silent, namespace: unset}
spec: {}
`)
	newest := map[string]string{"app": "new"}
	require.Equal(t, mesh.MutualTLSOnly, m.NamespaceMutualTLS("anywhere"))
	require.Equal(t, mesh.MutualTLSOnly, m.NamespaceMutualTLS("unset"), "what is not set is inherited")
	require.Equal(t, mesh.PlaintextOnly, m.NamespaceMutualTLS("legacy"))
	require.Equal(t, mesh.PlaintextOnly, m.WorkloadMutualTLS("legacy", map[string]string{"app": "old"}, 80))
	require.Equal(t, mesh.MutualTLSOnly, m.WorkloadMutualTLS("legacy", newest, 80))
	require.Equal(t, mesh.MutualTLSOrNone, m.WorkloadMutualTLS("legacy", newest, 8080))
	require.Equal(t, mesh.MutualTLSOnly, m.WorkloadMutualTLS("legacy", newest, 9090))
	require.Equal(t, mesh.MutualTLSOnly, m.WorkloadMutualTLS("elsewhere", newest, 8080), "a selector is for its own namespace")
	require.Equal(t, []uint32{8080, 9090}, m.MutualTLSPorts("legacy", newest))
	require.Empty(t, m.MutualTLSPorts("legacy", nil))
	require.Equal(t, mesh.MutualTLSOrNone, build(t, "").NamespaceMutualTLS("anywhere"), "both, where nobody says otherwise")
}
