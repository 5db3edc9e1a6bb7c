package dial_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo records the authorization header of each call.
type echo struct {
	healthv1.UnimplementedHealthServer

	headers chan []string
}

func (e *echo) Check(ctx context.Context, _ *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	m, _ := metadata.FromIncomingContext(ctx)
	e.headers <- m.Get("authorization")
	return &healthv1.HealthCheckResponse{}, nil
}

func serve(t *testing.T, opts ...grpc.ServerOption) (address string, headers chan []string) {
	t.Helper()
	s, e := grpc.NewServer(opts...), &echo{headers: make(chan []string, 10)}
	healthv1.RegisterHealthServer(s, e)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return l.Addr().String(), e.headers
}

func call(t *testing.T, o dial.Options, address string) error {
	t.Helper()
	c, err := o.To(nil, address)
	require.NoError(t, err)
	conn, err := grpc.NewClient(address, c.DialOptions()...)
	require.NoError(t, err)
	defer conn.Close()
	_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	return err
}

func TestTokenIsSentWithEachCall(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	address, headers := serve(t, grpc.Creds(credentials.NewServerTLSFromCert(ref(a.Issue(nil).Certificate(t)))))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	certtest.WriteFile(t, ca, a.PEM)

	require.NoError(t, call(t, dial.Options{TLS: tlsfiles.Client{CA: ca}}, address))
	require.Empty(t, <-headers)
	require.NoError(t, call(t, dial.Options{TLS: tlsfiles.Client{CA: ca}, Token: "pgmesh_abc"}, address))
	require.Equal(t, []string{"Bearer pgmesh_abc"}, <-headers)
	require.ErrorContains(t, call(t, dial.Options{}, address), "certificate signed by unknown authority")
	require.ErrorContains(t, call(t, dial.Options{Plaintext: listen.Plaintext{Allowed: true}}, address), "EOF", "plaintext to a server with TLS")
}

func ref(c tls.Certificate) *tls.Certificate { return &c }

func TestTokenFileIsReloaded(t *testing.T) {
	t.Parallel()
	address, headers := serve(t)
	file := filepath.Join(t.TempDir(), "token")
	certtest.WriteFile(t, file, []byte("first\n"))
	c, err := (&dial.Options{TokenFile: file, Plaintext: listen.Plaintext{Allowed: true}}).To(nil, address)
	require.NoError(t, err)
	conn, err := grpc.NewClient(address, c.DialOptions()...)
	require.NoError(t, err)
	defer conn.Close()
	ask := func() string {
		_, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
		return (<-headers)[0]
	}
	require.Equal(t, "Bearer first", ask())
	certtest.WriteFile(t, file, []byte("second\n"))
	require.Eventually(t, func() bool { return ask() == "Bearer second" }, 20*time.Second, 50*time.Millisecond)
}

func TestConflictingFlagsAreRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	certtest.WriteFile(t, empty, []byte("\n"))
	insecure := listen.Plaintext{Allowed: true}
	for says, o := range map[string]dial.Options{
		"--insecure and the flags for TLS exclude each other": {Plaintext: insecure, TLS: tlsfiles.Client{CA: "ca.pem"}},
		"--token and --token-file: give one of them":          {Plaintext: insecure, Token: "a", TokenFile: "b"},
		"token: open /nowhere":                                {Plaintext: insecure, TokenFile: "/nowhere"},
		"there has to be one token in it":                     {Plaintext: insecure, TokenFile: empty},
		"authorities of the server: open ca.pem":              {TLS: tlsfiles.Client{CA: "ca.pem"}},
	} {
		_, err := o.To(nil, "127.0.0.1:1")
		require.ErrorContains(t, err, says)
	}
	_, err := (&dial.Options{Plaintext: insecure}).To(nil, "127.0.0.1:1", "192.0.2.1:1")
	require.ErrorContains(t, err, "--insecure alone is for servers on loopback")
	_, err = (&dial.Options{TokenFile: empty}).To(nil, "127.0.0.1:1")
	require.ErrorContains(t, err, empty)
	require.NotErrorIs(t, err, os.ErrNotExist)
}
