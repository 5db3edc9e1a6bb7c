package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// beDemo makes this test binary act as the demo. All children of the demo inherit its value, by
// which the test finds them.
const beDemo = "DEMO_TEST_BE_DEMO"

// bin has the programs, built once for all tests.
var bin string

func TestMain(m *testing.M) {
	if os.Getenv(beDemo) != "" {
		main()
		return
	}
	os.Exit(withPrograms(m.Run))
}

func withPrograms(run func() int) int {
	var err error
	if bin, err = os.MkdirTemp("", "pgmesh-demo-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(bin)
	if err := stack.Build(context.Background(), bin, "mcp-server", "mcp-client", "discovery", "mesh-agent"); err != nil {
		panic(err)
	}
	return run()
}

// scene is a data folder and a set of ports. The demo can be started on it several times.
type scene struct {
	mark  string
	args  []string
	ports ports
	data  string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{data: reachableFolder(t)}
	s.mark = s.data
	s.args = []string{"--data", s.data, "--bin", bin, "--envoy", envoytest.Binary(t)}
	for _, p := range s.ports.flags() {
		var err error
		*p.value, err = freeport.New()
		require.NoError(t, err)
		s.args = append(s.args, fmt.Sprintf("--%s=%d", p.flag, *p.value))
	}
	return s
}

// reachableFolder returns a folder that all accounts may enter: as root, the demo runs Postgres
// under another account.
func reachableFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "pgmesh-demo-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o755))
	return folder
}

// running is a running demo.
type running struct {
	*exec.Cmd
	lines *bufio.Scanner
	said  strings.Builder
	wrong bytes.Buffer
}

func (s *scene) start(t *testing.T) *running {
	t.Helper()
	r := &running{Cmd: exec.Command(os.Args[0], s.args...)}
	r.Env = append(os.Environ(), beDemo+"="+s.mark)
	r.Stderr = &r.wrong
	output, err := r.StdoutPipe()
	require.NoError(t, err)
	r.lines = bufio.NewScanner(output)
	require.NoError(t, r.Start())
	t.Cleanup(func() { _ = r.Process.Kill() })
	return r
}

// await reads up to the line that begins with words, and returns all output so far.
func (r *running) await(t *testing.T, words string) string {
	t.Helper()
	for r.lines.Scan() {
		fmt.Fprintln(&r.said, r.lines.Text())
		if strings.HasPrefix(r.lines.Text(), words) {
			return r.said.String()
		}
	}
	t.Fatalf("the demo ended without saying %q\n%s%s", words, &r.said, &r.wrong)
	return ""
}

// awaitEnd reads the rest of the output.
func (r *running) awaitEnd() {
	for r.lines.Scan() {
		continue
	}
}

// interrupt sends SIGINT, like Ctrl-C. The demo must end without an error and leave no processes
// behind.
func (s *scene) interrupt(t *testing.T, r *running) {
	t.Helper()
	require.NoError(t, r.Process.Signal(syscall.SIGINT))
	r.awaitEnd()
	require.NoError(t, r.Wait(), &r.wrong)
	require.Empty(t, s.processes(""), "processes left behind")
}

// processes returns the demo's processes whose command line contains words, by pid.
func (s *scene) processes(words string) map[int]string {
	found := map[int]string{}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		environment, _ := os.ReadFile(filepath.Join(folder, "environ"))
		command, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		if bytes.Contains(environment, []byte(beDemo+"="+s.mark)) && bytes.Contains(command, []byte(words)) {
			pid, _ := strconv.Atoi(filepath.Base(folder))
			found[pid] = string(command)
		}
	}
	return found
}

func (s *scene) execute(t *testing.T, sql string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data, "database-url"))
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), strings.TrimSpace(string(text)))
	require.NoError(t, err)
	defer db.Close(context.Background())
	_, err = db.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestSecondStartKeepsData(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	first := s.start(t)
	said := first.await(t, "Ctrl-C ends everything.")
	require.Contains(t, said, "From COMMIT to the first answer from v2: ")
	require.NotEmpty(t, s.processes("envoy"))
	require.NotEmpty(t, s.processes("postgres"))
	through := &service{"http://" + local(s.ports.service) + "/", &http.Client{}}
	require.Equal(t, "hello from v1", through.ask(t.Context()))

	s.execute(t, fmt.Sprintf(shiftSQL, 0, 100))
	s.interrupt(t, first)

	second := s.start(t)
	said = second.await(t, "Ctrl-C ends everything.")
	require.Contains(t, said, "From COMMIT to the first answer from v1: ")
	s.execute(t, fmt.Sprintf(shiftSQL, 50, 50))
	s.interrupt(t, second)

	third := s.start(t)
	require.Contains(t, third.await(t, "Ctrl-C ends everything."), "as an earlier start left it: v1 50, v2 50")
	s.interrupt(t, third)
}

func TestInterruptDuringStart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, step := range []string{"Postgres", "mcp-server", "the service", "discovery", "Envoy"} {
		r := s.start(t)
		r.await(t, "starting "+step)
		s.interrupt(t, r)
	}
}

func TestDeadChildIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := s.start(t)
	r.await(t, "Ctrl-C ends everything.")
	for pid := range s.processes("mcp-server\x00run") {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	r.awaitEnd()

	require.Error(t, r.Wait())
	require.Contains(t, r.wrong.String(), "mcp-server ended (signal: killed), its last words are below, its whole log is "+
		filepath.Join(s.data, "logs", "mcp-server.log"))
	require.Empty(t, s.processes(""), "processes left behind")
}

// Everybody on a machine can read the command lines of all.
func TestThePasswordIsOnNoCommandLine(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := s.start(t)
	r.await(t, "Ctrl-C ends everything.")
	text, err := os.ReadFile(filepath.Join(s.data, "database-url"))
	require.NoError(t, err)
	at, err := url.Parse(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	password, given := at.User.Password()
	require.True(t, given)
	require.NotEmpty(t, password)
	for _, command := range s.processes("") {
		require.NotContains(t, command, password)
	}
	s.interrupt(t, r)
}

func TestPortInUseIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, port := range []int{s.ports.xds, s.ports.admin} {
		taken, err := net.Listen("tcp", local(port))
		require.NoError(t, err)
		defer taken.Close()
	}

	r := s.start(t)
	require.Error(t, r.Wait())
	require.Contains(t, r.wrong.String(), fmt.Sprintf("port %d is needed for discovery: xDS and is in use, port %d is needed for Envoy's admin API", s.ports.xds, s.ports.admin))
	require.Regexp(t, `FLAGS='--xds-port=\d+ --admin-port=\d+'`, r.wrong.String())
}

func TestWhatIsNoPortIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.args = append(s.args, "--xds-port=99999")
	r := s.start(t)
	require.Error(t, r.Wait())
	require.Contains(t, r.wrong.String(), "--xds-port 99999: a port is a number from 1 to 65535")
}
