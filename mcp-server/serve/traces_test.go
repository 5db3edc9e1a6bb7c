package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/collector"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// traceID is the id of a revision's trace, as the database tells it.
func traceID(t *testing.T, database string, revision int64) (id string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT mesh.trace_id($1)", revision).Scan(&id))
	return id
}

// A client follows a relay, which follows the server with the database.
func TestATransactionIsATrace(t *testing.T) {
	t.Parallel()
	c, database := collector.New(t), pgtest.New(t)
	write(t, database, "a", "a.example")
	traces := tracing.Options{To: c.GRPC(), Share: 1}
	origin := launch(t, serve.Options{Database: database, Name: "origin", Traces: traces})
	o := relaying("", origin.MCP.String())
	o.Name, o.Traces = "relay", traces
	relay := launch(t, o)
	reader := connect(t, relay.MCP.String(), nil)
	reader.until(1)
	execute(t, database, `BEGIN; SET LOCAL application_name = 'test'; SET LOCAL mesh.message = 'faster';
		UPDATE mesh.resources SET spec = jsonb_set(spec, '{hosts,0}', '"new.example"') WHERE name = 'a'; COMMIT`)
	reader.until(2)

	spans := c.Await(t, traceID(t, database, 2), "postgres/commit", "mcp-server/publish", "mcp-server/relay", "mcp-server/send")
	poll.Eventually(t, func(context.Context) error {
		if spans = c.Spans(traceID(t, database, 2)); len(spans) < 5 {
			return fmt.Errorf("%d spans", len(spans))
		}
		return nil
	})
	commit := collector.Find(spans, "postgres/commit")
	require.Empty(t, commit.GetParentSpanId())
	require.Less(t, commit.GetStartTimeUnixNano(), commit.GetEndTimeUnixNano())
	about := map[string]string{}
	for _, key := range []string{"pgmesh.revision", "pgmesh.author", "pgmesh.application", "pgmesh.message", "pgmesh.resources", "pgmesh.kinds", "pgmesh.namespaces"} {
		about[key] = commit.Value(key)
	}
	require.Equal(t, map[string]string{
		"pgmesh.revision": "2", "pgmesh.author": "postgres", "pgmesh.application": "test", "pgmesh.message": "faster",
		"pgmesh.resources": "1", "pgmesh.kinds": "[ServiceEntry]", "pgmesh.namespaces": "[default]",
	}, about)
	var all []string
	for _, s := range spans {
		if s.Service != "postgres" {
			require.Equal(t, commit.GetSpanId(), s.GetParentSpanId())
		}
		client, _, _ := strings.Cut(strings.TrimPrefix(s.Value("pgmesh.client"), "sidecar~127.0.0.1~"), ".")
		all = append(all, strings.TrimSpace(s.Instance+" "+s.GetName()+" "+client))
	}
	require.ElementsMatch(t, []string{"commit", "origin publish", "origin send mcp-server", "relay relay", "relay send test"}, all)
	require.Empty(t, c.Spans(traceID(t, database, 1)), "nobody was sent that as a change")
}

// A client that is slow is sent several revisions as one.
func TestRevisionsThatTravelTogetherAreLinked(t *testing.T) {
	t.Parallel()
	c, database := collector.New(t), pgtest.New(t)
	write(t, database, "a", "a.example")
	server := launch(t, serve.Options{Database: database, Traces: tracing.Options{To: c.HTTP(), Share: 1}})
	reader := connect(t, server.MCP.String(), nil)
	reader.until(1)
	write(t, database, "b", "b.example")
	for _, name := range []string{"c", "d", "e"} {
		write(t, database, name, name+".example")
	}
	c.Await(t, traceID(t, database, 5), "mcp-server/publish")
	// Until it takes the next batch, the client accepts nothing.
	reader.until(5)
	last := collector.Find(c.Await(t, traceID(t, database, 5), "mcp-server/send"), "mcp-server/send")
	require.NotEmpty(t, last.Value("pgmesh.merged"))
	earlier := collector.Find(c.Await(t, traceID(t, database, 4), "mcp-server/send"), "mcp-server/send")
	require.Equal(t, "5", earlier.Value("pgmesh.travels_with"))
	require.Equal(t, last.GetSpanId(), earlier.GetLinks()[0].GetSpanId())
	require.Equal(t, last.GetTraceId(), earlier.GetLinks()[0].GetTraceId())
	links := last.GetLinks()
	require.Equal(t, earlier.GetTraceId(), links[len(links)-1].GetTraceId())
}

// The collector's socket is open, and nobody answers there.
func TestACollectorThatHangsKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	database := pgtest.New(t)
	write(t, database, "a", "a.example")
	server := launch(t, serve.Options{Database: database, Traces: tracing.Options{To: "grpc://" + silent.Addr().String(), Share: 1}})
	reader := connect(t, server.MCP.String(), nil)
	reader.until(1)
	write(t, database, "b", "b.example")
	require.Equal(t, []string{"b"}, reader.until(2))
	server.end()
}

func TestTracesThatCannotBeSent(t *testing.T) {
	t.Parallel()
	err := serve.Run(t.Context(), serve.Options{
		Database: "postgres://h/d", Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}, Plaintext: listen.Plaintext{Allowed: true}, Log: discard, Traces: tracing.Options{To: "collector:4317", Share: 1},
	}, func(serve.Addresses) { t.Error(errors.New("it runs")) })
	require.ErrorContains(t, err, `--traces-to "collector:4317": where to send traces is grpc://HOST:4317`)
}
