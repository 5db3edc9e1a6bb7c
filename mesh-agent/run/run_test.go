package run_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

func TestSIGTERMEndsTheAgentAndItsEnvoy(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		a := agenttest.StartInsecure(t, "--status", "", "--envoy-log-level", "info")
		a.Await(t, "starting main dispatch loop")

		require.NoError(t, a.Process.Signal(signal))

		a.AwaitEndOfLog()
		require.NoError(t, a.Wait(), "exit code 0")
	}
}

func TestKilledAgentWithoutAStateFolderLeavesNoEnvoy(t *testing.T) {
	t.Parallel()
	a := agenttest.StartInsecure(t, "--status", "", "--envoy-log-level", "info")
	_, pid, _ := strings.Cut(a.Await(t, "Envoy started"), "pid=")
	a.Await(t, "starting main dispatch loop")

	require.NoError(t, a.Process.Kill())

	a.AwaitEndOfLog()
	require.Error(t, a.Wait())
	require.Eventually(t, func() bool { return isGone(t, pid) }, 20*time.Second, time.Millisecond)
}

// isGone is true of a process that has ended, whether or not its parent has asked how.
func isGone(t *testing.T, pid string) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

func TestStateFolderIsLocked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	a := agenttest.StartInsecure(t, "--status", "", "--state-dir", folder, "--tie-envoy", "--envoy-log-level", "info")
	a.Await(t, "starting main dispatch loop")
	output, err := agenttest.Run(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--state-dir", folder)
	require.Error(t, err)
	require.Contains(t, output, fmt.Sprintf("another mesh-agent (process %d) runs with the state folder %s: end that one, or give this one a folder of its own with --state-dir",
		a.Process.Pid, folder))
	a.End(t)
}

func TestNotReadyWhileEnvoyWaitsForConfiguration(t *testing.T) {
	t.Parallel()
	a := agenttest.StartInsecure(t, "--status", "127.0.0.1:0", "--envoy-log-level", "info")
	address := a.AwaitAddress(t)
	a.Await(t, "starting main dispatch loop")

	code, body := agenttest.Get(t, "http://"+address+"/healthz/ready")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "INITIALIZING")
	code, _ = agenttest.Get(t, "http://"+address+"/healthz/live")
	require.Equal(t, http.StatusOK, code)

	a.End(t)
}

func TestInvalidFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"where is discovery? Say it with --discovery host:port":              {"bootstrap", "--insecure"},
		"--insecure speaks plaintext with a discovery that does so, too":     {"run", "--discovery", "127.0.0.1:1", "--state-dir", t.TempDir()},
		`discovery is to be at "http://127.0.0.1:1", which is not host:port`: {"run", "--insecure", "--discovery", "http://127.0.0.1:1"},
		`interception mode "tproxy": expected one of NONE, REDIRECT, T`:      {"run", "--insecure", "--discovery", "127.0.0.1:1", "--interception-mode", "tproxy"},
	} {
		output, err := agenttest.Run(t, nil, args...)
		require.Error(t, err)
		require.Contains(t, output, want)
	}
}
