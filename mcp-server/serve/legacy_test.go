package serve_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/legacy"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
	"github.com/pgmesh/pgmesh/store/sinks"
)

// sink is a server that wants to be dialled: it asks for virtual services, and accepts what it
// gets.
type sink struct {
	legacyv1.UnimplementedResourceSinkServer

	address string
	got     chan *legacyv1.Resources
	headers chan metadata.MD
}

func startSink(t *testing.T, options ...grpc.ServerOption) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &sink{address: l.Addr().String(), got: make(chan *legacyv1.Resources, 100), headers: make(chan metadata.MD, 100)}
	server := grpc.NewServer(options...)
	legacyv1.RegisterResourceSinkServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return s
}

func (s *sink) EstablishResourceStream(g grpc.BidiStreamingServer[legacyv1.Resources, legacyv1.RequestResources]) error {
	header, _ := metadata.FromIncomingContext(g.Context())
	s.headers <- header
	if _, err := g.Recv(); err != nil { // the trigger
		return err
	}
	request := &legacyv1.RequestResources{Collection: "istio/networking/v1alpha3/virtualservices"}
	for {
		if err := g.Send(request); err != nil {
			return err
		}
		r, err := g.Recv()
		if err != nil {
			return err
		}
		s.got <- r
		request = &legacyv1.RequestResources{Collection: r.GetCollection(), ResponseNonce: r.GetNonce()}
	}
}

func (s *sink) next(t *testing.T) *legacyv1.Resources {
	t.Helper()
	select {
	case r := <-s.got:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		return nil
	}
}

func TestSinksOfFlagsAndTableAreDialled(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	authority := certtest.NewAuthority(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	certtest.WriteFile(t, ca, authority.PEM)
	certificate := authority.Issue(nil, "spiffe://td/pilot").Certificate(t)
	secure := grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	ofFlag, ofTable, plain := startSink(t, secure), startSink(t, secure), startSink(t)

	server := launch(t, serve.Options{Database: database, Legacy: serve.Legacy{
		Sinks: []string{ofFlag.address}, SinkMeta: []string{"X-Team=shop"}, SinkTLS: tlsfiles.Client{CA: ca},
		Plaintext: listen.Plaintext{Allowed: true},
	}})
	require.Empty(t, ofFlag.next(t).GetResources())
	require.Equal(t, []string{"shop"}, (<-ofFlag.headers).Get("x-team"))

	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `INSERT INTO mesh.sinks (address, metadata, tls, server_id) VALUES
		($1, '{"x-team": "table"}', NULL, 'spiffe://td/pilot'), ($2, '{}', false, NULL), ('sink.example:9901', '{}', false, NULL)`, ofTable.address, plain.address)
	require.NoError(t, err)
	require.Empty(t, ofTable.next(t).GetResources())
	require.Equal(t, []string{"table"}, (<-ofTable.headers).Get("x-team"))
	require.Empty(t, plain.next(t).GetResources())

	_, err = conn.Exec(t.Context(), `INSERT INTO mesh.virtual_services (name, hosts, http) VALUES ('x', '{x}', '[{"route": [{"destination": {"host": "x"}}]}]')`)
	require.NoError(t, err)
	for _, s := range []*sink{ofFlag, ofTable, plain} {
		require.Len(t, s.next(t).GetResources(), 1)
	}

	var told struct {
		Dialled []legacy.SinkState
		Streams []legacy.Stream
	}
	_, text := server.get("/sinks")
	require.NoError(t, json.Unmarshal([]byte(text), &told))
	require.Len(t, told.Streams, 3)
	states := map[string]string{}
	for _, s := range told.Dialled {
		states[s.Address] = fmt.Sprint(s.Connected, s.Error)
	}
	require.Len(t, states, 4)
	require.Equal(t, "true", states[ofTable.address])
	require.Contains(t, states["sink.example:9901"], "false--sink-insecure alone is for sinks on loopback")
}

// A server that cannot reach a sink leaves it to one that can, and each shows what came of it at
// all.
func TestASinkIsDialledByTheServerThatReachesIt(t *testing.T) {
	t.Parallel()
	database, plain := pgtest.New(t), startSink(t)
	execute(t, database, "INSERT INTO mesh.sinks (address, tls) VALUES ('"+plain.address+"', false)")
	cut := launch(t, serve.Options{Database: database, Name: "cut-off", Poll: 50 * time.Millisecond, Legacy: serve.Legacy{LetGo: 100 * time.Millisecond}})
	type page struct{ Table []sinks.Status }
	shown := func(server *running) (p page) {
		_, text := server.get("/sinks")
		require.NoError(t, json.Unmarshal([]byte(text), &p))
		return p
	}
	require.Eventually(t, func() bool {
		p := shown(cut)
		return len(p.Table) == 1 && p.Table[0].LetGoAt != nil && strings.Contains(p.Table[0].Error, "--sink-insecure has to allow")
	}, time.Minute, 20*time.Millisecond)

	able := launch(t, serve.Options{Database: database, Name: "able", Poll: 50 * time.Millisecond, Legacy: serve.Legacy{Plaintext: listen.Plaintext{Allowed: true}}})
	plain.next(t)
	for _, server := range []*running{cut, able} {
		require.Eventually(t, func() bool {
			all := shown(server).Table
			return len(all) == 2 && strings.HasPrefix(all[0].Server, "able ") && all[0].Dials && all[0].Connected &&
				strings.HasPrefix(all[1].Server, "cut-off ") && !all[1].Dials && all[1].Error != ""
		}, time.Minute, 20*time.Millisecond)
	}
}

func TestFlagsOfSinksThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for says, l := range map[string]serve.Legacy{
		"--legacy-max-message 10: hardly a resource would fit":        {MaxMessage: 10},
		"--sink pilot: write host:port":                               {Sinks: []string{"pilot"}},
		"--sink-meta: write name=value":                               {SinkMeta: []string{"secret"}},
		"--sink pilot:1: --sink-insecure alone is for sinks on loop":  {Sinks: []string{"pilot:1"}, Plaintext: listen.Plaintext{Allowed: true}},
		"--sink pilot:1: authorities of the server: open /nowhere":    {Sinks: []string{"pilot:1"}, SinkTLS: tlsfiles.Client{CA: "/nowhere"}},
		"a certificate and its key belong together: give --tls-cert ": {Sinks: []string{"pilot:1"}, SinkTLS: tlsfiles.Client{Cert: "x"}},
	} {
		err := serve.Run(t.Context(), serve.Options{Database: "postgres://", Legacy: l, Log: discard}, nil)
		require.ErrorContains(t, err, says)
	}
}
