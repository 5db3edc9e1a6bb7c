package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// A foreign service on the port of sidecars' inbound listener would take that listener away: Envoy
// refuses the second listener at an address, and with it mutual TLS and all policies would be gone.
func TestATenantTakesNobodysInboundListener(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	in, out := envoytest.Port(t), envoytest.Port(t)
	m.sql("INSERT INTO mesh.mesh_configs (namespace, name, proxy_inbound_listen_port, proxy_listen_port) VALUES ('istio-system', 'mesh', $1, $2)", in, out)
	evil := m.tenant("evil", "evil")
	for i, addresses := range []string{"[]", `["0.0.0.0"]`, `["::"]`, `["0.0.0.0/0"]`, `["::ffff:0.0.0.0"]`, `["::/0"]`} {
		for _, port := range []uint32{in, out} {
			for _, protocol := range []string{"TCP", "TLS", "MONGO", ""} {
				_, err := evil.Exec(t.Context(), "INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'evil', $1, $2)",
					fmt.Sprintf("in-%d-%d-x%s", i, port, strings.ToLower(protocol)), fmt.Sprintf(
						`{"hosts": ["in-%d-%d-x%s.evil"], "addresses": %s, "resolution": "STATIC", "ports": [{"number": %d, "name": "any", "protocol": %q}], "endpoints": [{"address": "10.1.1.1"}]}`,
						i, port, strings.ToLower(protocol), addresses, port, protocol))
				require.NoError(t, err)
			}
		}
	}
	b.change()
	fresh := m.member("shop/fresh", "fresh", "--interception-mode", "REDIRECT")
	require.Contains(t, m.page(fresh.Admin, "/listeners"), fmt.Sprintf("virtualInbound::0.0.0.0:%d", in))
	require.Contains(t, m.page(fresh.Admin, "/listeners"), fmt.Sprintf("virtualOutbound::0.0.0.0:%d", out))
	require.NotContains(t, m.page(m.Discovery.HTTP(), "/problems"), "listener-refused")
	require.Contains(t, m.page(m.Discovery.HTTP(), "/problems"), fmt.Sprintf("sidecars themselves listen on port %d", in))
}

// A machine whose Envoy has no inbound listener is not ready, and both the machine and discovery
// say so.
func TestAMachineWithoutItsInboundListenerIsNotReady(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	taken, err := net.Listen("tcp4", "0.0.0.0:0")
	require.NoError(t, err)
	defer taken.Close()
	set := "INSERT INTO mesh.mesh_configs (namespace, name, proxy_inbound_listen_port, proxy_listen_port) VALUES ('istio-system', 'mesh', $1, $2)"
	m.sql(set, taken.Addr().(*net.TCPAddr).Port, envoytest.Port(t))
	token, err := m.JoinToken(t.Context(), "shop/web")
	require.NoError(t, err)
	p, err := m.Member(envoytest.Binary(t), "web", token, "--concurrency", "1", "--drain-time", "0s", "--interception-mode", "REDIRECT")
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(p.Stop)
	poll.Eventually(t, func(context.Context) error {
		if said := m.page(p.HTTP(), "/healthz/ready"); !strings.Contains(said, "no listener virtualInbound") {
			return errors.New(said)
		}
		return nil
	})
	said, err := m.Run(t.Context(), "mesh-agent", "status", "--state-dir", m.State("web"))
	require.Error(t, err)
	require.Contains(t, said, "envoy: Envoy has no listener virtualInbound")
	poll.Eventually(t, func(context.Context) error {
		if said := m.page(m.Discovery.HTTP(), "/problems"); !strings.Contains(said, "it refuses the listener virtualInbound") {
			return errors.New(said)
		}
		return nil
	})
	m.sql("UPDATE mesh.mesh_configs SET proxy_inbound_listen_port = $1", envoytest.Port(t))
	ctx, cancel := context.WithTimeout(t.Context(), poll.Longest)
	defer cancel()
	require.NoError(t, p.Ready(ctx))
}

// page is the answer of a program at a path, whatever its status; "" without an answer.
func (m *mesh) page(address, path string) string {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	require.NoError(m.t, err)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(m.t, err)
	return string(body)
}
