package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// The parts of a mesh that can die. A mesh with replicas has a second mcp-server and a second
// discovery.
const (
	postgres        = "Postgres"
	server          = "mcp-server"
	discovery       = "discovery"
	agent           = "mesh-agent"
	secondServer    = "second-mcp-server"
	secondDiscovery = "second-discovery"
	// A folder with configuration beside that of mcp-server. A discovery that starts without it has
	// no configuration, although mcp-server is there.
	folder = "folder"
)

// part is one of them.
type part struct {
	kill  func()
	start func() error
}

// mortal is a mesh whose parts die and come back. A machine registers two services, one with a
// probe and one without, and a client calls both.
type mortal struct {
	*mesh

	secure      bool
	flags       []string // of discoveries
	parts       map[string]part
	dead        map[string]bool
	controls    []*stack.Program // mcp-servers and discoveries
	discoveries []*stack.Program
	machine     *stack.Program
	teller      *stack.Program
	app         *backend
	ill         atomic.Bool
}

// mortals are the services of the machine.
var mortals = []string{"cart", "free"}

func newMortal(t *testing.T, secure, replicas bool) *mortal {
	t.Helper()
	database := pgtest.Server(t)
	prepare := stack.New
	if secure {
		prepare = func(bin, dir, database string) (*stack.Stack, error) { return stack.NewSecure(bin, dir, database, nil) }
	}
	control, err := prepare(bin, t.TempDir(), database.URL)
	require.NoError(t, err)
	m := &mortal{mesh: meshWithoutEnvoy(t, control, database.URL), secure: secure, dead: map[string]bool{}}
	m.parts = map[string]part{postgres: {database.Kill, func() error { database.Start(); return nil }}, folder: m.folder()}
	m.app = newBackend(t, "app", func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == "/healthz" && m.ill.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return r.URL.Path == "/healthz"
	})
	m.startControl(replicas)
	cart, free := newPort(t), newPort(t)
	m.commit(m.group("cart", cart), m.group("free", free), m.sidecars(cart, free))
	m.fill()
	m.startMembers()
	return m
}

// fill adds so many services that it takes a while until a discovery has all of them.
func (m *mortal) fill() {
	m.t.Helper()
	_, err := m.db.Exec(m.t.Context(), `INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'ServiceEntry', 'others', 'other-' || n,
		jsonb_build_object('hosts', ARRAY['other-' || n || '.mesh'], 'exportTo', ARRAY['.'], 'location', 'MESH_INTERNAL', 'resolution', 'STATIC',
			'ports', '[{"number": 80, "name": "http", "protocol": "HTTP"}]'::jsonb, 'endpoints', jsonb_build_array(jsonb_build_object('address', '10.0.0.1')))
		FROM generate_series(1, 3000) n`)
	require.NoError(m.t, err)
}

// folder is a source of discoveries. It is empty, or missing.
func (m *mortal) folder() part {
	path := filepath.Join(m.t.TempDir(), "config")
	come := func() error { return os.Mkdir(path, 0o755) }
	require.NoError(m.t, come())
	m.flags = []string{"--config-dir", path}
	m.DiscoveryFlags(m.flags...)
	return part{func() { require.NoError(m.t, os.Remove(path)) }, come}
}

func (m *mortal) startControl(replicas bool) {
	m.t.Helper()
	m.t.Cleanup(m.Stop)
	if !replicas {
		require.NoError(m.t, m.Start(m.t.Context()))
		m.runs(server, m.MCPServer)
		m.runs(discovery, m.Discovery)
		return
	}
	second, at, err := m.AnotherServer(secondServer)
	require.NoError(m.t, err)
	m.DiscoveryFlags("--mcp", at)
	require.NoError(m.t, m.Start(m.t.Context()))
	m.runs(server, m.MCPServer)
	m.runs(discovery, m.Discovery)
	require.NoError(m.t, second.Start())
	m.runs(secondServer, second)
	p, xds, err := m.Replica(m.t.Context(), secondDiscovery, append(m.flags, "--mcp", at)...)
	require.NoError(m.t, err)
	require.NoError(m.t, p.Start())
	m.runs(secondDiscovery, p)
	m.XDS += "," + xds
}

