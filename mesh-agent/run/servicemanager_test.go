package run_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

func TestServiceManagerNotifications(t *testing.T) { //nolint:paralleltest // it has variables of its own
	folder := agenttest.ShortFolder(t)
	socket := filepath.Join(folder, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { manager.Close() })
	hear := func(words string) {
		t.Helper()
		require.NoError(t, manager.SetReadDeadline(time.Now().Add(30*time.Second)))
		for buffer := make([]byte, 4096); ; {
			n, err := manager.Read(buffer)
			require.NoError(t, err, "waiting for %q", words)
			if strings.Contains(string(buffer[:n]), words) {
				return
			}
		}
	}
	// An Envoy that is ready without discovery.
	path := filepath.Join(folder, "own.yaml")
	require.NoError(t, os.WriteFile(path, []byte("dynamic_resources:\n  lds_config: {initial_fetch_timeout: 0.1s}\n  cds_config: {initial_fetch_timeout: 0.1s}\n"), 0o600))
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "300000")
	a := plain(t, filepath.Join(folder, "state"), "127.0.0.1:1", "--bootstrap-template", path)
	hear("EXTEND_TIMEOUT_USEC=")
	hear("READY=1\nSTATUS=Envoy serves")
	hear("WATCHDOG=1")
	require.NoError(t, a.Process.Signal(syscall.SIGHUP))
	hear("RELOADING=1\nMONOTONIC_USEC=")
	hear("READY=1\nSTATUS=Envoy serves")
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	hear("STOPPING=1")
	a.AwaitEndOfLog()
	require.NoError(t, a.Wait())
}
