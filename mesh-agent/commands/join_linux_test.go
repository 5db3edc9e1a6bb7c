package commands_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
)

// joinAtATerminal starts join with a terminal, and returns what is read from that after the
// question.
func joinAtATerminal(t *testing.T, server, state string) (cmd *exec.Cmd, screen, terminal *os.File, said *bufio.Reader) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { screen.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { terminal.Close() })
	cmd = agenttest.Command("join", "--server", server, "--state-dir", state)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	require.NoError(t, cmd.Start())
	said = bufio.NewReader(screen)
	_, err = said.ReadString(':')
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !echoes(t, terminal) }, 10*time.Second, time.Millisecond) // just after the prompt
	return cmd, screen, terminal, said
}

func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return state.Lflag&unix.ECHO != 0
}

func TestJoinPromptsWithoutEcho(t *testing.T) {
	t.Parallel()
	d := jointest.New(t, "mesh.example", time.Hour)
	token := d.Token("shop", "cart", 1, 0).Text()
	cmd, screen, terminal, said := joinAtATerminal(t, d.Address, filepath.Join(agenttest.ShortFolder(t), "state"))
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
	require.NoError(t, err)
	require.NotContains(t, string(arguments), token)
	_, err = screen.WriteString(token + "\n")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	shown, err := said.ReadString(';')
	require.NoError(t, err)
	require.Contains(t, shown, "this machine is spiffe://mesh.example/ns/shop/sa/cart")
	require.NotContains(t, shown, token)
	require.True(t, echoes(t, terminal), "the terminal is as it was")
}

func TestInterruptedJoinRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	cmd, _, terminal, _ := joinAtATerminal(t, "127.0.0.1:1", filepath.Join(agenttest.ShortFolder(t), "state"))
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.True(t, echoes(t, terminal))
}

func TestJoinReadsTheTokenFromStandardInput(t *testing.T) {
	t.Parallel()
	d := jointest.New(t, "mesh.example", time.Hour)
	for _, flags := range [][]string{nil, {"--token-file", "-"}, {"--token", "-"}} {
		cmd := agenttest.Command(append([]string{"join", "--server", d.Address, "--state-dir", filepath.Join(agenttest.ShortFolder(t), "state")}, flags...)...)
		cmd.Stdin = strings.NewReader(d.Token("shop", "cart", 1, 0).Text() + "\n")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, string(output))
		require.NotContains(t, string(output), "level=WARN")
	}
	output, err := agenttest.Run(t, nil, "join", "--server", d.Address, "--token", d.Token("shop", "cart", 1, 0).Text(), "--state-dir", filepath.Join(agenttest.ShortFolder(t), "state"))
	require.NoError(t, err, output)
	require.Contains(t, output, "the join token was given as an argument")
}
