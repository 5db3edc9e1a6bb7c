package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// grace is how long the entry of a lost machine stays in these tests.
const grace = 3 * time.Second

// fleet is a mesh with two discoveries, where machines register.
type fleet struct {
	*secureMesh

	second   *stack.Program // discovery
	servers  []string       // where the two serve machines
	app      *backend
	ill      atomic.Bool
	inbound  string // port of the machine's Envoy
	outbound string // port of the client's
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	database := pgtest.New(t)
	control, err := stack.NewSecure(bin, t.TempDir(), database, nil)
	require.NoError(t, err)
	control.ServerFlags("--workload-grace", grace.String())
	t.Cleanup(func() {
		control.Stop()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", control.MCPServer.Log(), control.Discovery.Log())
		}
	})
	require.NoError(t, control.Start(t.Context()))
	f := &fleet{secureMesh: &secureMesh{meshWithoutEnvoy(t, control, database)}, inbound: newPort(t), outbound: newPort(t)}
	f.app = newBackend(t, "cart", func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != "/healthz" {
			return false
		}
		if f.ill.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return true
	})
	var at string
	f.second, at, err = control.Replica(t.Context(), "second")
	require.NoError(t, err)
	require.NoError(t, f.second.Start())
	t.Cleanup(func() {
		f.second.Stop()
		if t.Failed() {
			t.Logf("the second discovery's log:\n%s", f.second.Log())
		}
	})
	require.NoError(t, f.second.Ready(t.Context()))
	f.servers = []string{control.XDS, at}
	f.commit(f.cart(), f.egress())
	return f
}

// cart is a service whose machines its group describes.
func (f *fleet) cart() string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: cart, namespace: shop}
spec:
  metadata: {labels: {app: cart}}
  template: {serviceAccount: cart, ports: {http: %[1]s}, labels: {version: v1}}
  probe: {periodSeconds: 1, failureThreshold: 1, httpGet: {host: 127.0.0.1, port: %[2]s, path: /healthz}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %[3]s, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: cart}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: cart, namespace: shop}
spec:
  workloadSelector: {labels: {app: cart}}
  egress: [{hosts: ['~/*']}]
  ingress: [{port: {number: %[1]s, name: http, protocol: HTTP}, bind: 127.0.0.2, defaultEndpoint: '127.0.0.1:%[2]s'}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: cart, namespace: shop}
spec: {mtls: {mode: STRICT}}
`, f.inbound, f.app.port, f.outbound)
}

func (f *fleet) egress() string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: teller, namespace: bank}
spec:
  workloadSelector: {labels: {app: teller}}
  egress: [{port: {number: %s, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: ['shop/*']}]
`, f.outbound)
}

// machine joins with a token for the group, as people would, and prepares an agent that is not told
// the group.
func (f *fleet) machine() *stack.Program {
	f.t.Helper()
	token, err := f.GroupToken(f.t.Context(), "shop/cart")
	require.NoError(f.t, err)
	out, err := f.join(token, f.State("cart-1"))
	require.NoError(f.t, err, out)
	p, err := f.Member(envoytest.Binary(f.t), "cart-1", token, "--discovery", strings.Join(f.servers, ","), "--node-ip", "127.0.0.2",
		"--concurrency", "1", "--drain-time", "0s")
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		p.Stop()
		if f.t.Failed() {
			f.t.Logf("the log of the machine:\n%s", p.Log())
		}
	})
	return p
}

