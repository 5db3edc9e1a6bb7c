package cli_test

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// launched starts a server of any sort, and returns where it answers, and what ends it.
func launched(t *testing.T, o serve.Options) (address string, stop func()) {
	t.Helper()
	o.Listen, o.HTTP, o.Plaintext, o.Log = "127.0.0.1:0", "127.0.0.1:0", listen.Plaintext{Allowed: true}, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() { ended <- serve.Run(ctx, o, func(a serve.Addresses) { started <- a }) }()
	stop = func() {
		cancel()
		require.NoError(t, <-ended)
		ended <- nil
	}
	t.Cleanup(stop)
	select {
	case a := <-started:
		return a.MCP.String(), stop
	case err := <-ended:
		ended <- err
		t.Fatalf("starting the server: %v", err)
		return "", nil
	}
}

// at runs a command with a server.
func at(t *testing.T, address string, args ...string) result {
	t.Helper()
	return run(t.Context(), "", nil, append(args, "--server", address, "--insecure")...)
}

// A relay tells how it fares, also when its upstream is gone.
func TestTheStatusOfARelay(t *testing.T) {
	t.Parallel()
	origin, stop := launched(t, serve.Options{Database: pgtest.New(t)})
	relay, _ := launched(t, serve.Options{Upstream: serve.Upstream{Addresses: []string{origin}}})
	require.Zero(t, at(t, relay, "get", "vs").code) // it serves
	r := at(t, relay, "status")
	require.Zero(t, r.code, r.err)
	require.Regexp(t, `source +upstream, connected for`, r.out)
	require.Contains(t, r.out, "version")

	denied := at(t, relay, "problems")
	require.NotZero(t, denied.code)
	require.Contains(t, denied.err, "this server is a relay", "nothing else was opened")

	stop()
	require.Eventually(t, func() bool { r = at(t, relay, "status"); return r.code == 1 }, time.Minute, 20*time.Millisecond)
	require.Regexp(t, `source +upstream, not connected for`, r.out)
	require.Contains(t, r.err, "has lost its source")
}

// A server that was started without its database tells what it serves, and since when.
func TestTheStatusOfAServerThatServesItsFile(t *testing.T) {
	t.Parallel()
	postgres, dir := pgtest.Server(t), t.TempDir()
	o := serve.Options{Database: postgres.URL, StateDir: dir}
	first, stop := launched(t, o)
	require.Zero(t, at(t, first, "get", "vs").code)
	stop()
	postgres.Stop()

	second, _ := launched(t, o)
	require.Zero(t, at(t, second, "get", "vs").code)
	r := at(t, second, "status")
	require.Equal(t, 1, r.code, r.err)
	require.Regexp(t, `source +file, not connected .*; what is served was saved .* ago`, r.out)
	require.Contains(t, r.err, "has lost its source")
	require.NotContains(t, r.out, "\nmesh ")
}

// Of sinks is told what came of them, at all servers that have tried.
func TestTheStatusOfSinks(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	pilot := serveGRPC(t, func(s *grpc.Server) { legacyv1.RegisterResourceSinkServer(s, taking{}) })
	const gone = "127.0.0.1:1"
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "INSERT INTO mesh.sinks (address, tls) VALUES ($1, false)", pilot)
	require.NoError(t, err)
	server, _ := launched(t, serve.Options{Database: database, Name: "one", Poll: 50 * time.Millisecond, Legacy: serve.Legacy{
		Sinks: []string{gone}, Plaintext: listen.Plaintext{Allowed: true},
	}})
	var r result
	require.Eventually(t, func() bool {
		r = at(t, server, "status")
		return r.code == 0 && strings.Contains(r.out, "refused") && regexp.MustCompile(`(?m)^sinks +2, 1 connected$`).MatchString(r.out)
	}, time.Minute, 20*time.Millisecond, "%v", &r)
	require.Regexp(t, `(?m)^SINK +SERVER +STATE +SINCE +ERROR$`, r.out)
	require.Regexp(t, `(?m)^`+pilot+` +one \S{4} +connected +\d+s +-$`, r.out)
	require.Regexp(t, `(?m)^`+gone+` +one \S{4} +not connected +\d+s +.*refused`, r.out)
	require.Equal(t, pilot+" true false\n"+gone+" false true\n",
		at(t, server, "status", "-o", `jsonpath={range .sinks[*]}{.address} {.connected} {.ofFlags}{"\n"}{end}`).out)
}

// taking is a sink that asks for one collection, and takes what it is sent without a word.
type taking struct {
	legacyv1.UnimplementedResourceSinkServer
}

func (taking) EstablishResourceStream(g grpc.BidiStreamingServer[legacyv1.Resources, legacyv1.RequestResources]) error {
	if _, err := g.Recv(); err != nil { // the trigger
		return err
	}
	if err := g.Send(&legacyv1.RequestResources{Collection: "istio/networking/v1alpha3/virtualservices"}); err != nil {
		return err
	}
	<-g.Context().Done()
	return nil
}

// Clients that a server lets in one after the other wait as it says.
func TestABenchmarkWaitsForAServerThatLetsInOnlySoMany(t *testing.T) {
	t.Parallel()
	server, _ := launched(t, serve.Options{Database: pgtest.New(t), Security: serve.Security{Limits: limits.Options{Rate: 20, Burst: 5}}})
	require.Zero(t, at(t, server, "get", "vs").code)
	r := at(t, server, "bench", "--clients", "30", "--kind", "vs")
	require.Zero(t, r.code, r.err)
	require.True(t, strings.HasPrefix(strings.Join(strings.Fields(r.out), " "), "clients 30 "), r.out)

	closed, _ := launched(t, serve.Options{Database: pgtest.New(t), Security: serve.Security{Limits: limits.Options{Rate: 0.001, Burst: 2}}})
	r = at(t, closed, "bench", "--clients", "5", "--kind", "vs")
	require.NotZero(t, r.code)
	require.Contains(t, r.err, "--max-call-rate")
}
