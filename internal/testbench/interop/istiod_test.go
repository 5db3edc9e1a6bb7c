package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// timeout bounds every wait for istiod: it reconnects to a lost server after 13 s or more, with
// growing backoff.
const timeout = 90 * time.Second

// pair is a mesh in Postgres, pgmesh's control plane, and an istiod that reads from it.
type pair struct {
	*stack.Stack
	t      *testing.T
	db     *pgx.Conn
	istiod *stack.Program
	served string // istiod's address
}

func newPair(t *testing.T) *pair {
	t.Helper()
	if istiod == "" {
		t.Skip("no istiod: make interop builds one, which takes minutes the first time, and runs these tests")
	}
	database := pgtest.New(t)
	control, err := stack.New(bin, t.TempDir(), database)
	require.NoError(t, err)
	require.NoError(t, control.Start(t.Context()))
	t.Cleanup(control.Stop)
	p := &pair{Stack: control, t: t}
	p.istiod, p.served, err = control.Istiod(istiod)
	require.NoError(t, err)
	p.db, err = pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.db.Close(context.Background()) })
	p.exec(`INSERT INTO mesh.resources (kind, name, spec)
		SELECT kind, 'service-' || i, replace(spec, '%', i::text)::jsonb FROM generate_series(0, 9) i, (VALUES
			('ServiceEntry', '{"hosts": ["service-%.test"], "location": "MESH_INTERNAL", "resolution": "STATIC",
				"ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "endpoints": [{"address": "10.1.0.%"}]}'),
			('VirtualService', '{"hosts": ["service-%.test"], "http": [{"name": "first", "route": [{"destination": {"host": "service-%.test"}}]}]}')) kinds (kind, spec)`)
	require.NoError(t, p.istiod.Start())
	t.Cleanup(p.stopIstiod)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	require.NoError(t, p.istiod.Ready(ctx))
	return p
}

func (p *pair) stopIstiod() {
	p.istiod.Stop()
	if p.t.Failed() {
		p.t.Logf("istiod's log:\n%s\nmcp-server's log:\n%s", p.istiod.Log(), p.MCPServer.Log())
	}
}

func (p *pair) exec(sql string, args ...any) {
	p.t.Helper()
	_, err := p.db.Exec(p.t.Context(), sql, args...)
	require.NoError(p.t, err, sql)
}

// equal waits until mcp-server and istiod serve the same resources. It leaves out the MeshConfig,
// because an istiod adds its own defaults.
func (p *pair) equal() {
	p.t.Helper()
	poll.Within(p.t, timeout, func(ctx context.Context) error {
		out, err := p.Client(ctx, "", "compare", p.MCP, p.served, "--kind", "ServiceEntry,VirtualService,DestinationRule")
		if err != nil {
			return fmt.Errorf("%w:\n%s", err, out)
		}
		return nil
	})
}

// counts returns how many VirtualServices a server has.
func (p *pair) counts(server string) int {
	p.t.Helper()
	out, err := p.Client(p.t.Context(), "", "--server", server, "get", "virtualservices", "-A", "-o", "name")
	require.NoError(p.t, err, out)
	return strings.Count(out, "service-")
}

// istiod must end up with exactly what was committed.
func TestIstiodFollowsRandomTransactions(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.equal()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		for range 30 {
			p.transaction(dice)
		}
		p.equal()
	}
	require.Equal(t, p.counts(p.MCP), p.counts(p.served), "both are asked for the same, and none is empty")
}

// transaction changes up to three services.
func (p *pair) transaction(dice *rand.Rand) {
	tx, err := p.db.Begin(p.t.Context())
	require.NoError(p.t, err)
	for range 1 + dice.IntN(3) {
		name := fmt.Sprintf("service-%d", dice.IntN(20))
		_, err := tx.Exec(p.t.Context(), changes[dice.IntN(len(changes))], name, dice.IntN(1000))
		require.NoError(p.t, err)
	}
	require.NoError(p.t, tx.Commit(p.t.Context()))
}

// changes are the statements of transactions, each with a service's name and a number as
// parameters.
var changes = []string{
	`INSERT INTO mesh.resources (kind, name, labels, spec) VALUES ('VirtualService', $1, jsonb_build_object('change', $2::int::text), jsonb_build_object('hosts', jsonb_build_array($1 || '.test'),
		'http', jsonb_build_array(jsonb_build_object('name', 'r' || $2::int, 'route', jsonb_build_array(jsonb_build_object('destination', jsonb_build_object('host', $1 || '.test')))))))
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec, labels = EXCLUDED.labels`,
	`INSERT INTO mesh.resources (kind, name, spec) VALUES ('DestinationRule', $1, jsonb_build_object('host', $1 || '.test',
		'trafficPolicy', jsonb_build_object('connectionPool', jsonb_build_object('tcp', jsonb_build_object('maxConnections', 1 + $2::int)))))
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`,
	`DELETE FROM mesh.resources WHERE kind <> 'ServiceEntry' AND name = $1 AND $2::int % 3 <> 0`,
	`UPDATE mesh.resources SET annotations = jsonb_build_object('example.com/change', $2::int::text) WHERE name = $1`,
}

// The crash of either side must lose nothing on the other.
func TestNoCrashLosesResources(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.equal()

	p.MCPServer.Kill()
	require.Equal(t, 10, p.counts(p.served), "istiod keeps what it has")
	p.exec("DELETE FROM mesh.resources WHERE name = 'service-3'")
	require.NoError(t, p.MCPServer.Start())
	require.NoError(t, p.MCPServer.Ready(t.Context()))
	p.equal()
	require.Equal(t, 9, p.counts(p.served))

	p.istiod.Kill()
	p.exec("DELETE FROM mesh.resources WHERE name = 'service-4'")
	require.NoError(t, p.istiod.Start())
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	require.NoError(t, p.istiod.Ready(ctx))
	p.equal()
	require.Equal(t, 8, p.counts(p.served))
}

// A discovery that reads from istiod must serve what a discovery that reads from mcp-server serves,
// and what istiod itself serves.
func TestDiscoveryReadsFromIstiod(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('DestinationRule', 'subsets', '{"host": "service-1.test", "subsets": [{"name": "v1", "labels": {"version": "v1"}}]}')`)
	p.equal()
	reader, xds, err := p.DiscoveryOf(p.served)
	require.NoError(t, err)
	require.NoError(t, reader.Start())
	t.Cleanup(reader.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	require.NoError(t, reader.Ready(ctx))
	poll.Within(t, timeout, func(ctx context.Context) error { return sameClusters(ctx, p.XDS, xds, p.served) })
}