// runs adds a program of the control plane to the parts that can die.
func (m *mortal) runs(name string, p *stack.Program) {
	m.t.Helper()
	m.parts[name] = part{p.Kill, p.Start}
	m.controls = append(m.controls, p)
	if strings.HasSuffix(name, discovery) {
		m.discoveries = append(m.discoveries, p)
	}
	m.t.Cleanup(func() {
		p.Stop()
		if m.t.Failed() {
			m.t.Logf("the log of %s:\n%s", name, p.Log())
		}
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), longestWait)
	defer cancel()
	require.NoError(m.t, p.Ready(ctx))
}

// group is a service of the machine.
func (m *mortal) group(name, port string) string {
	probe := ""
	if name == "cart" {
		probe = fmt.Sprintf("probe: {periodSeconds: 1, failureThreshold: 1, httpGet: {host: 127.0.0.1, port: %s, path: /healthz}}", m.app.port)
	}
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: %[1]s, namespace: shop}
spec:
  metadata: {labels: {app: %[1]s}}
  template: {serviceAccount: cart, ports: {http: %[2]s}}
  %[4]s
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %[3]s, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: %[1]s}}
`, name, port, m.port, probe)
}

// sidecars are what the machine and the client listen on.
func (m *mortal) sidecars(cart, free string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: machine, namespace: shop}
spec:
  egress: [{hosts: ['~/*']}]
  ingress:
  - {port: {number: %[1]s, name: http, protocol: HTTP}, bind: 127.0.0.2, defaultEndpoint: '127.0.0.1:%[3]s'}
  - {port: {number: %[2]s, name: http-free, protocol: HTTP}, bind: 127.0.0.2, defaultEndpoint: '127.0.0.1:%[3]s'}
`, cart, free, m.app.port) + "---" + m.egressOn("bank", "teller", "127.0.0.1", "*")
}

// startMembers starts the machine, whose Envoy outlives its agent, and the client.
func (m *mortal) startMembers() {
	m.t.Helper()
	m.machine = m.member("cart-1", "shop", "cart", "--node-ip", "127.0.0.2", "--group", strings.Join(mortals, ","))
	m.parts[agent] = part{m.machine.Kill, m.machine.Start}
	m.teller = m.member("teller", "bank", "teller", "--node-ip", "127.0.0.3", "--labels", "app=teller")
	for _, name := range mortals {
		m.answers(name+".mesh", "app")
	}
	m.settled()
}

// member starts an agent with an Envoy that outlives it.
func (m *mortal) member(name, namespace, account string, flags ...string) *stack.Program {
	m.t.Helper()
	flags = append(flags, "--concurrency", "1", "--drain-time", "0s", "--tie-envoy=false")
	p, err := m.prepare(name, namespace, account, flags)
	require.NoError(m.t, err)
	require.NoError(m.t, p.Start())
	m.t.Cleanup(func() {
		if m.dead[agent] && p == m.machine { // its Envoy is still there
			require.NoError(m.t, p.Start())
		}
		p.Stop()
		if m.t.Failed() {
			m.t.Logf("the log of %s and its Envoy:\n%s", name, p.Log())
		}
	})
	return p
}

func (m *mortal) prepare(name, namespace, account string, flags []string) (*stack.Program, error) {
	if !m.secure {
		return m.Agent(envoytest.Binary(m.t), name, append(flags, "--namespace", namespace, "--service-account", account, "--state-dir", m.t.TempDir())...)
	}
	token, err := m.JoinToken(m.t.Context(), namespace+"/"+account)
	if err != nil {
		return nil, err
	}
	return m.Member(envoytest.Binary(m.t), name, token, flags...)
}

// settlesWithin is more than the longest pauses between the retries of agents and discoveries
// together.
const settlesWithin = 40 * time.Second

// settled waits until all parts work: those of the control plane are ready, agents have their
// discovery, and the services are registered.
func (m *mortal) settled() {
	m.t.Helper()
	within(m.t, settlesWithin, func(ctx context.Context) error {
		for _, p := range m.controls {
			if err := p.Ask(ctx); err != nil {
				return err
			}
		}
		for _, p := range []*stack.Program{m.machine, m.teller} {
			if err := attached(ctx, p); err != nil {
				return err
			}
		}
		return m.registered(ctx)
	})
}

