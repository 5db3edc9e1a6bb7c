package attack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// Somebody, with the owner's rights, keeps a server from reading what the mesh trusts. That must
// not go unnoticed: a revocation is not reported as in force, and neither the server nor discovery
// is ready.
func TestARevocationThatAServerCannotReadIsNotSaidToBeInForce(t *testing.T) {
	t.Parallel()
	m := newMesh(t, func(s *stack.Stack) { s.ServerFlags("--trust-stale-after", "1s") })
	require.Contains(t, m.client("identity", "revoke", "shop/first"), "revoked shop/first")
	m.sql("BEGIN")
	m.sql("LOCK TABLE mesh_internal.authority_keys IN ACCESS EXCLUSIVE MODE")
	said, err := m.Client(t.Context(), "", "identity", "revoke", "shop/second")
	require.Error(t, err)
	require.Contains(t, said, "recorded, but not yet in force at: spiffe://")
	require.Contains(t, said, "/pgmesh/mcp-server/")
	says(t, m.readyz, "not ready: what the mesh trusts could not be read for")
	discovery := func() string { return m.page(m.Discovery.HTTP(), "/readyz") }
	says(t, discovery, "not ready: mcp-server has not been able to read what the mesh trusts since ")
	m.sql("ROLLBACK")
	says(t, m.readyz, "ready\n")
	says(t, discovery, "ready\n")
	require.Contains(t, m.client("identity", "revoke", "shop/second"), "was revoked already shop/second")
}
