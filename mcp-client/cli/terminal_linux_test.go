package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/mcp-client/cli"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// openTerminal opens a pseudo-terminal: the first file reads what is written to the second.
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

// The message about waiting must be erased before other output.
func TestWaitingOnTerminal(t *testing.T) {
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

// A terminal shows how far proxies are. Who is interrupted is told that the change stays.
func TestAWaitForProxiesOnATerminal(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Reporting(m.Store())(0, []rollout.Proxy{clitest.ProxyOf(1, "shop", "cart", "sidecar")})
	screen, terminal := openTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		program := cli.Program{In: strings.NewReader(clitest.VirtualService("shop", "cart", "cart")), Out: io.Discard, Err: terminal, Getenv: func(string) string { return "" }}
		code <- program.Run(ctx, []string{"apply", "-f", "-", "--wait", "--server", m.Address, "--insecure"})
	}()
	shown := bufio.NewReader(screen)
	progress := "0 of 1 proxies run revision 1"
	for seen := ""; !strings.HasSuffix(seen, progress); {
		r, err := shown.ReadByte()
		require.NoError(t, err)
		seen += string(r)
	}
	interrupt()
	line, err := shown.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, 130, <-code)
	require.Contains(t, line, "\r"+strings.Repeat(" ", 70)+"\rinterrupted: revision 1 is committed and stays\r\n")
}

func TestTerminalHasColours(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	for want, env := range map[string]map[string]string{"\x1b[1mrevision": {}, "revision 1": {"NO_COLOR": "1"}, "revision 1 ": {"TERM": "dumb"}} {
		screen, terminal := openTerminal(t)
		program := cli.Program{In: strings.NewReader(""), Out: terminal, Err: terminal, Getenv: func(name string) string { return env[name] }}
		require.Zero(t, program.Run(t.Context(), []string{"watch", "vs/reviews", "--count", "1", "--server", m.Address, "--insecure"}))
		line, err := bufio.NewReader(screen).ReadString('\n')
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(line, want), "%q", line)
	}
}

// Control characters are kept in files and pipes, and escaped on a terminal.
func TestATerminalIsNotDrivenByWhatOthersWrote(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	m.Execute(`UPDATE mesh.virtual_services SET annotations = jsonb_build_object('text', U&'title \001b]0;owned\0007 \009b1A \202e') WHERE name = 'reviews'`)
	m.Await(2)
	for command, there := range map[string]string{
		"get vs/reviews -o yaml": `\u202e`, "get vs/reviews -o json": `\u009b1A \u202e`, "get vs/reviews -o jsonpath={.metadata.annotations.text}": `\u001b]0;owned`,
		"export --kind vs": `\u202e`, "describe vs/reviews": `\u001b]0;owned\u0007 \u009b1A \u202e`, "watch vs/reviews --count 1 -o yaml": `\u202e`, "snapshot save -": `\u009b1A`,
	} {
		screen, terminal := openTerminal(t)
		seen := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(screen) // it ends with an error when nobody has the terminal open any more
			seen <- string(all)
		}()
		program := cli.Program{In: strings.NewReader(""), Out: terminal, Err: terminal, Getenv: func(string) string { return "" }}
		require.Zero(t, program.Run(t.Context(), append(strings.Fields(command), "--color", "never", "--server", m.Address, "--insecure")))
		terminal.Close()
		shown := <-seen
		require.Contains(t, shown, there, command)
		for _, r := range shown {
			require.True(t, unicode.IsGraphic(r) || strings.ContainsRune("\t\r\n", r), "%s: %U in %q", command, r, shown)
		}
	}
}
