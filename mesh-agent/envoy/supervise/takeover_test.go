package supervise_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

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
