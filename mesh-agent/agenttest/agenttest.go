// Package agenttest gives a test a real agent: the test's own binary, which is mesh-agent in a
// process of its own. A package that uses it has Main as its TestMain.
package agenttest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/commands"
)

// Variable makes the test's binary mesh-agent where it is in the environment.
const Variable = "MESH_AGENT_TEST_BE_AGENT=1"

// Main runs the tests, or the agent in the processes that the tests start.
func Main(m *testing.M) {
	if name, _, _ := strings.Cut(Variable, "="); os.Getenv(name) != "" {
		os.Exit(program.Main(commands.Root()))
	}
	os.Exit(m.Run())
}

// Command returns mesh-agent with these arguments, to start.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...) //nolint:gosec // this binary
	cmd.Env = append(os.Environ(), Variable)
	return cmd
}

// Run runs mesh-agent to its end, and returns what it wrote. The variables are added to its
// environment.
func Run(t testing.TB, variables []string, args ...string) (string, error) {
	t.Helper()
	cmd := Command(args...)
	cmd.Env = append(cmd.Env, variables...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// Proc is an agent that runs.
type Proc struct {
	*exec.Cmd
	Heard *bytes.Buffer // everything read from now on, if not nil

	log *bufio.Scanner
}

// Start starts mesh-agent, which is killed at the end of the test if it runs still.
func Start(t testing.TB, args ...string) *Proc {
	t.Helper()
	cmd := Command(args...)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	cmd.Stderr = writer
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	writer.Close()
	return &Proc{Cmd: cmd, log: bufio.NewScanner(reader)}
}

// StartInsecure starts mesh-agent run without an identity, and with a discovery that is away.
func StartInsecure(t testing.TB, args ...string) *Proc {
	t.Helper()
	return Start(t, append([]string{
		"run", "--insecure", "--tie-envoy", "--discovery", "127.0.0.1:1", "--admin", "127.0.0.1:0", "--envoy", envoytest.Binary(t),
	}, args...)...)
}

// StartSecure starts mesh-agent run, which has to be told who the machine is and where discovery
// is.
func StartSecure(t testing.TB, args ...string) *Proc {
	t.Helper()
	return Start(t, append([]string{"run", "--tie-envoy", "--admin", "127.0.0.1:0", "--envoy", envoytest.Binary(t)}, args...)...)
}

// Await reads on to the line of the log that contains words.
func (a *Proc) Await(t testing.TB, words string) string {
	t.Helper()
	for a.log.Scan() {
		if line := a.log.Text(); strings.Contains(line, words) {
			return line
		}
	}
	t.Fatalf("the agent ended without saying %q", words)
	return ""
}

// AwaitAddress reads on to the address of the status port.
func (a *Proc) AwaitAddress(t testing.TB) string {
	t.Helper()
	_, address, _ := strings.Cut(a.Await(t, "status address"), "address=")
	return address
}

// AwaitEndOfLog reads to the end of the log, which comes when the agent and its Envoy have ended.
func (a *Proc) AwaitEndOfLog() {
	for a.log.Scan() {
		if a.Heard != nil {
			a.Heard.WriteString(a.log.Text() + "\n")
		}
	}
}

// End ends the agent by SIGTERM, and has it end with exit code 0.
func (a *Proc) End(t testing.TB) {
	t.Helper()
	if a.Heard == nil {
		a.Heard = &bytes.Buffer{} // says why, if the agent ends otherwise
	}
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	a.AwaitEndOfLog()
	text := a.Heard.String()
	require.NoError(t, a.Wait(), "exit code 0; its last words: %s", text[max(0, len(text)-4000):])
}
