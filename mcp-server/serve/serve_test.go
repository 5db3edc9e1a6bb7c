package serve_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// run starts a server of a database, and returns where it tells of itself.
func run(t *testing.T, database string) (web string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	o := serve.Options{
		Database: database, Poll: 5 * time.Second, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		Plaintext: listen.Plaintext{Allowed: true}, Log: slog.New(slog.DiscardHandler),
	}
	go func() { ended <- serve.Run(ctx, o, func(a serve.Addresses) { started <- a }) }()
	select {
	case a := <-started:
		web = "http://" + a.HTTP.String()
	case err := <-ended:
		cancel()
		t.Fatalf("the server has ended: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return web
}

// Of several servers one takes back what nobody confirmed, as soon as the time is over.
func TestServersRevertWhatNobodyConfirms(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	var webs []string
	for range 3 {
		webs = append(webs, run(t, database))
	}
	s, err := store.Open(t.Context(), database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for i := range 3 {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(`BEGIN; SELECT mesh.commit_confirmed('100 milliseconds');
			INSERT INTO mesh.resources (kind, name, spec) VALUES ('ServiceEntry', 'x-%d', '{"hosts": ["x%[1]d.example"],
				"ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}'); COMMIT`, i))
		require.NoError(t, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := map[string]int{}
	err = s.Follow(ctx, store.At(0), func(b store.Batch) error {
		if seen[b.Message]++; b.Revision == 6 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, map[string]int{
		"": 3,
		"revert of revision 1: not confirmed within 100 milliseconds": 1,
		"revert of revision 2: not confirmed within 100 milliseconds": 1,
		"revert of revision 3: not confirmed within 100 milliseconds": 1,
	}, seen)
	for _, web := range webs {
		answer, err := http.Get(web + "/metrics")
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Contains(t, string(text), "pgmesh_mcp_server_oldest_revision 1")
	}
}
