package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

const (
	changeEvery   = 20 * time.Millisecond
	changedRoutes = 4
	numberHeader  = "number"
)

// changes is a stream of transactions. Each writes its number into the routes of several hosts.
type changes struct {
	mesh    *mesh
	backend *backend

	newest atomic.Int64 // surely committed
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func newChanges(m *mesh, b *backend) *changes { return &changes{mesh: m, backend: b} }

func (c *changes) host(i int) string { return fmt.Sprintf("changed-%d.mesh", i) }

// apply creates the hosts, with a number.
func (c *changes) apply(n int) {
	c.mesh.t.Helper()
	c.mesh.transaction(func(tx pgx.Tx) {
		for i := range changedRoutes {
			c.mesh.put(tx, c.mesh.service(c.host(i), c.backend), virtualService(c.host(i), fmt.Sprintf(
				`http: [{headers: {response: {set: {%s: "%d"}}}, route: [{destination: {host: %s}}]}]`, numberHeader, n, c.host(i))))
		}
	})
}

// start writes numbers until end, whatever happens to the connection.
func (c *changes) start() {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.mesh.t.Cleanup(c.end)
	c.done.Go(func() {
		pace := time.NewTicker(changeEvery)
		defer pace.Stop()
		for n := int64(1); ; n++ {
			// A write that has begun is awaited: given up, it could still be committed later.
			if err := c.write(context.WithoutCancel(ctx), n); err == nil {
				c.newest.Store(n)
			}
			select {
			case <-pace.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (c *changes) write(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	_, err := c.mesh.db.Exec(ctx, `
		UPDATE mesh.resources SET spec = jsonb_set(spec, ARRAY['http', '0', 'headers', 'response', 'set', $1], to_jsonb($2::text))
		WHERE kind = 'VirtualService' AND namespace = $3`, numberHeader, strconv.FormatInt(n, 10), c.mesh.namespace)
	return err
}

func (c *changes) end() {
	c.stop()
	c.done.Wait()
}

// committed waits for n more transactions.
func (c *changes) committed(n int64) {
	c.mesh.t.Helper()
	from := c.newest.Load()
	eventually(c.mesh.t, func(context.Context) error {
		if now := c.newest.Load(); now < from+n {
			return fmt.Errorf("number %d is the newest, waiting for %d", now, from+n)
		}
		return nil
	})
}

// arrived waits until Envoy answers for every host with a number that is committed now, or a newer
// one.
func (c *changes) arrived() {
	c.mesh.t.Helper()
	now := c.newest.Load()
	eventually(c.mesh.t, func(ctx context.Context) error {
		for i := range changedRoutes {
			a, err := c.mesh.ask(ctx, request{host: c.host(i)})
			if err != nil {
				return err
			}
			if n, err := strconv.ParseInt(a.header.Get(numberHeader), 10, 64); err != nil || n < now {
				return fmt.Errorf("%s answers %d with number %q, want %d", c.host(i), a.status, a.header.Get(numberHeader), now)
			}
		}
		return nil
	})
}

// agree waits until every stage has the newest revision, and Envoy has the numbers in the database.
func (c *changes) agree() {
	m := c.mesh
	m.t.Helper()
	var revision float64
	require.NoError(m.t, m.db.QueryRow(m.t.Context(), "SELECT max(revision) FROM mesh.revisions").Scan(&revision))
	eventually(m.t, func(ctx context.Context) error {
		return atRevision(ctx, m.MCPServer, "pgmesh_mcp_server_revision", revision)
	})
	eventually(m.t, func(ctx context.Context) error {
		return atRevision(ctx, m.Discovery, "pgmesh_discovery_revision", revision)
	})
	rows, err := m.db.Query(m.t.Context(), `SELECT name, (spec #>> ARRAY['http', '0', 'headers', 'response', 'set', $2])::int
		FROM mesh.resources WHERE kind = 'VirtualService' AND namespace = $1`, m.namespace, numberHeader)
	require.NoError(m.t, err)
	var name string
	var number int
	_, err = pgx.ForEachRow(rows, []any{&name, &number}, func() error {
		eventually(m.t, func(ctx context.Context) error { return m.numbered(ctx, name+".mesh", numberHeader, number) })
		return nil
	})
	require.NoError(m.t, err)
	require.NoError(m.t, refusals(m.t.Context(), m.Discovery))
}

func atRevision(ctx context.Context, p *stack.Program, metric string, want float64) error {
	metrics, err := scrape(ctx, p)
	if err != nil {
		return err
	}
	if got := metrics[metric]; got != want {
		return fmt.Errorf("%s is %v, want %v", metric, got, want)
	}
	return nil
}
