package run_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

// metricsOf is an application with metrics.
func metricsOf(t *testing.T, page string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) }))
	t.Cleanup(s.Close)
	return s.URL
}

func TestMetricsPage(t *testing.T) {
	t.Parallel()
	a := agenttest.StartInsecure(t, "--status", "127.0.0.1:0", "--envoy-log-level", "info", "--scrape", "cart="+metricsOf(t, "# TYPE carts gauge\ncarts 7\n"),
		"--scrape", "http://127.0.0.1:1/metrics")
	address := a.AwaitAddress(t)
	a.Await(t, "starting main dispatch loop")
	code, body := agenttest.Get(t, "http://"+address+"/stats/prometheus")
	require.Equal(t, 200, code)
	for _, has := range []string{
		"# TYPE envoy_server_uptime gauge\n", "carts{target=\"cart\"} 7\n", "pgmesh_mesh_agent_scrape_up{target=\"envoy\"} 1\n",
		"pgmesh_mesh_agent_scrape_up{target=\"127.0.0.1:1\"} 0\n", "pgmesh_mesh_agent_discovery_connected 0\n",
	} {
		require.Contains(t, body, has)
	}
	require.NotContains(t, body, "go_goroutines", "an application may have that, too")
	_, own := agenttest.Get(t, "http://"+address+"/metrics")
	require.Contains(t, own, "go_goroutines")
	_, some := agenttest.Get(t, "http://"+address+"/stats/prometheus?filter=server.live&usedonly")
	require.Contains(t, some, "envoy_server_live{} 1")
	require.NotContains(t, some, "envoy_server_uptime")
	a.End(t)
}

func TestScrapeSettingsAreChecked(t *testing.T) {
	t.Parallel()
	output, err := agenttest.Run(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--status", "", "--scrape", "cart")
	require.Error(t, err)
	require.Contains(t, output, "--scrape cart: write it as URL or NAME=URL")
}

func TestQuitOverHTTP(t *testing.T) {
	t.Parallel()
	a := agenttest.StartInsecure(t, "--status", "127.0.0.1:0", "--envoy-log-level", "info")
	address := a.AwaitAddress(t)
	a.Await(t, "starting main dispatch loop")
	response, err := http.Post("http://"+address+"/drain", "", nil)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
	code, body := agenttest.Get(t, "http://"+address+"/healthz/ready")
	require.Equal(t, 503, code)
	require.Equal(t, "draining\n", body)

	response, err = http.Post("http://"+address+"/quitquitquit", "", nil)
	require.NoError(t, err)
	response.Body.Close()
	a.AwaitEndOfLog()
	require.NoError(t, a.Wait(), "exit code 0")
}
