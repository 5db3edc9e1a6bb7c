package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/kinds"
)

// mesh is a namespace of a control plane, with an Envoy.
type mesh struct {
	*stack.Stack
	t         testing.TB
	namespace string
	db        *pgxpool.Pool
	agent     *stack.Program
	client    *http.Client
	// port is shared by all HTTP services: Envoy tells them apart by the Host header.
	port string
}

var namespaces atomic.Int64

// newMesh creates a namespace of the shared control plane. The flags are for its mesh-agent.
func newMesh(t testing.TB, flags ...string) *mesh {
	t.Helper()
	control, database := common.get(t)
	return meshOn(t, control, database, flags...)
}

// meshOn creates a namespace of a control plane and starts its Envoy under a mesh-agent.
func meshOn(t testing.TB, control *stack.Stack, database string, flags ...string) *mesh {
	t.Helper()
	m := meshWithoutEnvoy(t, control, database)
	m.startAgent(flags...)
	return m
}

func meshWithoutEnvoy(t testing.TB, control *stack.Stack, database string) *mesh {
	t.Helper()
	db, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return &mesh{
		Stack: control, t: t, db: db, client: newClient(t), port: newPort(t),
		namespace: fmt.Sprintf("team-%d", namespaces.Add(1)),
	}
}

// newPort reserves a port for an Envoy listener.
func newPort(t testing.TB) string {
	t.Helper()
	return strconv.Itoa(int(envoytest.Port(t)))
}

func (m *mesh) startAgent(flags ...string) {
	m.t.Helper()
	var err error
	m.agent, err = m.Agent(envoytest.Binary(m.t), "client."+m.namespace, append([]string{
		"--namespace", m.namespace, "--concurrency", "1", "--drain-time", "0s",
	}, flags...)...)
	require.NoError(m.t, err)
	require.NoError(m.t, m.agent.Start())
	m.t.Cleanup(func() {
		m.agent.Stop()
		if m.t.Failed() {
			m.t.Logf("the agent's and Envoy's log:\n%s\ndiscovery's log:\n%s", m.agent.Log(), m.Discovery.Log())
		}
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), longestWait)
	defer cancel()
	require.NoError(m.t, m.agent.Ready(ctx))
}

// keepNamespacesApart configures the mesh so that namespaces do not see each other's resources.
func keepNamespacesApart(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'mesh', '{
		"defaultServiceExportTo": ["."], "defaultVirtualServiceExportTo": ["."], "defaultDestinationRuleExportTo": ["."]}')`)
	return err
}

// commit creates or replaces resources in one SQL transaction.
func (m *mesh) commit(yaml ...string) {
	m.t.Helper()
	m.transaction(func(tx pgx.Tx) { m.put(tx, yaml...) })
}

// transaction runs a function in a transaction and commits it.
func (m *mesh) transaction(do func(pgx.Tx)) {
	m.t.Helper()
	tx, err := m.db.Begin(m.t.Context())
	require.NoError(m.t, err)
	defer tx.Rollback(context.WithoutCancel(m.t.Context())) // does nothing after the commit
	do(tx)
	require.NoError(m.t, tx.Commit(m.t.Context()))
}

// put writes resources given as YAML; those without a namespace go into the mesh's.
func (m *mesh) put(tx pgx.Tx, yaml ...string) {
	m.t.Helper()
	documents, err := kinds.Parser{DefaultNamespace: m.namespace}.Parse("test.yaml", []byte(strings.Join(yaml, "\n---\n")))
	require.NoError(m.t, err)
	for _, d := range documents {
		r := d.Resource
		_, err := tx.Exec(m.t.Context(), `
			INSERT INTO mesh.resources (api_group, kind, namespace, name, labels, annotations, spec)
			VALUES ($1, $2, $3, $4, coalesce($5::jsonb, '{}'), coalesce($6::jsonb, '{}'), $7)
			ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET labels = EXCLUDED.labels, annotations = EXCLUDED.annotations, spec = EXCLUDED.spec`,
			r.Kind.Group, r.Kind.Name, r.Namespace, r.Name, r.Labels, r.Annotations, d.Spec)
		require.NoError(m.t, err, "write %s", r.Key())
	}
}

// remove deletes resources of the mesh: remove(tx, "VirtualService", "a", "b").
func (m *mesh) remove(tx pgx.Tx, kind string, names ...string) {
	m.t.Helper()
	done, err := tx.Exec(m.t.Context(), "DELETE FROM mesh.resources WHERE kind = $1 AND namespace = $2 AND name = ANY ($3)", kind, m.namespace, names)
	require.NoError(m.t, err)
	require.EqualValues(m.t, len(names), done.RowsAffected())
}

// address returns the loopback address of a port.
func address(port string) string { return net.JoinHostPort("127.0.0.1", port) }

// ask sends a request to a host through Envoy.
func (m *mesh) ask(ctx context.Context, r request) (*answer, error) {
	return send(ctx, m.client, address(m.port), r)
}

// answers waits until the backend answers for the host.
func (m *mesh) answers(host, backend string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: host})
		if err != nil {
			return err
		}
		return a.from(backend)
	})
}

// spread sends n requests to a host and counts which backends answer. Every answer must be 200.
func (m *mesh) spread(host string, n int) map[string]int {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	counts := map[string]int{}
	for range n {
		a, err := m.ask(ctx, request{host: host})
		require.NoError(m.t, err)
		require.Equal(m.t, http.StatusOK, a.status, a.body)
		counts[a.seen.Backend]++
	}
	return counts
}

// status returns an error unless the host answers with this status.
func (m *mesh) status(ctx context.Context, host string, want int) error {
	return m.statusAt(ctx, address(m.port), host, want)
}

// statusAt is status for the Envoy that listens at an address.
func (m *mesh) statusAt(ctx context.Context, at, host string, want int) error {
	a, err := send(ctx, m.client, at, request{host: host})
	if err != nil {
		return err
	}
	if a.status != want {
		return fmt.Errorf("answered %d, want %d: %q", a.status, want, a.body)
	}
	return nil
}

// answeredBy waits until exactly these backends answer for the host.
func (m *mesh) answeredBy(host string, backends ...string) {
	m.t.Helper()
	eventually(m.t, func(context.Context) error {
		if got := slices.Sorted(maps.Keys(m.spread(host, 10))); !slices.Equal(got, backends) {
			return fmt.Errorf("%v answer, want %v", got, backends)
		}
		return nil
	})
}

// listening waits until Envoy answers at all. The first commit of a test arrives whole, so all of
// it is then in force.
func (m *mesh) listening() {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		_, err := m.ask(ctx, request{host: "nobody.mesh"})
		return err
	})
}

// must sends one request, which must get an answer.
func (m *mesh) must(r request) *answer {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), longestWait)
	defer cancel()
	a, err := m.ask(ctx, r)
	require.NoError(m.t, err)
	return a
}
