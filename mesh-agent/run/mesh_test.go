package run_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
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
func plain(t *testing.T, folder, discovery string, args ...string) *agenttest.Proc {
	t.Helper()
	return agenttest.Start(t, append([]string{
		"run", "--insecure", "--discovery", discovery, "--state-dir", folder, "--admin", "127.0.0.1:0", "--status", "", "--envoy", envoytest.Binary(t), "--drain-time", "0s",
		"--envoy-log-level", "info",
	}, args...)...)
}

// envoyOf is what Envoy says of itself, by the address that it has written down.
func envoyOf(t *testing.T, folder, path string) string {
	t.Helper()
	address, err := os.ReadFile(filepath.Join(folder, "envoy", "run", "admin"))
	require.NoError(t, err)
	_, body := agenttest.Get(t, "http://"+strings.TrimSpace(string(address))+path)
	return body
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
	folder := agenttest.ShortFolder(t)
	flags := []string{"--tie-envoy", "--service-cluster", "own", "--labels", "app=own", "--group", "cart", "--id", "box"}
	a := plain(t, folder, discovery, flags...)
	a.Await(t, `--concurrency 1 (concurrency), --listener-drain-time 7s (drainDuration), --envoy-env \"SITE=a,b\" (proxyMetadata)`)
	a.Await(t, "starting main dispatch loop")
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
	a.End(t)

	// The last answer stays in force while discovery cannot be asked.
	stop()
	a = plain(t, folder, discovery, flags...)
	a.Await(t, "what it said last counts")
	a.Await(t, "fields=\"configPath, image\"")
	a.Await(t, "starting main dispatch loop")
	look()
	a.End(t)
}

func TestLateMeshSettings(t *testing.T) {
	t.Parallel()
	s := &spokesman{}
	discovery, _ := s.serve(t)
	folder := agenttest.ShortFolder(t)
	a := plain(t, folder, discovery)
	a.Await(t, "Envoy is replaced when it says so")
	a.Await(t, "starting main dispatch loop")
	s.says.Store(&machinev1.SettingsResponse{ProxyConfigJson: `{"concurrency": 1}`})
	a.Await(t, "this agent starts anew")
	a.Await(t, "the mesh says how proxies are started")
	a.Await(t, "starting main dispatch loop")
	require.Contains(t, envoyOf(t, folder, "/server_info"), `"concurrency": 1,`)
	a.End(t)
}
