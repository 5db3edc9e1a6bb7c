package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// A machine's traffic is redirected to its Envoy. The machine is a network namespace.
func TestRedirectedTraffic(t *testing.T) {
	t.Parallel()
	n := newWired(t)
	n.redirect()
	m := meshOfMachine(t, n)
	m.commitServices(n)

	m.comesIn(t, n)
	m.goesOut(t, n)
	m.passes(t, n)
}

// meshOfMachine is a mesh whose agent runs in the namespace, with an Envoy that gets the redirected
// traffic.
func meshOfMachine(t testing.TB, n *wired) *mesh {
	t.Helper()
	database := pgtest.New(t)
	control := newStack(t, database)
	control.ServeOn(n.near)
	require.NoError(t, control.Start(t.Context()))
	m := meshWithoutEnvoy(t, control, database)
	agent, err := m.Agent(envoytest.Binary(t), "machine."+m.namespace, "--namespace", m.namespace, "--node-ip", n.far,
		"--interception-mode", "REDIRECT", "--concurrency", "1", "--drain-time", "0s")
	require.NoError(t, err)
	agent.Via("ip", "netns", "exec", n.Name, "setpriv", "--regid", agentGroup, "--clear-groups", "--pdeathsig", "KILL")
	require.NoError(t, agent.Start())
	t.Cleanup(func() {
		agent.Stop()
		if t.Failed() {
			t.Logf("the agent's and Envoy's log:\n%s", agent.Log())
		}
	})
	m.agent, m.client = agent, n.client()
	eventually(t, func(ctx context.Context) error {
		a, err := send(ctx, m.client, agent.HTTP(), request{path: "/healthz/ready"})
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("not ready: %s", a.body)
		}
		return err
	})
	return m
}

// commitServices defines two services of this machine for the namespace to call, and two of its own
// ports.
func (m *mesh) commitServices(n *wired) {
	m.t.Helper()
	endpoints := func(version, portName, port string) string {
		return fmt.Sprintf("{address: %s, ports: {%s: %s}, labels: {version: %s}}", n.near, portName, port, version)
	}
	v1, v2 := serveBackend(m.t, "v1", listenOn(m.t, n.near)), serveBackend(m.t, "v2", listenOn(m.t, n.near))
	ledgerPort := serveGreeter(m.t, "ledger", listenOn(m.t, n.near)).port
	m.commit(
		addressed(reviews, n.address(reviewsAt), "http", "HTTP", 80, endpoints("v1", "http", v1.port), endpoints("v2", "http", v2.port)),
		subsets(reviews, "v1", "v2"), virtualService(reviews, split(reviews, weight{"v2", 100})),
		addressed(ledger, n.address(ledgerAt), "tcp", "TCP", 9000, endpoints("v1", "tcp", ledgerPort)),
		addressed("own.mesh", n.address(ownAt), "http", "HTTP", 8080, fmt.Sprintf("{address: %s}", n.far)),
		addressed("greeter.mesh", n.address(greeterAt), "tcp", "TCP", 8081, fmt.Sprintf("{address: %s}", n.far)))
}

func addressed(host, address, portName, protocol string, port int, endpoints ...string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s}
spec:
  hosts: [%s]
  addresses: [%s]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %d, name: %s, protocol: %s}]
  endpoints: [%s]
`, nameOf(host), host, address, port, portName, protocol, strings.Join(endpoints, ", "))
}

// comesIn calls applications in the namespace from outside: on ports of a service, and on a port of
// none.
func (m *mesh) comesIn(t *testing.T, n *wired) {
	serveBackend(t, "own", n.Listen("tcp", "0.0.0.0:8080"))
	serveGreeter(t, "greeter", n.Listen("tcp", "0.0.0.0:8081"))
	serveBackend(t, "unnamed", n.Listen("tcp", "0.0.0.0:8090"))
	outside := newClient(t)
	for port, want := range map[string]string{"8080": "own", "8090": "unnamed"} {
		eventually(t, func(ctx context.Context) error {
			a, err := send(ctx, outside, net.JoinHostPort(n.far, port), request{host: "whatever"})
			if err != nil {
				return err
			}
			if server := a.header.Get("Server"); server != "istio-envoy" {
				return fmt.Errorf("port %s: answered by server %q, not by Envoy", port, server)
			}
			return a.from(want)
		})
	}
	eventually(t, func(ctx context.Context) error {
		name, err := converse(ctx, net.JoinHostPort(n.far, "8081"))
		if err == nil && name != "greeter" {
			err = fmt.Errorf("%s answers", name)
		}
		return err
	})
}

// goesOut calls services by their addresses from inside.
func (m *mesh) goesOut(t *testing.T, n *wired) {
	m.reached(t, n, "v2")
	m.commit(virtualService(reviews, split(reviews, weight{"v1", 100})))
	m.reached(t, n, "v1")

	eventually(t, func(ctx context.Context) error {
		name, err := n.converse(ctx, net.JoinHostPort(n.address(ledgerAt), "9000"))
		if err == nil && name != "ledger" {
			err = fmt.Errorf("%s answers", name)
		}
		return err
	})
}

func (m *mesh) reached(t testing.TB, n *wired, version string) {
	t.Helper()
	service := n.address(reviewsAt)
	for _, host := range []string{reviews, service} {
		eventually(t, func(ctx context.Context) error {
			a, err := send(ctx, m.client, service+":80", request{host: host})
			if err != nil {
				return err
			}
			return a.from(version)
		})
	}
}

// passes connects from inside to an address of no service.
func (m *mesh) passes(t *testing.T, n *wired) {
	unknown := serveGreeter(t, "unknown", listenOn(t, n.near))
	target := net.JoinHostPort(n.near, unknown.port)
	name, err := n.converse(t.Context(), target)
	require.NoError(t, err)
	require.Equal(t, "unknown", name)

	m.commit(`
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}}
`)
	eventually(t, func(ctx context.Context) error {
		name, err := n.converse(ctx, target)
		if name != "" || err == nil {
			return fmt.Errorf("%s still answers", name)
		}
		return nil
	})
	eventually(t, func(ctx context.Context) error {
		a, err := send(ctx, m.client, n.address(reviewsAt)+":80", request{host: "nobody.mesh"})
		if err == nil && a.status != http.StatusBadGateway {
			err = fmt.Errorf("an unknown host is answered %d", a.status)
		}
		return err
	})
	m.reached(t, n, "v1") // services are still reached
}
