package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
)

// What registers itself in ZooKeeper is called through Envoy, soon, and stays while ZooKeeper is away.
// make registries runs it.
func TestServicesOfAZooKeeperAreCalled(t *testing.T) {
	z := zookeepertest.Start(t, nil)
	z.Put("/services", "")
	database := pgtest.Server(t).URL
	control := newStack(t, database)
	control.ServerFlags("--registry", "zookeeper://"+z.Address+"/?protocol=http&timeout=500ms")
	ctx, cancel := context.WithTimeout(t.Context(), 2*longestWait)
	defer cancel()
	require.NoError(t, control.Start(ctx))
	m := meshOn(t, control, database)
	one, two := newBackend(t, "one", nil), newBackend(t, "two", nil)
	put := func(id string, b *backend, enabled bool) {
		z.Put("/services/web/"+id, fmt.Sprintf(`{"name":"web","id":%q,"address":"127.0.0.1","port":%s,"enabled":%t,"payload":{"mesh-port":%s}}`, id, b.port, enabled, m.port))
	}
	put("first", one, true)
	m.answers("web.zookeeper", "one")
	put("second", two, true)
	m.answeredBy("web.zookeeper", "one", "two")
	put("second", two, false)
	m.answeredBy("web.zookeeper", "one")
	z.Remove("/services/web/second")

	m.answersSoon(z, "/services/web/first", func(b *backend) { put("first", b, true) }, two, one)

	z.Kill()
	says(t, control.MCPServer.Log, "the registry cannot be asked")
	require.NoError(t, m.status(ctx, "web.zookeeper", 200))
	z.Wipe()
	says(t, control.MCPServer.Log, "there is no node /services any more")
	require.NoError(t, m.status(ctx, "web.zookeeper", 200))
	put("other", two, true)
	m.answeredBy("web.zookeeper", "two")
}

// answersSoon moves an instance from one backend to the next, and says how long it takes until
// requests get there, beside how long until a client of ZooKeeper alone is told.
func (m *mesh) answersSoon(z *zookeepertest.ZooKeeper, node string, move func(*backend), to ...*backend) {
	m.t.Helper()
	const tries = 50
	watcher := z.Watcher()
	took, floor := make([]time.Duration, tries), make([]time.Duration, tries)
	for i := range tries {
		next := to[i%len(to)]
		told := watcher.Node(node)
		begun := time.Now()
		move(next)
		for {
			a, err := m.ask(m.t.Context(), request{host: "web.zookeeper"})
			if err == nil && a.from(next.name) == nil {
				break
			}
			require.Less(m.t, time.Since(begun), longestWait)
		}
		took[i], floor[i] = time.Since(begun), (<-told).Sub(begun)
	}
	slices.Sort(took)
	slices.Sort(floor)
	m.t.Logf("from a change in ZooKeeper to Envoy's first answer: median %s, p95 %s; a client of ZooKeeper is told after %s, %s",
		took[tries/2], took[tries*95/100], floor[tries/2], floor[tries*95/100])
	require.Less(m.t, took[tries/2], time.Second)
}
