package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
)

// A user without Go unpacks the programs, says make demo, and sees a canary shifted.
func TestTheDemoNeedsNoGo(t *testing.T) {
	publish(t, before)
	folder, err := os.MkdirTemp("", "pgmesh-unpacked-") // t.TempDir() is closed to the account that runs Postgres
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755))
	name := fmt.Sprintf("pgmesh-%s-linux-%s", before, runtime.GOARCH)
	out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(site, before, "programs", name+".tar.gz"), "-C", folder).CombinedOutput()
	require.NoError(t, err, "%s", out)

	var flags []string
	for _, part := range []string{"postgres", "mcp", "mcp-http", "mcp-api", "xds", "discovery-http", "admin", "status", "service", "v1", "v2"} {
		port, err := freeport.New()
		require.NoError(t, err)
		flags = append(flags, fmt.Sprintf("--%s-port=%d", part, port))
	}
	const path = "/usr/bin:/bin"
	without := exec.CommandContext(t.Context(), "env", "-i", "PATH="+path, "sh", "-c", "command -v go")
	require.Error(t, without.Run(), "there is a Go in %s, so this proves nothing", path)

	for _, command := range [][]string{{"make", "demo", "FLAGS=--once " + strings.Join(flags, " ")}, append([]string{"./demo", "--once"}, flags...)} {
		demo := exec.CommandContext(t.Context(), "env", append([]string{"-i", "PATH=" + path, "HOME=" + folder}, command...)...)
		demo.Dir = filepath.Join(folder, name)
		out, err := demo.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "From COMMIT to the first answer from v2: ")
	}
	for _, file := range []string{
		"docs/machines.md", "deploy/ansible/roles/mesh_agent/tasks/main.yml", "deploy/cloud-init/machine.yaml", "deploy/prometheus/alerts.yaml", "deploy/grafana/mesh.json",
	} {
		require.FileExists(t, filepath.Join(folder, name, file), "the docs name it")
	}
	says, err := exec.CommandContext(t.Context(), filepath.Join(folder, name, "bin", "mesh-agent"), "--version").Output()
	require.NoError(t, err)
	require.Contains(t, string(says), "version "+before+" go")
}
