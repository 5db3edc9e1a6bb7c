package cli_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/mcp-client/cli"
)

// openTerminal opens a pseudo-terminal: what is written to the second is read from the first.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
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
	return screen, terminal
}

// Somebody who waits is told what for, and the line goes away before anything else is said.
func TestWaitingIsToldOnATerminal(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	screen, terminal := openTerminal(t)
	code := make(chan int, 1)
	go func() {
		program := cli.Program{In: strings.NewReader(""), Out: terminal, Err: terminal, Getenv: func(string) string { return "" }}
		code <- program.Run(t.Context(), []string{"get", "vs", "--server", silent.Addr().String(), "--insecure", "--timeout", "1500ms"})
	}()
	line, err := bufio.NewReader(screen).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, 4, <-code)
	require.Contains(t, line, "\rreading from "+silent.Addr().String()+"  1 s")
	shown := line[strings.LastIndex(line, "\r"+strings.Repeat(" ", 70)+"\r"):]
	require.Contains(t, shown, "error: the server at")
}

func TestATerminalHasColours(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	for want, env := range map[string]map[string]string{"\x1b[1mrevision": {}, "revision 1": {"NO_COLOR": "1"}, "revision 1 ": {"TERM": "dumb"}} {
		screen, terminal := openTerminal(t)
		program := cli.Program{In: strings.NewReader(""), Out: terminal, Err: terminal, Getenv: func(name string) string { return env[name] }}
		require.Zero(t, program.Run(t.Context(), []string{"watch", "vs/reviews", "--count", "1", "--server", m.address, "--insecure"}))
		line, err := bufio.NewReader(screen).ReadString('\n')
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(line, want), "%q", line)
	}
}
