package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestBlame(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	out := clitest.WithoutClocks(m.OK("blame", "vs/reviews", "-o", "wide"))
	require.Regexp(t, `(?m)^REVISION +TIME +AUTHOR +FIELD +VALUE +MESSAGE$`, out)
	require.Regexp(t, `(?m)^2 +<time> +\S+ +spec\.http\[0\]\.route\[0\]\.destination\.host +v2 +canary: v2$`, out)
	require.Regexp(t, `(?m)^1 +<time> +\S+ +spec\.http\[0\]\.route\[0\]\.weight +100 +the first$`, out)
	require.Equal(t, "2", m.OK("blame", "vs", "reviews", "-o", `jsonpath={[?(@.path=="spec.http[0].route[0].destination.host")].revision}`))
	require.Equal(t, 1, m.Run("blame", "vs/gone").Code)
	for _, args := range [][]string{{"blame"}, {"blame", "vs"}, {"blame", "vs", "a", "b"}, {"blame", "vs/a", "-A"}} {
		require.Equal(t, 2, m.Run(args...).Code, args)
	}
}
