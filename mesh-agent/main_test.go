package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// beAgent makes this test binary the mesh-agent, so that tests run the real program.
const beAgent = "MESH_AGENT_TEST_BE_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(beAgent) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// proc is a running mesh-agent.
type proc struct {
	*exec.Cmd
	log   *bufio.Scanner
	heard *bytes.Buffer // everything read from now on, if not nil
}

func startAgent(t *testing.T, args ...string) *proc {
	t.Helper()
	return start(t, append([]string{
		"run", "--insecure", "--tie-envoy", "--discovery", "127.0.0.1:1", "--admin", "127.0.0.1:0", "--envoy", envoytest.Binary(t),
	}, args...)...)
}

func start(t *testing.T, args ...string) *proc {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), beAgent+"=1")
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	cmd.Stderr = writer
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	writer.Close()
	return &proc{Cmd: cmd, log: bufio.NewScanner(reader)}
}

// await reads on to the line that contains words.
func (a *proc) await(t *testing.T, words string) string {
	t.Helper()
	for a.log.Scan() {
		if line := a.log.Text(); strings.Contains(line, words) {
			return line
		}
	}
	t.Fatalf("the agent ended without saying %q", words)
	return ""
}

func (a *proc) awaitAddress(t *testing.T) string {
	t.Helper()
	_, address, _ := strings.Cut(a.await(t, "status address"), "address=")
	return address
}

func (a *proc) awaitEndOfLog() {
	for a.log.Scan() {
		if a.heard != nil {
			a.heard.WriteString(a.log.Text() + "\n")
		}
	}
}

func TestSIGTERMEndsTheAgentAndItsEnvoy(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		a := startAgent(t, "--status", "", "--envoy-log-level", "info")
		a.await(t, "starting main dispatch loop")

		require.NoError(t, a.Process.Signal(signal))

		a.awaitEndOfLog()
		require.NoError(t, a.Wait(), "exit code 0")
	}
}

func TestKilledAgentWithoutAStateFolderLeavesNoEnvoy(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--status", "", "--envoy-log-level", "info")
	_, pid, _ := strings.Cut(a.await(t, "Envoy started"), "pid=")
	a.await(t, "starting main dispatch loop")

	require.NoError(t, a.Process.Kill())

	a.awaitEndOfLog()
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
	a := startAgent(t, "--status", "", "--state-dir", folder, "--tie-envoy", "--envoy-log-level", "info")
	a.await(t, "starting main dispatch loop")
	output, err := command(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--state-dir", folder)
	require.Error(t, err)
	require.Contains(t, output, fmt.Sprintf("another mesh-agent (process %d) runs with the state folder %s: end that one, or give this one a folder of its own with --state-dir",
		a.Process.Pid, folder))
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	a.awaitEndOfLog()
	require.NoError(t, a.Wait())
}

func TestNotReadyWhileEnvoyWaitsForConfiguration(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--status", "127.0.0.1:0", "--envoy-log-level", "info")
	address := a.awaitAddress(t)
	a.await(t, "starting main dispatch loop")

	code, body := get(t, "http://"+address+"/healthz/ready")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "INITIALIZING")
	code, _ = get(t, "http://"+address+"/healthz/live")
	require.Equal(t, http.StatusOK, code)

	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	a.awaitEndOfLog()
	require.NoError(t, a.Wait())
}

func TestInvalidFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"where is discovery? Say it with --discovery host:port":              {"bootstrap", "--insecure"},
		"--insecure speaks plaintext with a discovery that does so, too":     {"run", "--discovery", "127.0.0.1:1", "--state-dir", t.TempDir()},
		`discovery is to be at "http://127.0.0.1:1", which is not host:port`: {"run", "--insecure", "--discovery", "http://127.0.0.1:1"},
		`interception mode "tproxy": expected one of NONE, REDIRECT, T`:      {"run", "--insecure", "--discovery", "127.0.0.1:1", "--interception-mode", "tproxy"},
	} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), beAgent+"=1")
		output, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(output), want)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}
