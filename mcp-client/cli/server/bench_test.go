package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

func TestBench(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	out := m.OK("bench", "--clients", "5", "--changes", "3")
	require.Regexp(t, `(?m)^clients +5\nstate of each +6 resources, [\d.]+ kB$`, out)
	require.Regexp(t, `(?m)^ +P50 +P90 +P99 +MAX\nwhole state +[\d.]+ ms .*\ncommit .*\nchange at a client .*\nchange at all clients +[\d.]+ ms`, out)
	require.Equal(t, 6, m.Stored(), "what was written is removed")
	require.Equal(t, "2 3", m.OK("bench", "--clients", "2", "--kind", "vs", "-o", "jsonpath={.clients} {.resources}"))
	var revisions int
	m.Query("SELECT count(*) FROM mesh.revisions WHERE message = 'mcp-client bench'", &revisions)
	require.Equal(t, 4, revisions)
	for _, args := range [][]string{{"bench", "--clients", "0"}, {"bench", "--changes=-1"}, {"bench", "--kind", "nothing"}, {"bench", "x"}} {
		require.Equal(t, 2, m.Run(args...).Code, args)
	}
	require.Equal(t, 4, clitest.Run(t.Context(), "", nil, "bench", "--server", "127.0.0.1:1", "--insecure").Code)
}

// Clients that a server lets in one after the other wait as it says.
func TestABenchmarkWaitsForAServerThatLetsInOnlySoMany(t *testing.T) {
	t.Parallel()
	server, _ := clitest.Launch(t, serve.Options{Database: pgtest.New(t), Security: serve.Security{Limits: limits.Options{Rate: 20, Burst: 5}}})
	require.Zero(t, clitest.At(t, server, "get", "vs").Code)
	r := clitest.At(t, server, "bench", "--clients", "30", "--kind", "vs")
	require.Zero(t, r.Code, r.Err)
	require.True(t, strings.HasPrefix(strings.Join(strings.Fields(r.Out), " "), "clients 30 "), r.Out)

	closed, _ := clitest.Launch(t, serve.Options{Database: pgtest.New(t), Security: serve.Security{Limits: limits.Options{Rate: 0.001, Burst: 2}}})
	r = clitest.At(t, closed, "bench", "--clients", "5", "--kind", "vs")
	require.NotZero(t, r.Code)
	require.Contains(t, r.Err, "--max-call-rate")
}
