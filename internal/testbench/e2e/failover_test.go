package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// Several mcp-servers serve one database. Its primary is killed and its standby promoted. Every
// client ends up with what the standby has, whole revisions at a time.
func TestDatabaseFailsOver(t *testing.T) {
	t.Parallel()
	pair := pgtest.Replicated(t)
	writing := pair.URL("read-write")
	clients := []*reader{readFrom(t, newStack(t, writing)), readFrom(t, newStack(t, writing)), readFrom(t, newStack(t, writing))}
	for i := range 5 {
		commitPair(t, writing, fmt.Sprint("before-", i))
	}
	expectAll(clients, "before-4")
	pair.CaughtUp()

	pair.Sever()
	commitPair(t, writing, "lost")
	expectAll(clients, "lost")
	pair.Primary.Kill()
	pair.Promote()
	expectAll(clients, "before-4")
	commitPair(t, writing, "after") // with the number of the lost revision
	expectAll(clients, "after")
}

// commitPair writes the same label into two resources, in one transaction.
func commitPair(t *testing.T, url, label string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error { // right after a promotion the server may not accept writes
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, fmt.Sprintf(`INSERT INTO mesh.resources (kind, name, spec, labels)
			SELECT 'VirtualService', name, '{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}}]}]}', '{"change": "%s"}'
			FROM (VALUES ('one'), ('two')) AS r (name)
			ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET labels = EXCLUDED.labels`, label))
		return err
	})
}

// reader is a client of one mcp-server. It checks that two resources of a transaction arrive
// together.
type reader struct {
	t       *testing.T
	labels  map[string]string
	changes chan string
}

func readFrom(t *testing.T, control *stack.Stack) *reader {
	t.Helper()
	require.NoError(t, control.MCPServer.Start())
	require.NoError(t, control.MCPServer.Ready(t.Context()))
	kind, ok := kinds.Lookup("networking.istio.io", "VirtualService")
	require.True(t, ok)
	client := mcp.New(mcp.Config{
		Targets: []string{control.MCP}, Name: "test", Kinds: []*kinds.Kind{kind},
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	w := &reader{t: t, labels: map[string]string{}, changes: make(chan string, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx, w.apply) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return w
}

func (w *reader) apply(b kinds.Batch) error {
	for _, c := range b.Changes {
		w.labels[c.Key.Name] = c.Resource.Labels["change"]
	}
	if w.labels["one"] != w.labels["two"] {
		return errors.New("half a transaction")
	}
	w.changes <- w.labels["one"]
	return nil
}

func expectAll(clients []*reader, label string) {
	for _, w := range clients {
		for got := range w.changes {
			if got == label {
				break
			}
		}
	}
}
