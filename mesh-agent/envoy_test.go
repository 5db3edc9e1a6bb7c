package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// spokesman is a discovery that says how proxies are to be started.
type spokesman struct {
	machinev1.UnimplementedMachineServiceServer

	says  atomic.Pointer[machinev1.SettingsResponse] // nil while it cannot answer
	asked atomic.Pointer[machinev1.SettingsRequest]
}

func (s *spokesman) Settings(_ context.Context, r *machinev1.SettingsRequest) (*machinev1.SettingsResponse, error) {
	s.asked.Store(r)
	if says := s.says.Load(); says != nil {
		return says, nil
	}
	return nil, status.Error(codes.Unavailable, "discovery has no configuration yet")
}

// serve has it answer on a port, in plaintext.
func (s *spokesman) serve(t *testing.T) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	machinev1.RegisterMachineServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String(), server.Stop
}

// plain starts an agent without an identity that has a state folder.
func plain(t *testing.T, folder, discovery string, args ...string) *proc {
	t.Helper()
	return start(t, append([]string{
		"run", "--insecure", "--discovery", discovery, "--state-dir", folder, "--admin", "127.0.0.1:0", "--status", "", "--envoy", envoytest.Binary(t), "--drain-time", "0s",
		"--envoy-log-level", "info",
	}, args...)...)
}

// envoyOf is what Envoy says of itself, by the address that it has written down.
func envoyOf(t *testing.T, folder, path string) string {
	t.Helper()
	address, err := os.ReadFile(filepath.Join(folder, "envoy", "run", "admin"))
	require.NoError(t, err)
	_, body := get(t, "http://"+strings.TrimSpace(string(address))+path)
	return body
}

func end(t *testing.T, a *proc) {
	t.Helper()
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	a.awaitEndOfLog()
	require.NoError(t, a.Wait())
}

func TestMeshSettings(t *testing.T) {
	t.Parallel()
	s := &spokesman{}
	s.says.Store(&machinev1.SettingsResponse{
		Labels: map[string]string{"tier": "web", "app": "of the group"}, Locality: "eu/west",
		ProxyConfigJson: `{"concurrency": 1, "drainDuration": "7s", "proxyMetadata": {"SITE": "a,b"}, "serviceCluster": "said", "configPath": "/etc", "image": {},
			"proxyStatsMatcher": {"inclusionPrefixes": ["cluster.a"], "inclusionRegexps": ["x{1,2}"]}, "runtimeValues": {"one": "1"}, "statusPort": "no number"}`,
	})
	discovery, stop := s.serve(t)
	folder := shortFolder(t)
	flags := []string{"--tie-envoy", "--service-cluster", "own", "--labels", "app=own", "--group", "cart", "--id", "box"}
	a := plain(t, folder, discovery, flags...)
	a.await(t, `--concurrency 1 (concurrency), --listener-drain-time 7s (drainDuration), --envoy-env \"SITE=a,b\" (proxyMetadata)`)
	a.await(t, "starting main dispatch loop")
	look := func() {
		t.Helper()
		var info struct {
			Options map[string]any `json:"command_line_options"`
			Node    struct {
				Cluster  string         `json:"cluster"`
				Metadata map[string]any `json:"metadata"`
				Locality map[string]any `json:"locality"`
			} `json:"node"`
		}
		require.NoError(t, json.Unmarshal([]byte(envoyOf(t, folder, "/server_info")), &info))
		require.EqualValues(t, 1, info.Options["concurrency"])
		require.Equal(t, "7s", info.Options["drain_time"])
		require.Equal(t, "own", info.Node.Cluster, "a flag wins")
		require.Equal(t, map[string]any{"app": "own", "tier": "web"}, info.Node.Metadata["LABELS"])
		require.Contains(t, envoyOf(t, folder, "/runtime"), `"one"`)
	}
	look()
	require.Equal(t, []string{"cart"}, s.asked.Load().GetGroups())
	require.Equal(t, "box", s.asked.Load().GetId())
	end(t, a)

	// The last answer stays in force while discovery cannot be asked.
	stop()
	a = plain(t, folder, discovery, flags...)
	a.await(t, "what it said last counts")
	a.await(t, "fields=\"configPath, image\"")
	a.await(t, "starting main dispatch loop")
	look()
	end(t, a)
}

func TestLateMeshSettings(t *testing.T) {
	t.Parallel()
	s := &spokesman{}
	discovery, _ := s.serve(t)
	folder := shortFolder(t)
	a := plain(t, folder, discovery)
	a.await(t, "Envoy is replaced when it says so")
	a.await(t, "starting main dispatch loop")
	s.says.Store(&machinev1.SettingsResponse{ProxyConfigJson: `{"concurrency": 1}`})
	a.await(t, "this agent starts anew")
	a.await(t, "the mesh says how proxies are started")
	a.await(t, "starting main dispatch loop")
	require.Contains(t, envoyOf(t, folder, "/server_info"), `"concurrency": 1,`)
	end(t, a)
}

