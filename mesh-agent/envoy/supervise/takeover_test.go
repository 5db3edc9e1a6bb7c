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
	"net"
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

func TestNextAgentAdoptsEnvoy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.start(t)
	pid := first.await(t, "Envoy started")["pid"]
	m.awaitAnswer(t, "one")
	clients := m.clients(t)
	clients.more(t, 100)

	first.kill(t)
	clients.more(t, 500)
	second := m.start(t)
	require.Equal(t, pid, second.await(t, "Envoy goes on as an earlier agent has started it")["pid"])
	clients.more(t, 500)
	clients.end(t)

	// The agent learns how Envoy ended, although it did not start it.
	require.NoError(t, syscall.Kill(m.lives(t)[0].Pid, syscall.SIGKILL))
	second.await(t, "Envoy died")
	second.await(t, "Envoy started")
	m.awaitAnswer(t, "one")
	life := m.lives(t)[0]
	second.stop(t)
	require.True(t, isGone(life.Pid))
	require.False(t, isLeft(t, life), "shared memory is given back")
	require.Empty(t, m.lives(t))
}

func TestHotRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.start(t)
	first.await(t, "Envoy started")
	m.awaitAnswer(t, "one")
	long, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.echo))
	require.NoError(t, err)
	defer long.Close()
	say(t, long, "before")
	clients := m.clients(t)
	clients.more(t, 200)

	first.kill(t)
	m.says(t, "two")
	second := m.start(t)
	second.await(t, "another Envoy is wanted, and takes the place of the one that runs")
	m.awaitAnswer(t, "two")
	say(t, long, "over the old one")
	before := m.lives(t)
	require.Len(t, before, 2)
	require.Equal(t, before[0].Epoch+1, before[1].Epoch)
	require.Equal(t, before[0].BaseID, before[1].BaseID)
	cut := second.await(t, "connections were cut that went over an Envoy which was replaced")
	require.Contains(t, cut["connections"], long.LocalAddr().String()+" to ")
	require.EqualValues(t, 1, cut["number"])
	second.await(t, "an Envoy that was replaced has ended")
	require.True(t, isGone(before[0].Pid))
	clients.more(t, 200)
	clients.end(t)
	second.stop(t)
	require.False(t, isLeft(t, before[1]))
}

func TestSIGHUPKeepsTheProcessAndItsEnvoy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.start(t)
	pid := a.await(t, "Envoy started")["pid"]
	m.awaitAnswer(t, "one")
	clients := m.clients(t)
	for range 3 {
		require.NoError(t, a.Process.Signal(syscall.SIGHUP))
		require.Equal(t, pid, a.await(t, "Envoy goes on as an earlier agent has started it")["pid"])
	}
	clients.more(t, 200)
	clients.end(t)
	life := m.lives(t)[0]
	a.stop(t)
	require.True(t, isGone(life.Pid))
}

func TestTiedEnvoyEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.options.Tied = true
	a := m.start(t)
	a.await(t, "Envoy started")
	m.awaitAnswer(t, "one")
	require.NoError(t, a.Process.Signal(syscall.SIGHUP))
	a.await(t, "this agent does not start anew, for Envoy is tied to it: end it and start it again")
	m.awaitAnswer(t, "one")
	life := m.lives(t)[0]
	a.kill(t)
	require.Eventually(t, func() bool { return isGone(life.Pid) }, 10*time.Second, time.Millisecond)
}

func TestSIGHUPUpgradesEnvoy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	own := filepath.Join(t.TempDir(), "envoy")
	require.NoError(t, os.Link(m.options.Envoy, own))
	m.options.Envoy = own
	a := m.start(t)
	old := a.await(t, "Envoy started")["pid"]
	m.awaitAnswer(t, "one")
	clients := m.clients(t)

	// As a package does it: another file takes the name.
	content, err := os.ReadFile(envoytest.Binary(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(own+".new", content, 0o700))
	require.NoError(t, os.Rename(own+".new", own))
	require.NoError(t, a.Process.Signal(syscall.SIGHUP))
	require.NotEqual(t, old, a.await(t, "Envoy started")["pid"])
	a.await(t, "an Envoy that was replaced has ended")
	clients.more(t, 200)
	clients.end(t)
	a.stop(t)
}

func TestInvalidBootstrapReplacesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.start(t)
	first.await(t, "Envoy started")
	m.awaitAnswer(t, "one")
	first.kill(t)
	good := m.options.Bootstrap

	m.options.Bootstrap = []byte(`{"nodes": {}}`)
	second := m.start(t)
	failed := second.await(t, "failed")
	require.Contains(t, failed["error"], "goes on with what it was started with")
	require.Contains(t, failed["error"], "nodes")
	require.Error(t, second.Wait())
	m.awaitAnswer(t, "one")

	m.options.Bootstrap = good
	third := m.start(t)
	third.await(t, "Envoy goes on as an earlier agent has started it")
	third.stop(t)
}

func TestNextAgentPassesOnEnvoysLog(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.start(t)
	first.await(t, "Envoy started")
	m.awaitAnswer(t, "one")
	first.kill(t)

	// Far more than fits into a pipe.
	const requests = 2000
	mark := strings.Repeat("m", 1000)
	client := &http.Client{Timeout: 10 * time.Second}
	for i := range requests {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", m.port), nil)
		require.NoError(t, err)
		request.Header.Set("X-Mark", fmt.Sprintf("%s %d", mark, i))
		response, err := client.Do(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	client.CloseIdleConnections()
	second := m.start(t)
	second.await(t, "Envoy goes on as an earlier agent has started it")
	require.Eventually(t, func() bool { return strings.Contains(second.heard(), fmt.Sprintf(" %d\n", requests-1)) }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, requests, strings.Count(second.heard(), mark))
	second.kill(t)

	// Nothing is passed on twice.
	third := m.start(t)
	third.await(t, "Envoy goes on as an earlier agent has started it")
	third.stop(t)
	require.NotContains(t, third.heard(), mark)
}

func TestSharedMemoryOfKilledEnvoysIsRemoved(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.start(t)
	first.await(t, "Envoy started")
	m.awaitAnswer(t, "one")
	life := m.lives(t)[0]
	require.True(t, isLeft(t, life))
	first.kill(t)
	require.NoError(t, syscall.Kill(life.Pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return isGone(life.Pid) }, 10*time.Second, time.Millisecond)

	second := m.start(t)
	second.await(t, "the Envoy of an earlier agent has ended")
	second.await(t, "Envoy started")
	require.False(t, isLeft(t, life))
	m.awaitAnswer(t, "one")
	second.stop(t)
}

func TestParentServesAfterItsChildIsKilled(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.start(t)
	first.await(t, "Envoy started")
	m.awaitAnswer(t, "one")
	first.kill(t)
	clients := m.clients(t)

	// An Envoy that waits for discovery forever replaces no other.
	m.options.Bootstrap = []byte(strings.Replace(string(m.options.Bootstrap), `"static_resources": {`, `"node": {"id": "n", "cluster": "c"},
  "dynamic_resources": {
    "ads_config": {"api_type": "GRPC", "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]},
    "lds_config": {"ads": {}, "initial_fetch_timeout": "0s"}},
  "static_resources": {"clusters": [{"name": "xds"}],`, 1))
	second := m.start(t)
	second.await(t, "another Envoy is wanted, and takes the place of the one that runs")
	second.await(t, "Envoy started")
	waiting := m.lives(t)[1]
	require.NoError(t, syscall.Kill(waiting.Pid, syscall.SIGKILL))
	second.await(t, "Envoy died")
	second.await(t, "Envoy started")
	require.Equal(t, waiting.Epoch, m.lives(t)[1].Epoch)
	require.NotEqual(t, waiting.Pid, m.lives(t)[1].Pid)
	second.kill(t)

	// An Envoy with a working configuration replaces both.
	m.says(t, "three")
	third := m.start(t)
	third.await(t, "an Envoy that was not ready yet makes way for another")
	m.awaitAnswer(t, "three")
	third.await(t, "an Envoy that was replaced has ended")
	clients.more(t, 100)
	clients.end(t)
	third.stop(t)
}
