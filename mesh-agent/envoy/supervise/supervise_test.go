package supervise_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
)

func TestMain(m *testing.M) {
	if os.Getenv(beAgent) != "" {
		agentMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// echo is a bootstrap for an Envoy that echoes what it receives on a port.
const echo = `{
  "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
  "static_resources": {"listeners": [{
    "name": "echo",
    "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}},
    "filter_chains": [{"filters": [{"name": "echo", "typed_config": {
      "@type": "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo"}}]}]}]}}`

// supervised is a running supervisor and the events it logs.
type supervised struct {
	*supervise.Supervisor
	end    context.CancelFunc
	result chan error
	events chan event
	envoy  *watch
}

type event struct {
	Msg string
	Pid int
}

func start(t *testing.T, change func(*supervise.Options)) *supervised {
	t.Helper()
	events := make(chan event, 100)
	s := &supervised{events: events, result: make(chan error, 1), envoy: newWatch()}
	o := supervise.Options{
		Envoy:     envoytest.Binary(t),
		Bootstrap: fmt.Appendf(nil, echo, 0),
		Args:      []string{"--concurrency", "1", "--log-level", "info"},
		Folder:    t.TempDir(),
		Tied:      true,
		Output:    s.envoy,
		Log:       slog.New(slog.NewJSONHandler(eventWriter(events), nil)),
	}
	change(&o)
	var err error
	s.Supervisor, err = supervise.New(o)
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	s.end = end
	go func() {
		defer s.envoy.Close()
		s.result <- s.Run(ctx)
	}()
	t.Cleanup(end)
	return s
}

// eventWriter decodes the log, one record a write.
type eventWriter chan<- event

func (w eventWriter) Write(p []byte) (int, error) {
	var e event
	if err := json.Unmarshal(p, &e); err != nil {
		return 0, err
	}
	w <- e
	return len(p), nil
}

// watch reads Envoy's log and announces each start of its workers.
type watch struct {
	*io.PipeWriter
	ready chan struct{}
}

func newWatch() *watch {
	reader, writer := io.Pipe()
	w := &watch{writer, make(chan struct{}, 100)}
	go func() {
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			if strings.Contains(lines.Text(), "starting workers") {
				w.ready <- struct{}{}
			}
		}
	}()
	return w
}

func (s *supervised) await(t *testing.T, message string) event {
	t.Helper()
	for {
		select {
		case e := <-s.events:
			if e.Msg == message {
				return e
			}
		case err := <-s.result:
			t.Fatalf("the supervisor ended while the test waited for %q: %v", message, err)
		}
	}
}

// awaitReady waits until Envoy accepts connections: it logs that a moment before, and answers its
// admin API only after.
func (s *supervised) awaitReady(t *testing.T) {
	t.Helper()
	<-s.envoy.ready
	require.NoError(t, s.Ready(t.Context()))
}

// isGone reports true for a zombie, too: which process has to wait for Envoy is not up to the test.
func isGone(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(content), ") Z ")
}

func unchanged(*supervise.Options) {}

func TestEnvoyRunsUntilAskedToEnd(t *testing.T) {
	t.Parallel()
	s := start(t, unchanged)
	pid := s.await(t, "Envoy started").Pid
	s.awaitReady(t)

	s.end()

	require.NoError(t, <-s.result)
	require.True(t, isGone(pid))
}

func TestKilledEnvoyIsRestarted(t *testing.T) {
	t.Parallel()
	s := start(t, unchanged)
	first := s.await(t, "Envoy started").Pid
	s.awaitReady(t)

	killed := time.Now()
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	second := s.await(t, "Envoy started").Pid
	s.awaitReady(t)

	require.NotEqual(t, first, second)
	t.Logf("back after %s", time.Since(killed))
	s.end()
	require.NoError(t, <-s.result)
	require.True(t, isGone(second))
}

func TestOpenConnectionMayFinish(t *testing.T) {
	t.Parallel()
	port := envoytest.Port(t)
	s := start(t, func(o *supervise.Options) {
		o.Bootstrap = fmt.Appendf(nil, echo, port)
		o.DrainTime = time.Minute
	})
	s.awaitReady(t)
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	say(t, conn, "before")

	s.end()
	s.await(t, "ending Envoy")
	say(t, conn, "while draining")

	require.NoError(t, conn.Close())
	require.NoError(t, <-s.result, "the end does not wait for the drain time once nobody is connected")
}

func TestDrainTimeIsAnUpperBound(t *testing.T) {
	t.Parallel()
	port := envoytest.Port(t)
	s := start(t, func(o *supervise.Options) {
		o.Bootstrap = fmt.Appendf(nil, echo, port)
		o.DrainTime = 200 * time.Millisecond
	})
	s.awaitReady(t)
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	defer conn.Close()
	say(t, conn, "hello")

	s.end()

	s.await(t, "connections are still open at the end of the drain time, they will be cut")
	require.NoError(t, <-s.result)
}

func TestHangingEnvoyIsKilled(t *testing.T) {
	t.Parallel()
	s := start(t, unchanged)
	pid := s.await(t, "Envoy started").Pid
	s.awaitReady(t)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))

	s.end()

	require.ErrorContains(t, <-s.result, "Envoy did not end within 5s of SIGTERM and was killed")
	require.True(t, isGone(pid))
}

func TestFailedFirstStartIsExplained(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	notAProgram := filepath.Join(t.TempDir(), "envoy")
	require.NoError(t, os.WriteFile(notAProgram, []byte("\x7fELF, but not really"), 0o700))

	for name, c := range map[string]struct {
		change func(*supervise.Options)
		want   []string
	}{
		"missing": {
			func(o *supervise.Options) { o.Envoy = "/nowhere/envoy" },
			[]string{"/nowhere/envoy", "no such file", "--envoy"},
		},
		"not a program": {
			func(o *supervise.Options) { o.Envoy = notAProgram },
			[]string{notAProgram, "--envoy"},
		},
		"port in use": {
			func(o *supervise.Options) {
				o.Bootstrap = fmt.Appendf(nil, `{"admin":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}}}}`,
					taken.Addr().(*net.TCPAddr).Port)
			},
			[]string{taken.Addr().String(), "is in use", "--admin"},
		},
		"bootstrap that Envoy refuses": {
			func(o *supervise.Options) { o.Bootstrap = []byte(`{"nodes": {}}`) },
			[]string{"ended while it started (exit status 1)", "nodes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.change)
			err := <-s.result
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Error(t, s.Ready(t.Context()))
		})
	}
}

func say(t *testing.T, conn net.Conn, words string) {
	t.Helper()
	_, err := io.WriteString(conn, words)
	require.NoError(t, err)
	answer := make([]byte, len(words))
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, words, string(answer))
}
