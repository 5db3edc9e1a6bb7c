package upstream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/kit/version"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// replica is a discovery that records its callers.
type replica struct {
	*health.Server

	address string
	server  *grpc.Server
	came    chan *x509.Certificate
}

func serve(t *testing.T, options ...grpc.ServerOption) *replica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &replica{Server: health.NewServer(), address: listener.Addr().String(), server: grpc.NewServer(options...), came: make(chan *x509.Certificate, 100)}
	healthv1.RegisterHealthServer(r.server, r)
	served := make(chan struct{})
	go func() { defer close(served); _ = r.server.Serve(listener) }()
	t.Cleanup(func() { r.server.Stop(); <-served })
	return r
}

func (r *replica) Watch(request *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	p, _ := peer.FromContext(stream.Context())
	var shown *x509.Certificate
	if tls, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		shown = tls.State.PeerCertificates[0]
	}
	r.came <- shown
	return r.Server.Watch(request, stream)
}

func dial(t *testing.T, o upstream.Options) *upstream.Upstream {
	t.Helper()
	u, err := upstream.Dial(o)
	require.NoError(t, err)
	t.Cleanup(u.Close)
	return u
}

// watch opens a stream, which waits for a connection.
func watch(t *testing.T, u *upstream.Upstream) healthv1.Health_WatchClient {
	t.Helper()
	stream, err := healthv1.NewHealthClient(u).Watch(t.Context(), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	return stream
}

func awaitStatus(t *testing.T, u *upstream.Upstream, is func(upstream.Status) bool) upstream.Status {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		s, changed := u.Status()
		if is(s) {
			return s
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("it did not come about: %+v", s)
		}
	}
}

func connected(s upstream.Status) bool { return s.Connected }
func away(s upstream.Status) bool      { return !s.Connected && s.Error != nil }

