package run_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func TestBootstrapTemplate(t *testing.T) {
	t.Parallel()
	folder := agenttest.ShortFolder(t)
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
	a.Await(t, "starting main dispatch loop")
	require.Contains(t, envoyOf(t, folder, "/config_dump?mask=bootstrap"), "content-length: 4")
	a.End(t)

	write("static_resources:\n  listeners:\n  - name: hello\n    addresses: {}\n")
	output, err := agenttest.Run(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--state-dir", folder, "--envoy", envoytest.Binary(t), "--bootstrap-template", path)
	require.Error(t, err)
	require.Contains(t, output, "--bootstrap-template "+path+", merged over the bootstrap of mesh-agent")
	require.Contains(t, output, "addresses")
}

func TestEnvoyRunsUnderAnotherAccount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		output, err := agenttest.Run(t, nil, "run", "--insecure", "--discovery", "127.0.0.1:1", "--envoy-user", "nobody", "--state-dir", agenttest.ShortFolder(t))
		require.Error(t, err)
		require.Contains(t, output, "only root may run Envoy under another account")
		return
	}
	s := &spokesman{}
	s.says.Store(&machinev1.SettingsResponse{})
	discovery, _ := s.serve(t)
	folder := agenttest.ShortFolder(t)
	a := plain(t, folder, discovery, "--envoy-user", "nobody")
	_, pid, _ := strings.Cut(a.Await(t, "Envoy started"), "pid=")
	a.Await(t, "starting main dispatch loop")
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
	a.Await(t, "Envoy started")
	a.Await(t, "starting main dispatch loop")
	a.End(t)
	output, err := agenttest.Run(t, nil, "run", "--insecure", "--discovery", discovery, "--envoy-user", "no-such-account", "--state-dir", folder)
	require.Error(t, err)
	require.Contains(t, output, `there is no account "no-such-account" on this machine: make it (useradd --system no-such-account)`)
}

func TestEnvoyDumpsNoCore(t *testing.T) {
	t.Parallel()
	for _, each := range []struct{ flag, limit string }{{"--allow-core-dumps=false", "0"}, {"--allow-core-dumps", "[^0]"}} {
		a, state := agenttest.StartMember(t, each.flag)
		content, err := os.ReadFile(filepath.Join(state, "envoy", "running.json"))
		require.NoError(t, err)
		var envoys []struct{ Pid int }
		require.NoError(t, json.Unmarshal(content, &envoys))
		require.Len(t, envoys, 1)
		for _, pid := range []int{a.Process.Pid, envoys[0].Pid} {
			limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
			require.NoError(t, err)
			require.Regexp(t, `(?m)^Max core file size +\S+ +`+each.limit, string(limits))
		}
		a.End(t)
	}
}
