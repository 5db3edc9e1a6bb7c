package commands_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

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
	config := agenttest.ConfigFile(t, "jwt-file: "+agenttest.TokenFile(t, planted)+"\ntoken: planted-in-the-settings\nlabels: {password: planted-in-a-label}\n")
	a, state := agenttest.StartMember(t, "--labels", "api-key=planted-in-another-label,seen="+planted)
	identity, err := os.ReadFile(filepath.Join(state, "identity.pem"))
	require.NoError(t, err)
	require.Contains(t, string(identity), "PRIVATE KEY")

	report := filepath.Join(t.TempDir(), "report.tar.gz")
	output, err := agenttest.Run(t, []string{"PGMESH_JOIN_TOKEN=planted-in-a-variable"}, "bug-report", "--state-dir", state, "--config", config, "-o", report)
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

	output, err = agenttest.Run(t, nil, "bug-report", "--state-dir", state, "-o", report)
	require.Error(t, err)
	require.Contains(t, output, report+" is there already")
	a.End(t)
}

func TestBugReportWithoutAnAgent(t *testing.T) {
	t.Parallel()
	state := agenttest.ShortFolder(t)
	report := filepath.Join(t.TempDir(), "report.tar.gz")
	output, err := agenttest.Run(t, nil, "bug-report", "--state-dir", state, "-o", report)
	require.NoError(t, err, output)
	require.Contains(t, output, "agent/status.json: no mesh-agent runs")
	files := unpacked(t, report)
	require.Contains(t, files["missing.txt"], "envoy/config_dump.json: no Envoy runs")
	require.Contains(t, files["machine/proc/meminfo"], "MemTotal")
	require.Contains(t, files["README"], "missing.txt")
}