func TestAnotherReplicaTakesOverAtOnce(t *testing.T) {
	t.Parallel()
	all := map[string]*replica{}
	var addresses []string
	for range 3 {
		r := serve(t)
		all[r.address] = r
		addresses = append(addresses, r.address)
	}
	metrics := prometheus.NewRegistry()
	u := dial(t, upstream.Options{Addresses: addresses, Credentials: upstream.Insecure, Metrics: metrics})
	stream := watch(t, u)
	first, _ := u.Status()
	require.True(t, first.Connected)
	require.NoError(t, first.Error)
	<-all[first.Address].came

	began := time.Now()
	all[first.Address].server.Stop()
	_, err := stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	watch(t, u)
	took := time.Since(began)
	second, _ := u.Status()
	require.NotEqual(t, first.Address, second.Address)
	require.Less(t, took, 2*time.Second)
	t.Logf("took over after %s", took)
	require.True(t, second.Connected)
	require.Equal(t, first.First, second.First)
	require.ErrorContains(t, second.Error, "discovery at "+first.Address)
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP pgmesh_mesh_agent_discovery_connected 1 while there is a connection to a discovery.
# TYPE pgmesh_mesh_agent_discovery_connected gauge
pgmesh_mesh_agent_discovery_connected 1
# HELP pgmesh_mesh_agent_discovery_reconnects_total Connections to a discovery that were made after the first: it went away, another took its place, or the certificate was renewed.
# TYPE pgmesh_mesh_agent_discovery_reconnects_total counter
pgmesh_mesh_agent_discovery_reconnects_total 1
`), "pgmesh_mesh_agent_discovery_connected", "pgmesh_mesh_agent_discovery_reconnects_total"))
}

func TestCallsSayTheVersionOfTheAgent(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1)
	r := serve(t, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		said <- version.OfPeer(stream.Context(), "mesh-agent")
		return next(srv, stream)
	}))
	watch(t, dial(t, upstream.Options{Addresses: []string{r.address}, Credentials: upstream.Insecure}))
	require.Equal(t, version.Program(), <-said)
}

func TestCallsFailFastUnlessTheyWait(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	u := dial(t, upstream.Options{Addresses: []string{address, "no-such-name.invalid:15012"}, Credentials: upstream.Insecure})
	_, err = healthv1.NewHealthClient(u).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.ErrorIs(t, err, upstream.ErrUnreachable)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "discovery cannot be reached at "+address+": connection refused; discovery cannot be reached at no-such-name.invalid:15012: ")
	awaitStatus(t, u, away)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = healthv1.NewHealthClient(u).Check(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.ErrorIs(t, err, upstream.ErrUnreachable)

	called := make(chan error, 1)
	go func() {
		_, err := healthv1.NewHealthClient(u).Check(t.Context(), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
		called <- err
	}()
	listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	server := grpc.NewServer()
	healthv1.RegisterHealthServer(server, health.NewServer())
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	require.NoError(t, <-called)
	awaitStatus(t, u, connected)
	server.GracefulStop()
	served.Wait()
}

// A discovery that shuts down gracefully, or asks its clients to reconnect, lets open streams
// continue.
func TestGracefulShutdownKeepsStreams(t *testing.T) {
	t.Parallel()
	aging := keepalive.ServerParameters{MaxConnectionAge: 300 * time.Millisecond}
	r := serve(t, grpc.KeepaliveParams(aging))
	u := dial(t, upstream.Options{Addresses: []string{r.address}, Credentials: upstream.Insecure})
	stream := watch(t, u)
	first, _ := u.Status()
	client := healthv1.NewHealthClient(u)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
	}
	s := awaitStatus(t, u, connected)
	require.True(t, s.Since.After(first.Since), "there was another connection meanwhile")
	require.NoError(t, s.Error, "and never none")
	for s = awaitStatus(t, u, connected); ; { // without new calls no other connection is needed, however old the streams become
		now, changed := u.Status()
		select {
		case <-changed:
			require.Less(t, now.Since.Sub(s.Since), time.Second)
			continue
		case <-time.After(5 * aging.MaxConnectionAge):
		}
		break
	}
	r.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, answer.GetStatus())
}

// pipe forwards bytes to a replica until it is told to fall silent.
type pipe struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func silent(t *testing.T, to string) *pipe {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &pipe{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, a, b)
			p.mu.Unlock()
			all.Go(func() { pass(a, b) })
			all.Go(func() { pass(b, a) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		for _, c := range p.conns {
			c.Close()
		}
		all.Wait()
	})
	return p
}

func pass(from, to net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if errors.Is(err, net.ErrClosed) || err != nil && !isTimeout(err) {
			return
		}
		if err != nil {
			return // fall silent
		}
		_, _ = to.Write(buffer[:n])
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func (p *pipe) hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

func TestKeepaliveNoticesAVanishedReplica(t *testing.T) {
	t.Parallel()
	p := silent(t, serve(t).address)
	log := &lockedBuffer{}
	u := dial(t, upstream.Options{Addresses: []string{p.Addr().String()}, Credentials: upstream.Insecure, Log: slog.New(slog.NewTextHandler(log, nil))})
	stream := watch(t, u)
	p.Close() // new connections are refused
	p.hush()
	began := time.Now()
	_, err := stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Less(t, time.Since(began), 25*time.Second)
	awaitStatus(t, u, away)
	require.Contains(t, log.String(), "has not answered for")
}

func member(t *testing.T, d *jointest.Discovery) *membership.Membership {
	t.Helper()
	o := membership.Options{Folder: filepath.Join(t.TempDir(), "state"), Is: join.IsMachine, Spread: time.Millisecond}
	m, err := membership.Join(t.Context(), o, join.ByToken([]string{d.Address}, d.Token("shop", "cart", 1, 0)))
	require.NoError(t, err)
	return m
}

// A stream ends with the connection that shows the old certificate, but there is always a
// connection.
func TestNewCertificateNeedsANewConnection(t *testing.T) {
	t.Parallel()
	r := &replica{Server: health.NewServer(), came: make(chan *x509.Certificate, 100)}
	d := jointest.New(t, "mesh.example", time.Hour, func(s grpc.ServiceRegistrar) { healthv1.RegisterHealthServer(s, r) })
	m := member(t, d)
	log := &lockedBuffer{}
	u := dial(t, upstream.Options{Addresses: []string{d.Address}, Credentials: upstream.Member(m), Log: slog.New(slog.NewTextHandler(log, nil))})
	stream := watch(t, u)
	first := <-r.came
	require.Equal(t, m.Current().Certificate.Leaf.SerialNumber, first.SerialNumber)
	before, _ := u.Status()
	require.Equal(t, "eu-1", before.Discovery)

	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = m.Run(ctx, join.ByCertificate(u, "")) })
	defer func() { cancel(); run.Wait() }()
	run.Go(func() { _ = join.Follow(ctx, u, m, slog.New(slog.DiscardHandler)) })
	d.Rotate() // makes the machine renew its certificate
	s := awaitStatus(t, u, func(s upstream.Status) bool { return s.Since.After(before.Since) })
	require.True(t, s.Connected)
	require.NoError(t, s.Error, "there was never none")
	watch(t, u)
	require.NotEqual(t, first.SerialNumber, (<-r.came).SerialNumber)
	_, err := stream.Recv()
	require.Error(t, err)
	require.NotContains(t, log.String(), "WARN")
}

// If no replica accepts a new connection, the one with the old certificate stays in use.
func TestOldConnectionStaysUntilReplaced(t *testing.T) {
	t.Parallel()
	pki := certtest.NewAuthority(t)
	r := serve(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pki.Issue(nil, "spiffe://mesh.example/pgmesh/discovery/a").Certificate(t)}})))
	p := silent(t, r.address)
	renewed := make(chan struct{})
	u := dial(t, upstream.Options{Addresses: []string{p.Addr().String()}, Credentials: &upstream.Credentials{
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error { return nil }},
		Outdated: func(ctx context.Context) func() {
			return func() {
				select {
				case <-renewed:
				case <-ctx.Done():
				}
			}
		},
	}})
	client := healthv1.NewHealthClient(u)
	_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
	require.NoError(t, err)
	p.Close()
	close(renewed)
	s := awaitStatus(t, u, func(s upstream.Status) bool { return s.Error != nil })
	require.True(t, s.Connected)
	_, err = client.Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func TestCredentialsFromFiles(t *testing.T) {
	t.Parallel()
	pki, folder := certtest.NewAuthority(t), t.TempDir()
	cert, key := pki.Issue(nil, "spiffe://mesh.example/ns/shop/sa/cart").Write(t, folder)
	roots := filepath.Join(folder, "roots.pem")
	certtest.WriteFile(t, roots, pki.PEM)
	shows := func(id string) grpc.ServerOption {
		return grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pki.Issue(nil, id).Certificate(t)}, ClientCAs: pki.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		}))
	}
	c, err := upstream.Files(cert, key, roots, nil)
	require.NoError(t, err)
	good := serve(t, shows("spiffe://mesh.example/pgmesh/discovery/a"))
	u := dial(t, upstream.Options{Addresses: []string{good.address}, Credentials: c})
	watch(t, u)
	first := <-good.came

	pki.Issue(nil, "spiffe://mesh.example/ns/shop/sa/cart").Write(t, folder)
	before, _ := u.Status()
	awaitStatus(t, u, func(s upstream.Status) bool { return s.Since.After(before.Since) })
	watch(t, u)
	require.NotEqual(t, first.SerialNumber, (<-good.came).SerialNumber)

	for want, other := range map[string]*replica{
		"has to be a discovery of this mesh": serve(t, shows("spiffe://mesh.example/ns/shop/sa/cart")),
		"does not speak TLS":                 serve(t),
		"does not accept this machine's certificate": serve(t, grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pki.Issue(nil, "spiffe://mesh.example/pgmesh/discovery/a").Certificate(t)},
			ClientCAs:    certtest.NewAuthority(t).Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		}))),
	} {
		s := awaitStatus(t, dial(t, upstream.Options{Addresses: []string{other.address}, Credentials: c}), away)
		require.ErrorContains(t, s.Error, want)
		require.Empty(t, other.came)
	}
	s := awaitStatus(t, dial(t, upstream.Options{Addresses: []string{good.address}, Credentials: upstream.Insecure}), away)
	require.ErrorContains(t, s.Error, "do both speak TLS, or both --insecure?")
}

func TestAddressesWithoutAPort(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"mesh.example": "mesh.example:15012", "mesh.example:1": "mesh.example:1", "10.0.0.7": "10.0.0.7:15012", "fd00::7": "[fd00::7]:15012", "[fd00::7]": "[fd00::7]:15012",
		"[fd00::7]:1": "[fd00::7]:1", "http://mesh.example": "http://mesh.example", "mesh.example/": "mesh.example/", "mesh.example:": "mesh.example:", "": "",
	} {
		s := upstream.Servers{Addresses: []string{"other:1", address}}
		s.AssumePort("15012")
		require.Equal(t, []string{"other:1", want}, s.Addresses)
	}
}

func TestInvalidAddresses(t *testing.T) {
	t.Parallel()
	for _, wrong := range [][]string{nil, {"discovery"}, {"a:1", ":15012"}, {"a:"}} {
		_, err := upstream.Dial(upstream.Options{Addresses: wrong, Credentials: upstream.Insecure})
		require.Error(t, err)
	}
}
