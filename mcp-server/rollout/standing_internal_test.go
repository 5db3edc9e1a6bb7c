package rollout

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store/rollout"
)

func TestMetricsOfProxiesCostTheSameHoweverOftenTheyAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counted := 0
		var failing error
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(&standing{
			tally:   func(context.Context) ([]rollout.Tally, error) { counted++; return nil, failing },
			overdue: func(context.Context, int64) (time.Duration, error) { return 0, nil },
		})
		read := func() int {
			found, err := metrics.Gather()
			require.NoError(t, err)
			return len(found)
		}
		for range 10 {
			require.Equal(t, 2, read())
		}
		require.Equal(t, 1, counted)
		time.Sleep(standingKeeps) // of the clock of synctest, which waits for nothing
		failing = errors.New("the database is away")
		for range 10 {
			require.Zero(t, read(), "what is not known is not told")
		}
		require.Equal(t, 2, counted)
	})
}
