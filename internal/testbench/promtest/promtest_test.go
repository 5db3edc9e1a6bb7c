package promtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/promtest"
)

// Nobody is at the target, which a Prometheus says of it.
func TestPrometheusAnswersQueries(t *testing.T) {
	t.Parallel()
	p := promtest.Start(t, t.TempDir(), `
scrape_configs:
- job_name: nobody
  scrape_interval: 1s
  static_configs: [{targets: ["127.0.0.1:1"]}]
`)
	poll.Eventually(t, func(ctx context.Context) error {
		up, err := p.Query(ctx, `up{job="nobody"}`)
		if err == nil && len(up) == 0 {
			err = errors.New("nothing was scraped")
		}
		if err != nil {
			return err
		}
		require.Zero(t, up[0].Value)
		require.Equal(t, "127.0.0.1:1", up[0].Labels["instance"])
		return nil
	})
	_, err := p.Query(t.Context(), "rate(")
	require.ErrorContains(t, err, "parse error")
}

func TestPromtoolSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const bad = "# HELP Requests How many.\n# TYPE Requests counter\nRequests 3\n"
	output, err := promtest.Promtool(t, t.TempDir(), bad, "check", "metrics")
	require.Error(t, err)
	require.Contains(t, output, `counter metrics should have "_total" suffix`)
}