func TestBootstrapTemplate(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	path := filepath.Join(folder, "own.yaml")
	port := envoytest.Port(t)
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(fmt.Sprintf(`
static_resources:
  listeners:
  - name: hello
    address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: answer
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.direct_response.v3.Config
          response: {inline_string: "HTTP/1.1 200 OK\r\ncontent-length: {{len .ID}}\r\n\r\n{{.ID}}"}
`, port))
	a := plain(t, folder, "127.0.0.1:1", "--tie-envoy", "--id", "box7", "--bootstrap-template", path)
	a.await(t, "starting main dispatch loop")
	require.Contains(t, envoyOf(t, folder, "/config_dump?mask=bootstrap"), "content-length: 4")
	end(t, a)

	write("static_resources:\n  listeners:\n  - name: hello\n    addresses: {}\n")
	output, err := command(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--state-dir", folder, "--envoy", envoytest.Binary(t), "--bootstrap-template", path)
	require.Error(t, err)
	require.Contains(t, output, "--bootstrap-template "+path+", merged over the bootstrap of mesh-agent")
	require.Contains(t, output, "addresses")
}

func TestEnvoyRunsUnderAnotherAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		output, err := command(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--envoy-user", "nobody", "--state-dir", shortFolder(t))
		require.Error(t, err)
		require.Contains(t, output, "only root may run Envoy under another account")
		return
	}
	s := &spokesman{}
	s.says.Store(&machinev1.SettingsResponse{})
	discovery, _ := s.serve(t)
	folder := shortFolder(t)
	a := plain(t, folder, discovery, "--envoy-user", "nobody")
	_, pid, _ := strings.Cut(a.await(t, "Envoy started"), "pid=")
	a.await(t, "starting main dispatch loop")
	state, err := os.ReadFile("/proc/" + pid + "/status")
	require.NoError(t, err)
	require.Regexp(t, `Uid:\s65534\s`, string(state))
	require.Regexp(t, `CapEff:\s0000000000000400\n`, string(state), "it may listen on all ports, and nothing else")
	require.Eventually(t, func() bool {
		return strings.Contains(envoyOf(t, folder, "/clusters"), "xds-grpc::"+folder+"/envoy.sock::cx_active::1")
	},
		20*time.Second, 10*time.Millisecond, "it may connect to its agent")
	require.NoError(t, a.Process.Kill())
	_ = a.Wait()

	// The next agent hot restarts Envoy, under the same account.
	a = plain(t, folder, discovery, "--envoy-user", "nobody", "--concurrency", "1")
	a.await(t, "Envoy started")
	a.await(t, "starting main dispatch loop")
	end(t, a)
	output, err := command(t, nil, "run", "--insecure", "--discovery", discovery, "--envoy-user", "no-such-account", "--state-dir", folder)
	require.Error(t, err)
	require.Contains(t, output, `there is no account "no-such-account" on this machine: make it (useradd --system no-such-account)`)
}

func TestServiceManagerNotifications(t *testing.T) { //nolint:paralleltest // it has variables of its own
	folder := shortFolder(t)
	socket := filepath.Join(folder, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { manager.Close() })
	hear := func(words string) {
		t.Helper()
		require.NoError(t, manager.SetReadDeadline(time.Now().Add(30*time.Second)))
		for buffer := make([]byte, 4096); ; {
			n, err := manager.Read(buffer)
			require.NoError(t, err, "waiting for %q", words)
			if strings.Contains(string(buffer[:n]), words) {
				return
			}
		}
	}
	// An Envoy that is ready without discovery.
	path := filepath.Join(folder, "own.yaml")
	require.NoError(t, os.WriteFile(path, []byte("dynamic_resources:\n  lds_config: {initial_fetch_timeout: 0.1s}\n  cds_config: {initial_fetch_timeout: 0.1s}\n"), 0o600))
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "300000")
	a := plain(t, filepath.Join(folder, "state"), "127.0.0.1:1", "--bootstrap-template", path)
	hear("EXTEND_TIMEOUT_USEC=")
	hear("READY=1\nSTATUS=Envoy serves")
	hear("WATCHDOG=1")
	require.NoError(t, a.Process.Signal(syscall.SIGHUP))
	hear("RELOADING=1\nMONOTONIC_USEC=")
	hear("READY=1\nSTATUS=Envoy serves")
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	hear("STOPPING=1")
	a.awaitEndOfLog()
	require.NoError(t, a.Wait())
}