// entries are the WorkloadEntries of the namespace shop, with the health of each.
func (f *fleet) entries(ctx context.Context) (map[string]string, error) {
	rows, err := f.db.Query(ctx, `SELECT name, coalesce(annotations ->> 'mesh.pgmesh.io/health', 'healthy') FROM mesh.resources WHERE kind = 'WorkloadEntry' AND namespace = 'shop'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, health string
		if err := rows.Scan(&name, &health); err != nil {
			return nil, err
		}
		all[name] = health
	}
	return all, rows.Err()
}

const cartEntry = "cart-127.0.0.2"

// entry waits until there is exactly one entry, with this health.
func (f *fleet) entry(health string) {
	f.t.Helper()
	eventually(f.t, func(ctx context.Context) error {
		all, err := f.entries(ctx)
		if err == nil && (len(all) != 1 || !strings.HasPrefix(all[cartEntry], health)) {
			return fmt.Errorf("the entries are %v, and there should be %s, %s", all, cartEntry, health)
		}
		return err
	})
}

// stays checks for a while that there is exactly one entry.
func (f *fleet) stays(during time.Duration) {
	f.t.Helper()
	for until := time.Now().Add(during); time.Now().Before(until); {
		all, err := f.entries(f.t.Context())
		require.NoError(f.t, err)
		require.Contains(f.t, all, cartEntry)
		require.Len(f.t, all, 1)
	}
}

// serves waits until requests of the client succeed, or no longer do.
func (f *fleet) serves(wanted int) {
	f.t.Helper()
	eventually(f.t, func(ctx context.Context) error {
		a, err := send(ctx, f.client, address(f.outbound), request{host: "cart.mesh", path: "/"})
		if err == nil && a.status != wanted {
			return fmt.Errorf("the answer is %d %s, and should be %d", a.status, a.body, wanted)
		}
		return err
	})
}

// keeper waits until the machine is at a discovery of this name, or, after a minus, at any other.
func (f *fleet) keeper(name string) (found string) {
	f.t.Helper()
	eventually(f.t, func(ctx context.Context) error {
		err := f.db.QueryRow(ctx, `SELECT s.discovery FROM mesh_internal.workload_instances i JOIN mesh_internal.workload_sessions s ON s.id = i.session
			WHERE i.machine = 'cart-1' AND i.gone IS NULL AND s.ended IS NULL AND NOT i.has_left`).Scan(&found)
		if other, not := strings.CutPrefix(name, "-"); err == nil && not && found == other {
			return errors.New("the machine is at " + found + " still")
		}
		return err
	})
	return found
}

// hasNamesakes joins machines of the name of the one that runs, and is warned where that is in the
// way.
func (f *fleet) hasNamesakes() {
	f.t.Helper()
	const warning = "another machine of this name is in the mesh"
	joins := func(identity string, flags ...string) string {
		f.t.Helper()
		token, err := f.JoinToken(f.t.Context(), identity)
		require.NoError(f.t, err)
		out, err := f.join(token, f.t.TempDir(), flags...)
		require.NoError(f.t, err, out)
		require.Contains(f.t, out, "this machine is spiffe://")
		return out
	}
	out := joins("shop/cart", "--id", "cart-1")
	require.Contains(f.t, out, warning)
	require.Contains(f.t, out, `proxy=cart-1 services="cart at 127.0.0.2 (`+cartEntry+`)"`)
	for _, out := range []string{
		joins("shop/cart", "--id", "cart-2"),
		joins("shop/cart", "--id", "cart-1", "--take-over"),
		joins("shop/other", "--id", "cart-1"), // one of another identity is told nothing
		joins("bank/cart", "--id", "cart-1"),
	} {
		require.NotContains(f.t, out, warning)
		require.NotContains(f.t, out, "127.0.0.2")
		require.NotContains(f.t, out, "WARN")
	}
}

// agent runs mesh-agent on the machine, and returns what it says.
func (f *fleet) agent(command string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), longestWait)
	defer cancel()
	out, err := f.Run(ctx, "mesh-agent", command, "--state-dir", f.State("cart-1"))
	require.NoError(f.t, err, out)
	return out
}

// drains drains a machine, kills its agent meanwhile, and takes the drain back.
func (f *fleet) drains(machine *stack.Program) {
	f.t.Helper()
	const warning = "warning: cart.mesh is left with no healthy machine"
	require.Contains(f.t, f.agent("drain"), warning)
	require.NotContains(f.t, f.agent("drain"), warning, "it is drained already, and nobody needs it any more")
	f.entry("draining")
	f.serves(http.StatusServiceUnavailable)
	var problem string
	require.NoError(f.t, f.db.QueryRow(f.t.Context(), `SELECT message FROM mesh.problems WHERE code = 'no-healthy-endpoint' AND name = 'cart'`).Scan(&problem))
	require.Equal(f.t, "none of its endpoints takes requests: 1 draining", problem)
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.2", f.inbound))
	require.NoError(f.t, err, "its Envoy has its service")
	require.NoError(f.t, conn.Close())
	left := func(ctx context.Context) error {
		var detail, annotation string
		err := f.db.QueryRow(ctx, `SELECT m.detail, r.annotations ->> 'mesh.pgmesh.io/health' FROM mesh.registered_machines m JOIN mesh.resources r
			ON r.kind = 'WorkloadEntry' AND r.namespace = m.namespace AND r.name = m.entry WHERE m.machine = 'cart-1'`).Scan(&detail, &annotation)
		told := strings.HasPrefix(detail, "drained at ") && strings.HasSuffix(detail, ", no connection is left")
		if err == nil && (!told || annotation != "draining") {
			return fmt.Errorf("the machine says %q, and its entry %q", detail, annotation)
		}
		return err
	}
	eventually(f.t, left)

	machine.Kill()
	require.NoError(f.t, machine.Start())
	f.keeper("")
	f.stays(grace)
	f.entry("draining")
	eventually(f.t, left)
	f.serves(http.StatusServiceUnavailable)

	f.agent("undrain")
	f.entry("healthy")
	f.serves(http.StatusOK)
	f.agent("undrain")

	f.agent("drain")
	f.entry("draining")
	f.serves(http.StatusServiceUnavailable)
}

func TestAMachineIsThereWhileItsAgentIs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	machine := f.machine()
	f.member("bank/teller", "teller", "--labels", "app=teller", "--node-ip", "127.0.0.3", "--discovery", f.servers[1])
	require.NoError(t, machine.Start())
	f.entry("healthy")
	f.serves(http.StatusOK)
	f.hasNamesakes()

	// The group's probe is used.
	f.ill.Store(true)
	f.entry("unhealthy: GET http://127.0.0.1:" + f.app.port + "/healthz: 500")
	f.serves(http.StatusServiceUnavailable)
	f.ill.Store(false)
	f.entry("healthy")
	f.serves(http.StatusOK)

	// Its discovery is killed, and the other takes over.
	discoveries := map[string]*stack.Program{"first": f.Discovery, "second": f.second}
	for range 2 {
		at := f.keeper("")
		discoveries[at].Kill()
		f.keeper("-" + at)
		f.stays(grace + time.Second)
		f.serves(http.StatusOK)
		require.NoError(t, discoveries[at].Start())
		require.NoError(t, discoveries[at].Ready(t.Context()))
	}

	f.drains(machine)

	// It leaves in an orderly way.
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	require.NoError(t, machine.Terminate(ctx))
	all, err := f.entries(ctx)
	require.NoError(t, err)
	require.Empty(t, all, "the entry has gone when the agent has")
	f.serves(http.StatusServiceUnavailable)

	// It is killed, and its entry goes after the grace period, not before.
	require.NoError(t, machine.Start())
	f.entry("healthy")
	f.serves(http.StatusOK)
	machine.Kill()
	f.stays(grace / 2)
	eventually(t, func(ctx context.Context) error {
		all, err := f.entries(ctx)
		if len(all) > 0 {
			return fmt.Errorf("there is %v still", all)
		}
		return err
	})
}
