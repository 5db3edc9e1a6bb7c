package serve_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/store/feed"
)

var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// running is a server that was started.
type running struct {
	serve.Addresses
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

// launch starts a server. It ends with the test, or before.
func launch(t *testing.T, o serve.Options) *running {
	t.Helper()
	o.Plaintext.Allowed = !o.Security.TLS.Given()
	return start(t, o)
}

// start is launch that leaves it to the options how clients are spoken to.
func start(t *testing.T, o serve.Options) *running {
	t.Helper()
	o.Poll, o.Listen, o.HTTP.Address = 5*time.Second, cmp.Or(o.Listen, "127.0.0.1:0"), "127.0.0.1:0"
	o.Log = cmp.Or(o.Log, discard)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t: t, stop: stop, ended: make(chan error, 1)}
	started := make(chan serve.Addresses, 1)
	go func() { r.ended <- serve.Run(ctx, o, func(a serve.Addresses) { started <- a }) }()
	select {
	case r.Addresses = <-started:
	case err := <-r.ended:
		stop()
		t.Fatalf("the server has ended: %v", err)
	}
	t.Cleanup(r.end)
	return r
}

// end stops the server in good order, once.
func (r *running) end() {
	r.t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	require.NoError(r.t, <-r.ended)
}

// get returns what the server says at a path.
func (r *running) get(path string) (status int, text string) {
	r.t.Helper()
	answer, err := http.Get("http://" + r.HTTP.String() + path)
	require.NoError(r.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(r.t, err)
	return answer.StatusCode, string(body)
}

// One of several servers reverts an unconfirmed change, as soon as its time is over.
func TestServersRevertUnconfirmedRevisions(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	var servers []*running
	for range 3 {
		servers = append(servers, launch(t, serve.Options{Database: database}))
	}
	s := storetest.OpenURL(t, database)
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
	err = storetest.Feed(t, s).Follow(ctx, feed.At(0), func(b feed.Batch) error {
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
	for _, server := range servers { // also one whose work the others have done
		require.Eventually(t, func() bool {
			_, text := server.get("/metrics")
			return strings.Contains(text, "pgmesh_mcp_server_oldest_revision 1")
		}, limit, 10*time.Millisecond)
	}
}
