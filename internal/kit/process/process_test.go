package process_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// beParent makes this test binary the parent in TestChildDiesWithKilledParent: it starts a child
// and waits.
const beParent = "PROCESS_TEST_BE_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(beParent) != "" {
		parent()
		return
	}
	goleak.VerifyTestMain(m)
}

func parent() {
	cmd := exec.Command("sleep", "3600")
	cmd.Stdout = os.Stdout
	child, err := process.Start(cmd)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("started\n")
	<-child.Done()
}

func shell(t *testing.T, script string) (*process.Process, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close() })
	cmd.Stdout = writer
	p, err := process.Start(cmd)
	require.NoError(t, err)
	writer.Close()
	return p, bufio.NewReader(reader)
}

func TestErr(t *testing.T) {
	t.Parallel()
	good, _ := shell(t, "exit 0")
	require.NoError(t, good.Err())

	bad, _ := shell(t, "exit 3")
	var exit *exec.ExitError
	require.ErrorAs(t, bad.Err(), &exit)
	require.Equal(t, 3, exit.ExitCode())
}

func TestStartMissingProgram(t *testing.T) {
	t.Parallel()
	_, err := process.Start(exec.Command("/nowhere/envoy"))
	require.ErrorContains(t, err, "start /nowhere/envoy")
}

func TestStopTerminatesTheChild(t *testing.T) {
	t.Parallel()
	p, output := shell(t, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done`)
	_, err := output.ReadString('\n')
	require.NoError(t, err)

	p.Stop(time.Minute)

	require.NoError(t, p.Err())
	line, _ := output.ReadString('\n')
	require.Equal(t, "bye\n", line)
}

func TestStopKillsAfterGrace(t *testing.T) {
	t.Parallel()
	p, output := shell(t, `trap '' TERM; echo up; while :; do sleep 0.01; done`)
	_, err := output.ReadString('\n')
	require.NoError(t, err)

	p.Stop(time.Millisecond)

	require.ErrorContains(t, p.Err(), "killed")
}

func TestChildDiesWithKilledParent(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), beParent+"=1")
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)

	require.NoError(t, cmd.Process.Kill())

	// Parent and child hold the pipe: end of file means that both are gone.
	_, err = io.Copy(io.Discard, output)
	require.NoError(t, err)
	_ = cmd.Wait()
}

func TestTailKeepsTheLastLines(t *testing.T) {
	t.Parallel()
	tail := process.NewTail(2)
	for _, piece := range []string{"one\ntw", "o\nthree\n", "fo"} {
		n, err := tail.Write([]byte(piece))
		require.NoError(t, err)
		require.Len(t, piece, n)
	}
	require.Equal(t, "two\nthree\nfo", tail.String())
}
