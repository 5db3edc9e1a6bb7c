package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	a := startAgent(t, "--status", "127.0.0.1:0", "--envoy-log-level", "info", "--scrape", "cart="+metricsOf(t, "# TYPE carts gauge\ncarts 7\n"),
		"--scrape", "http://127.0.0.1:1/metrics")
	address := a.awaitAddress(t)
	a.await(t, "starting main dispatch loop")
	code, body := get(t, "http://"+address+"/stats/prometheus")
	require.Equal(t, 200, code)
	for _, has := range []string{
		"# TYPE envoy_server_uptime gauge\n", "carts{target=\"cart\"} 7\n", "pgmesh_mesh_agent_scrape_up{target=\"envoy\"} 1\n",
		"pgmesh_mesh_agent_scrape_up{target=\"127.0.0.1:1\"} 0\n", "pgmesh_mesh_agent_discovery_connected 0\n",
	} {
		require.Contains(t, body, has)
	}
	require.NotContains(t, body, "go_goroutines", "an application may have that, too")
	_, own := get(t, "http://"+address+"/metrics")
	require.Contains(t, own, "go_goroutines")
	_, some := get(t, "http://"+address+"/stats/prometheus?filter=server.live&usedonly")
	require.Contains(t, some, "envoy_server_live{} 1")
	require.NotContains(t, some, "envoy_server_uptime")
	a.end(t)
}

