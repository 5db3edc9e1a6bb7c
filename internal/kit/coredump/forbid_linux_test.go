package coredump_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/internal/kit/coredump"
)

// beProgram makes this test binary a program that applies its flags, prints its state and runs
// until its input ends.
const beProgram = "COREDUMP_TEST_BE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) == "" {
		os.Exit(m.Run())
	}
	flags := pflag.NewFlagSet("program", pflag.PanicOnError)
	coredump.Flag(flags)
	_ = flags.Parse(os.Args[1:])
	if err := coredump.ForbidUnlessAllowed(flags); err != nil {
		fmt.Fprintln(os.Stdout, "error", err)
		return
	}
	dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Fprintln(os.Stdout, "dumpable", dumpable)
	child := exec.Command("cat", "/proc/self/limits", "/proc/self/coredump_filter")
	child.Stdout = os.Stdout
	_ = child.Run()
	fmt.Fprintln(os.Stdout, "end")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// program runs the test binary as nobody, and returns its process id and what it printed.
func program(t *testing.T, flags ...string) (pid int, said string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may start a program under another account")
	}
	cmd := exec.Command("/proc/self/exe", flags...)
	cmd.Env = []string{beProgram + "=1", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	var printed strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
		printed.WriteString(strings.Join(strings.Fields(lines.Text()), " ") + "\n")
	}
	return cmd.Process.Pid, printed.String()
}

const nobody = 65534

// readAsNobody tries to read a program's memory as another process of its account would.
func readAsNobody(t *testing.T, pid int) error {
	t.Helper()
	cmd := exec.Command("head", "-c", "1", fmt.Sprintf("/proc/%d/maps", pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd.Run()
}

func TestProgramAndChildrenDumpNoCore(t *testing.T) {
	t.Parallel()
	pid, said := program(t)
	require.Contains(t, said, "dumpable 0\n")
	require.Contains(t, said, "Max core file size 0 0 bytes\n", "of its child")
	require.Contains(t, said, "\n00000000\n", "what a pipe would get of its child")
	require.Error(t, readAsNobody(t, pid), "its account reads its memory")
}

func TestCoreDumpsCanBeAllowed(t *testing.T) {
	t.Parallel()
	pid, said := program(t, "--"+coredump.AllowFlag)
	require.Contains(t, said, "dumpable 1\n")
	require.NotContains(t, said, "\n00000000\n")
	require.NoError(t, readAsNobody(t, pid))
}
