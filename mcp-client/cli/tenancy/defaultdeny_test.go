package tenancy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestDefaultDeny(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	require.Equal(t, "default deny is off\nmutual TLS is PERMISSIVE\n", m.OK("default-deny"))
	m.OK("default-deny", "on", "--dry-run")
	require.Contains(t, m.OK("default-deny"), "off")

	m.OK("default-deny", "on", "-m", "nobody without a policy")
	m.Apply("{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: all, namespace: shop}, spec: {rules: [{}]}}\n")
	require.Equal(t, `default deny is on, by the AuthorizationPolicy istio-system/default-deny
mutual TLS is STRICT, by the PeerAuthentication istio-system/default

NAMESPACE   KIND                  NAME   LET IN ALL THE SAME
shop        AuthorizationPolicy   all    its rule 0 allows everything to everybody
`, m.OK("default-deny"))
	require.JSONEq(t, `{"enabled": true, "policy": "istio-system/default-deny", "mutualTLS": "STRICT", "peerAuthentication": "istio-system/default",
		"exceptions": [{"kind": "AuthorizationPolicy", "namespace": "shop", "name": "all", "reason": "its rule 0 allows everything to everybody"}]}`, m.OK("default-deny", "-o", "json"))
	require.Contains(t, m.OK("default-deny", "off"), "istio-system/default-deny deleted")
	require.Contains(t, m.OK("default-deny"), "off")
}
