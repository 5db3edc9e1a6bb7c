package serve_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// A database that was copied by logical replication and promoted is the same mesh: a reader that
// comes from the old one goes on, and is sent nothing again.
func TestAServerServesAPromotedCopy(t *testing.T) {
	t.Parallel()
	copied := pgtest.Copied(t)
	write(t, copied.From, "a", "a.example")
	write(t, copied.From, "b", "b.example")
	before := launch(t, serve.Options{Database: copied.From})
	c := connect(t, before.MCP.String(), nil)
	require.ElementsMatch(t, []string{"a", "b"}, c.until(2))
	c.stop()
	before.end()
	copied.CaughtUp()
	copied.Promote()

	after := launch(t, serve.Options{Database: copied.To})
	again := connect(t, after.MCP.String(), c.held)
	require.Empty(t, again.until(2))
	write(t, copied.To, "b", "c.example")
	require.Equal(t, []string{"b"}, again.until(3))
	again.stop()
}