// attached returns an error unless an agent is ready and has a discovery.
func attached(ctx context.Context, p *stack.Program) error {
	if err := p.Ask(ctx); err != nil {
		return err
	}
	metrics, err := scrape(ctx, p)
	if err == nil && (metrics["pgmesh_mesh_agent_discovery_connected"] != 1 || metrics["pgmesh_mesh_agent_serving_last_good"] != 0) {
		err = fmt.Errorf("the agent at %s has no discovery", p.HTTP())
	}
	return err
}

// registered returns an error unless one discovery has the services of the machine, and the
// database knows it.
func (m *mortal) registered(ctx context.Context) error {
	var there, known int
	for _, p := range m.discoveries {
		n, err := registeredAt(ctx, p)
		if err != nil {
			return err
		}
		there += n
	}
	if there != len(mortals) {
		return fmt.Errorf("%d services are registered at a discovery, and not %d", there, len(mortals))
	}
	err := m.db.QueryRow(ctx, "SELECT count(*) FROM mesh.registered_machines WHERE state = 'here' AND health = 'healthy' AND entry IS NOT NULL").Scan(&known)
	if err == nil && known != len(mortals) {
		err = fmt.Errorf("%d services are registered in the database, and not %d", known, len(mortals))
	}
	return err
}

// registeredAt counts the services of machines that a discovery has reported to a live mcp-server.
func registeredAt(ctx context.Context, p *stack.Program) (n int, err error) {
	metrics, err := scrape(ctx, p)
	if err != nil || metrics["pgmesh_discovery_registry_connected"] != 1 {
		return 0, err
	}
	_, page, err := fetch(ctx, "http://"+p.HTTP()+"/debug/machines")
	if err != nil {
		return 0, err
	}
	var shown []struct {
		State     string `json:"state"`
		Health    string `json:"health"`
		Reporting bool   `json:"reporting"`
	}
	err = json.Unmarshal([]byte(page), &shown)
	for _, s := range shown {
		if s.State == "registered" && s.Health == "healthy" && !s.Reporting {
			n++
		}
	}
	return n, err
}

// standing is the health of the entries, with their revisions.
func (m *mortal) standing() (entries []string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		rows, err := m.db.Query(ctx, `SELECT concat_ws(' ', namespace, name, revision, spec, labels, annotations) FROM mesh.readable_resources WHERE kind = 'WorkloadEntry' ORDER BY 1`)
		if err != nil {
			return err
		}
		entries, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return entries
}

// became are the changes of entries after a revision.
func (m *mortal) became(after int64) (changes []string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		rows, err := m.db.Query(ctx, `SELECT format('revision %s by %s: %s of %s %s', revision, author, operation, name, after -> 'annotations') FROM mesh.history
			WHERE kind = 'WorkloadEntry' AND revision > $1 ORDER BY revision`, after)
		if err != nil {
			return err
		}
		changes, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return changes
}

func (m *mortal) newest() (revision int64) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		return m.db.QueryRow(ctx, "SELECT mesh.newest_revision()").Scan(&revision)
	})
	return revision
}

// lives shows that everything still works: a change of the configuration reaches the client's
// Envoy.
func (m *mortal) lives() {
	m.t.Helper()
	host := fmt.Sprintf("after-%d.mesh", m.newest())
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %[2]s, name: http, protocol: HTTP}]
`, host, m.port))
	m.becomes("127.0.0.1", host, http.StatusServiceUnavailable) // known, and without an endpoint
}

// rests waits until no session of a dead mcp-server is left. The entries must stay.
func (m *mortal) rests() {
	m.t.Helper()
	before := m.newest()
	within(m.t, time.Minute, func(ctx context.Context) (err error) {
		var dead int
		err = m.db.QueryRow(ctx, "SELECT count(*) FROM mesh_internal.workload_sessions s, mesh_internal.workload_clock c WHERE s.ended IS NOT NULL OR s.refreshed < c.uptime - 10000").Scan(&dead)
		if err == nil && dead > 0 {
			err = fmt.Errorf("%d dead sessions are there still", dead)
		}
		return err
	})
	m.settled()
	require.Empty(m.t, m.became(before))
}

// probed shows that the entry still follows the probe.
func (m *mortal) probed() {
	m.t.Helper()
	m.ill.Store(true)
	m.becomes("127.0.0.1", "cart.mesh", http.StatusServiceUnavailable)
	m.ill.Store(false)
	m.becomes("127.0.0.1", "cart.mesh", http.StatusOK)
}
