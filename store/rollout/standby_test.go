package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// A standby knows nothing of locks, and shows what it was told. When it takes over, the servers'
// sessions are not there.
func TestAStandbyShowsProxiesUntilItTakesOver(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	b := &bench{t: t, db: storetest.Connect(t, pair.Primary.URL), store: storetest.OpenURL(t, pair.Primary.URL)}
	b.keeper = b.keep("mcp")
	b.begin()
	b.db.Put("a", "b")
	b.tells(1, []rollout.Proxy{of(1, "cart")})
	standby := &bench{t: t, db: storetest.Connect(t, pair.Standby.URL)}
	shows := func(want string) {
		poll.Within(t, 20*time.Second, func(context.Context) error {
			if got := standby.lines(); !slices.Equal(got, []string{want}) {
				return fmt.Errorf("it shows %v", got)
			}
			return nil
		})
	}
	shows("shop/cart synced 1 1 0")
	require.Equal(t, int64(1), storetest.Value[int64](standby.db, "SELECT mesh.wait()"))
	require.NoError(t, b.keeper.End(t.Context(), b.report))
	shows("shop/cart away 1 1 0")
	b.begin()
	b.tells(1, []rollout.Proxy{of(1, "cart")})
	shows("shop/cart synced 1 1 0")

	pair.Primary.Kill()
	pair.Promote()
	shows("shop/cart away 1 1 0")
	require.ErrorIs(t, b.keeper.Alive(t.Context()), rollout.ErrEnded)
}