func TestScrapeSettingsAreChecked(t *testing.T) {
	t.Parallel()
	output, err := command(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--status", "", "--scrape", "cart")
	require.Error(t, err)
	require.Contains(t, output, "--scrape cart: write it as URL or NAME=URL")
}

func TestQuitOverHTTP(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--status", "127.0.0.1:0", "--envoy-log-level", "info")
	address := a.awaitAddress(t)
	a.await(t, "starting main dispatch loop")
	response, err := http.Post("http://"+address+"/drain", "", nil)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
	code, body := get(t, "http://"+address+"/healthz/ready")
	require.Equal(t, 503, code)
	require.Equal(t, "draining\n", body)

	response, err = http.Post("http://"+address+"/quitquitquit", "", nil)
	require.NoError(t, err)
	response.Body.Close()
	a.awaitEndOfLog()
	require.NoError(t, a.Wait(), "exit code 0")
}

func TestDrainAndStopCommands(t *testing.T) {
	t.Parallel()
	a, state := running(t)
	output, err := command(t, nil, "drain", "--state-dir", state, "--look")
	require.NoError(t, err, output)
	require.Equal(t, "running, open connections: 0\n", output)
	output, err = command(t, nil, "drain", "--state-dir", state, "--wait", "10s", "-o", "json")
	require.NoError(t, err, output)
	require.JSONEq(t, `{"state": "draining", "connections": 0}`, output)
	output, err = command(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Regexp(t, `(?m)^agent +draining, `, output)
	require.Contains(t, output, "What is wrong:\n- agent: it was drained: others send nothing here until it is started again (systemctl restart mesh-agent)\n")
	require.NotContains(t, output, "- envoy")

	heard := make(chan struct{})
	go func() { defer close(heard); a.awaitEndOfLog() }()
	output, err = command(t, nil, "stop", "--state-dir", state)
	require.NoError(t, err, output)
	<-heard
	require.NoError(t, a.Wait(), "exit code 0")
	output, err = command(t, nil, "stop", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "no mesh-agent runs with the state folder "+state)
}

func TestEnvoyCommands(t *testing.T) {
	t.Parallel()
	a, state := running(t)
	run := func(args ...string) string {
		output, err := command(t, nil, append([]string{"envoy", "--state-dir", state}, args...)...)
		require.NoError(t, err, output)
		return output
	}
	require.Regexp(t, `(?m)^clusters +\d `, run("config"))
	require.Regexp(t, `(?m)^xds-grpc +STATIC +static`, run("config", "clusters", "--name", "xds"))
	require.Contains(t, run("config", "clusters", "-o", "yaml"), "name: xds-grpc")
	require.Contains(t, run("config", "bootstrap"), `"initial_fetch_timeout"`)
	require.Regexp(t, `(?m)^xds-grpc +1 +1 `, run("clusters"))
	require.Regexp(t, `(?m)^server\.live +\d$`, run("stats", "--name", "^server.live$"))
	require.Regexp(t, `(?m)^upstream +debug$`, run("log-level", "upstream=debug"))

	require.Equal(t, "LIVE\n", run("ready"))
	output, err := command(t, nil, "envoy", "log-level", "upstraem=debug", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, `Envoy has no component "upstraem": did you mean "upstream"?`)
	output, err = command(t, nil, "envoy", "stats", "--name", "((", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "--name ((: error parsing regexp")

	output, err = command(t, nil, "drain", "--state-dir", state)
	require.NoError(t, err, output)
	output, err = command(t, nil, "envoy", "ready", "--state-dir", state)
	require.Error(t, err)
	require.Equal(t, "DRAINING\n", output)
	a.end(t)
}

// unpacked are the files of a report, by their names within its folder.
func unpacked(t *testing.T, report string) map[string]string {
	t.Helper()
	f, err := os.Open(report)
	require.NoError(t, err)
	defer f.Close()
	packed, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string]string{}
	for r := tar.NewReader(packed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		_, name, _ := strings.Cut(path.Clean(header.Name), "/")
		files[name] = string(content)
	}
}

func TestBugReport(t *testing.T) {
	t.Parallel()
	planted := "planted-in-the-token-file"
	config := configFile(t, "jwt-file: "+tokenFile(t, planted)+"\ntoken: planted-in-the-settings\nlabels: {password: planted-in-a-label}\n")
	a, state := running(t, "--labels", "api-key=planted-in-another-label,seen="+planted)
	identity, err := os.ReadFile(filepath.Join(state, "identity.pem"))
	require.NoError(t, err)
	require.Contains(t, string(identity), "PRIVATE KEY")

	report := filepath.Join(t.TempDir(), "report.tar.gz")
	output, err := command(t, []string{"PGMESH_JOIN_TOKEN=planted-in-a-variable"}, "bug-report", "--state-dir", state, "--config", config, "-o", report)
	require.NoError(t, err, output)
	require.Contains(t, output, report+": look through it before you give it away")
	info, err := os.Stat(report)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	files := unpacked(t, report)
	for name, has := range map[string]string{
		"README":                 "were replaced by (redacted)",
		"state.txt":              "identity.pem",
		"agent/status.json":      "spiffe://mesh.example/ns/shop/sa/cart",
		"agent/settings.json":    "drain-time",
		"agent/agent.log":        "is a member of the mesh",
		"agent/envoy.log":        "starting main dispatch loop",
		"agent/mesh-agent.yaml":  "jwt-file:",
		"envoy/config_dump.json": "xds-grpc",
		"envoy/ready.txt":        "LIVE",
		"envoy/stats.txt":        "server.live: ",
		"machine/proc/meminfo":   "MemTotal",
	} {
		require.Contains(t, files[name], has, name)
	}
	_, key, _ := strings.Cut(string(identity), "PRIVATE KEY-----\n")
	key, _, _ = strings.Cut(key, "\n")
	require.Greater(t, len(key), 40)
	for name, content := range files {
		require.NotContains(t, content, "planted", name)
		require.NotContains(t, content, key, name)
		require.NotContains(t, content, "BEGIN PRIVATE", name)
	}
	require.True(t, strings.HasPrefix(files["README"], "This was collected by mesh-agent bug-report"))

	output, err = command(t, nil, "bug-report", "--state-dir", state, "-o", report)
	require.Error(t, err)
	require.Contains(t, output, report+" is there already")
	a.end(t)
}

func TestBugReportWithoutAnAgent(t *testing.T) {
	t.Parallel()
	state := shortFolder(t)
	report := filepath.Join(t.TempDir(), "report.tar.gz")
	output, err := command(t, nil, "bug-report", "--state-dir", state, "-o", report)
	require.NoError(t, err, output)
	require.Contains(t, output, "agent/status.json: no mesh-agent runs")
	files := unpacked(t, report)
	require.Contains(t, files["missing.txt"], "envoy/config_dump.json: no Envoy runs")
	require.Contains(t, files["machine/proc/meminfo"], "MemTotal")
	require.Contains(t, files["README"], "missing.txt")
}
