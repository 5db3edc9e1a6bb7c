package attack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the other tests rely on: a bystander of a mesh that nobody attacks is served as usual, and
// an attack that holds everything up is noticed.
func TestABystanderIsServedWhereNobodyAttacks(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	evil := m.tenant("evil", "evil")
	check := keepsBelow(t, memory{m.MCPServer, 400}, memory{m.Discovery, 400})
	b.undisturbed(func() func() {
		_, err := evil.Exec(t.Context(), "BEGIN; SELECT 1")
		require.NoError(t, err)
		return func() {
			_, err := evil.Exec(t.Context(), "ROLLBACK")
			require.NoError(t, err)
		}
	})
	check()
}
