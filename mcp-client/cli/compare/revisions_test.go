package compare_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestDiffOfRevisions(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	r := m.Run("diff", "1", "2")
	require.Equal(t, clitest.Result{Code: 1, Out: `revision 1 to 2
virtualservice default/reviews changed
  spec.http[0].route[0].destination.host: v1 -> v2
`, Err: ""}, r)
	r = m.Run("diff", "2")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Out, "revision 2 to 4\n")
	require.Contains(t, r.Out, "virtualservice default/ratings created\n  + ")
	require.Contains(t, r.Out, "virtualservice prod/reviews deleted\n  - ")
	require.Equal(t, "virtualservice.networking.istio.io/prod/reviews\n", m.Run("diff", "2", "-n", "prod", "-o", "name").Out)
	const itself = "that is what has changed since; what revision 2 itself has changed: mcp-client diff 1 2\n"
	require.Equal(t, clitest.Result{Out: "revision 2 to 4\n", Err: itself}, m.Run("diff", "2", "--kind", "dr"))
	require.Empty(t, m.Run("diff", "2", "-o", "json").Err)
	require.Zero(t, m.Run("diff", "3", "3").Code)
	require.Contains(t, m.Run("diff", "2", "1", "--color", "always").Out, "\x1b[32mv1\x1b[0m")
	var answer struct {
		From, To  int
		Resources []struct {
			Operation string
			Fields    []struct{ Path, Before, After string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(m.Run("diff", "1", "2", "-o", "json").Out), &answer))
	require.Equal(t, "v2", answer.Resources[0].Fields[0].After)
	r = m.Run("diff", "99")
	require.Equal(t, 6, r.Code)
	require.Contains(t, r.Err, "99")
	require.Equal(t, 1, m.Run("diff", "0s", "1").Code, "a time is a moment too")
}
