package supervise_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
)

// beAgent is the environment variable that makes this test binary an agent, with the options in it,
// which can be killed.
const beAgent = "SUPERVISE_TEST_BE_AGENT"

func agentMain() {
	o := supervise.Options{Output: os.Stdout, Stdout: os.Stdout, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil))}
	if err := json.Unmarshal([]byte(os.Getenv(beAgent)), &o); err != nil {
		panic(err)
	}
	o.Reexec = func() error { return syscall.Exec(os.Args[0], os.Args, os.Environ()) }
	s, err := supervise.New(o)
	if err != nil {
		panic(err)
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	go func() {
		for range again {
			s.Reload()
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := s.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, `{"msg":"failed","error":`+fmt.Sprintf("%q", err)+`}`)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

// web is a bootstrap for an Envoy that answers HTTP requests on one port with a fixed text and logs
// each on its standard output, and that echoes TCP on another port.
const web = `{
  "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}},
  "static_resources": {"listeners": [{
    "name": "web",
    "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}},
    "filter_chains": [{"filters": [{"name": "http", "typed_config": {
      "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
      "stat_prefix": "web",
      "access_log": [{"name": "stdout", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": "/dev/stdout",
        "log_format": {"text_format_source": {"inline_string": "%%REQ(X-MARK)%%\n"}}}}],
      "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
      "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
        {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "%s"}}}]}]}}}]}]},
  {
    "name": "echo",
    "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}},
    "filter_chains": [{"filters": [{"name": "echo", "typed_config": {
      "@type": "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo"}}]}]}]}}`

// machine is a machine on which agents come and go.
type machine struct {
	options           supervise.Options
	admin, port, echo uint32
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{admin: freePort(t), port: envoytest.Port(t), echo: envoytest.Port(t)}
	m.options = supervise.Options{
		Envoy:     envoytest.Binary(t),
		Args:      []string{"--concurrency", "1", "--log-level", "info", "--drain-time-s", "1", "--file-flush-interval-msec", "10"},
		Folder:    t.TempDir(),
		DrainTime: time.Second,

		ParentShutdown: 2 * time.Second,
	}
	m.says(t, "one")
	t.Cleanup(func() {
		for _, l := range m.lives(t) {
			_ = syscall.Kill(l.Pid, syscall.SIGKILL)
			_ = os.Remove(l.shared())
		}
	})
	return m
}

// freePort finds a port for what does not share its port, as Envoy's admin API does not.
func freePort(t *testing.T) uint32 {
	t.Helper()
	port, err := freeport.New()
	require.NoError(t, err)
	return uint32(port)
}

func (m *machine) says(t *testing.T, words string) {
	t.Helper()
	m.options.Bootstrap = fmt.Appendf(nil, web, m.admin, m.port, words, m.echo)
}

// noted is an Envoy as the records describe it.
type noted struct {
	Pid, Epoch int
	BaseID     uint32
}

func (n noted) shared() string {
	return fmt.Sprintf("/dev/shm/envoy_shared_memory_%d", uint64(n.BaseID)*10)
}

func (m *machine) lives(t *testing.T) (lives []noted) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(m.options.Folder, "running.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &lives))
	return lives
}

// agent is a process that runs a supervisor.
type agent struct {
	*exec.Cmd
	log   *bufio.Scanner
	envoy *bytes.Buffer // what it passed on
	mu    sync.Mutex
}

func (a *agent) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.envoy.Write(p)
}

func (a *agent) heard() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.envoy.String()
}

func (m *machine) start(t *testing.T) *agent {
	t.Helper()
	o, err := json.Marshal(map[string]any{
		"Envoy": m.options.Envoy, "Args": m.options.Args, "Folder": m.options.Folder, "Bootstrap": m.options.Bootstrap, "Tied": m.options.Tied,
		"DrainTime": m.options.DrainTime, "DrainMin": m.options.DrainMin, "ParentShutdown": m.options.ParentShutdown,
	})
	require.NoError(t, err)
	a := &agent{Cmd: exec.Command(os.Args[0]), envoy: &bytes.Buffer{}}
	a.Env = append(os.Environ(), beAgent+"="+string(o))
	a.Stdout = a
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(a.heard())
		}
	})
	log, err := a.StderrPipe()
	require.NoError(t, err)
	a.log = bufio.NewScanner(log)
	a.log.Buffer(nil, 1<<20)
	require.NoError(t, a.Start())
	t.Cleanup(func() {
		_ = a.Process.Kill()
		_ = a.Wait()
	})
	return a
}

// logTimeout bounds the wait for a message in an agent's log.
const logTimeout = 30 * time.Second

// await reads the log up to a message.
func (a *agent) await(t *testing.T, message string) map[string]any {
	t.Helper()
	late := time.AfterFunc(logTimeout, func() { _ = a.Process.Kill() })
	defer late.Stop()
	for a.log.Scan() {
		var record map[string]any
		require.NoError(t, json.Unmarshal(a.log.Bytes(), &record), a.log.Text())
		if record["msg"] == message {
			return record
		}
		t.Log(a.log.Text())
	}
	t.Fatalf("the agent ended, or was ended after %s, without saying %q", logTimeout, message)
	return nil
}

func (a *agent) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, a.Process.Kill())
	_ = a.Wait()
}

func (a *agent) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	for a.log.Scan() {
		t.Log(a.log.Text())
	}
	require.NoError(t, a.Wait())
}

// awaitAnswer waits until Envoy answers with a text.
func (m *machine) awaitAnswer(t *testing.T, words string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", m.port))
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && string(body) == words
	}, 20*time.Second, 5*time.Millisecond)
}

// clients send requests all the time, over kept connections and over new ones.
type clients struct {
	sent, failed atomic.Int64
	last         atomic.Value
	stop         context.CancelFunc
	done         sync.WaitGroup
}

func (m *machine) clients(t *testing.T) *clients {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &clients{stop: stop}
	for i := range 4 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: 10 * time.Second}
		c.done.Go(func() {
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				if err := c.send(client, m.port); err != nil {
					c.failed.Add(1)
					c.last.Store(err)
				}
				c.sent.Add(1)
			}
		})
	}
	t.Cleanup(func() { stop(); c.done.Wait() })
	return c
}

// send uses POST, because Go's client repeats a GET by itself when its connection was closed.
func (c *clients) send(client *http.Client, port uint32) error {
	response, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/", port), "text/plain", io.NopCloser(strings.NewReader("hello")))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// more waits until a number of further requests were answered.
func (c *clients) more(t *testing.T, n int64) {
	t.Helper()
	until := c.sent.Load() + n
	require.Eventually(t, func() bool { return c.sent.Load() >= until }, 20*time.Second, time.Millisecond)
}

func (c *clients) end(t *testing.T) {
	t.Helper()
	c.stop()
	c.done.Wait()
	require.Zero(t, c.failed.Load(), "the last failure: %v", c.last.Load())
	t.Logf("%d requests, none failed", c.sent.Load())
}

func isLeft(t *testing.T, n noted) bool {
	t.Helper()
	_, err := os.Stat(n.shared())
	return err == nil
}
