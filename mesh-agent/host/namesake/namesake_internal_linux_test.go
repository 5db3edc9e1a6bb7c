package namesake

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// squatVariable names the socket that this binary keeps, in place of running tests.
const squatVariable = "NAMESAKE_TEST_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(squatVariable); socket != "" {
		squat(socket)
	}
	os.Exit(m.Run())
}

// squat keeps a socket until its standard input ends, as the agent of another account would.
func squat(socket string) {
	if _, err := net.Listen("unix", socket); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("kept\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// An account that is neither root nor the agent's cannot keep a name from it.
func TestAnotherAccountIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a program under another account")
	}
	h := New(Name{[]string{"discovery:15012"}, "shop", t.Name()}, t.TempDir(), slog.New(slog.DiscardHandler))
	binary, err := os.Open(os.Args[0]) // which the other account may not reach by its path
	require.NoError(t, err)
	defer binary.Close()
	other := exec.Command("/proc/self/fd/3")
	other.ExtraFiles = []*os.File{binary}
	other.Env = append(os.Environ(), squatVariable+"="+h.name.socket())
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	other.Dir = "/"
	in, err := other.StdinPipe()
	require.NoError(t, err)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	defer func() { in.Close(); _ = other.Wait() }()
	_, err = io.ReadFull(out, make([]byte, len("kept\n")))
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- h.Run(ctx) }()
	require.True(t, h.Await(ctx))
	require.Eventually(t, func() bool { return h.Trouble() != "" }, 20*answerTimeout, answerTimeout/100)
	require.Contains(t, h.Trouble(), "the two take each other's place there again and again")
	cancel()
	require.NoError(t, <-ran)
}
