package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// with replaces names in a text: with(text, "NAME", value, …).
func with(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

func TestWebSocketsPass(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	upgrading := newBackend(t, "v1", func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Header.Get("Upgrade") == "websocket" {
			echoUpgraded(t, w)
		}
		return r.Header.Get("Upgrade") == "websocket"
	})
	m.commit(m.service(reviews, upgrading), virtualService(reviews, `
http: [{match: [{uri: {prefix: /socket}}], timeout: 100ms, route: [{destination: {host: reviews.mesh}}]}]
`))
	m.listening()

	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address(m.port))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", reviews)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // an upgraded connection has none
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	for _, line := range []string{"hello\n", "again\n"} {
		_, err = io.WriteString(conn, line)
		require.NoError(t, err)
		heard, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, line, heard)
	}
}

// echoUpgraded accepts a WebSocket, and echoes the bytes.
func echoUpgraded(t testing.TB, w http.ResponseWriter) {
	t.Helper()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(conn, buffered) // ends with the client
}

func TestHTTP2StaysHTTP2(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	m.commit(entry(reviews, "HTTP2", "http", m.port, []string{endpoint("v1", "http", portOf(t, server.Listener))}))
	m.listening()

	require.Equal(t, "HTTP/2.0", m.must(request{host: reviews}).body, "also for a client that speaks HTTP/1.1")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	a, err := send(t.Context(), &http.Client{Transport: transport}, address(m.port), request{host: reviews})
	require.NoError(t, err)
	require.Equal(t, "HTTP/2.0", a.body)
}

func TestCallsOfGRPCAreRoutedByMethod(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	l := listen(t)
	server, state := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, state)
	state.SetServingStatus("library", grpc_health_v1.HealthCheckResponse_SERVING)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	m.commit(entry("grpc.mesh", "GRPC", "grpc", m.port, []string{endpoint("v1", "grpc", portOf(t, l))}), virtualService("grpc.mesh", `
http:
- {match: [{uri: {exact: /grpc.health.v1.Health/List}}], fault: {abort: {grpcStatus: PERMISSION_DENIED, percentage: {value: 100}}}, route: [{destination: {host: grpc.mesh}}]}
- {match: [{uri: {prefix: /grpc.health.v1.Health/}}], route: [{destination: {host: grpc.mesh}}]}
`))
	m.listening()
	conn, err := grpc.NewClient("passthrough:///"+address(m.port), grpc.WithAuthority("grpc.mesh"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	client := grpc_health_v1.NewHealthClient(conn)

	answer, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "library"})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus())
	_, err = client.List(t.Context(), &grpc_health_v1.HealthListRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)

	watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "library"})
	require.NoError(t, err)
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
		grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	} {
		seen, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, want, seen.GetStatus())
		state.SetServingStatus("library", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
}

// TestTLSIsRoutedByServerName has services that share an address and a port, with a rule for one.
// An unknown name goes to the oldest.
func TestTLSIsRoutedByServerName(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	port := newPort(t)
	service := func(host, backend string) string {
		return entry(host, "TLS", "tls", port, []string{endpoint("v1", "tls", newTLSServer(t, backend))})
	}
	m.commit(service("first.mesh", "first"), service("second.mesh", "second"), service("third.mesh", "third"), `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: third}
spec:
  hosts: [third.mesh, '*.third.mesh']
  tls:
  - {match: [{sniHosts: [third.mesh]}], route: [{destination: {host: first.mesh}, weight: 0}, {destination: {host: second.mesh}, weight: 100}]}
  - {match: [{sniHosts: ['*.third.mesh']}], route: [{destination: {host: third.mesh}}]}
`)
	for name, want := range map[string]string{"first.mesh": "first", "second.mesh": "second", "third.mesh": "second", "deep.third.mesh": "third", "nobody.mesh": "first"} {
		eventually(t, func(ctx context.Context) error {
			got, err := tlsServer(ctx, address(port), name)
			if err == nil && got != want {
				err = fmt.Errorf("%s: reached %s, want %s", name, got, want)
			}
			return err
		})
	}
}

// newTLSServer answers HTTP inside TLS with its name. It returns its port.
func newTLSServer(t testing.TB, name string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(server.Close)
	return portOf(t, server.Listener)
}

// tlsServer is who answers at an address for a server name.
func tlsServer(ctx context.Context, address, name string) (string, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} // the test asks who answers
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// TestHostsAreResolvedAsTheyAreAskedFor has one entry for all names under localhost, which every
// machine knows.
func TestHostsAreResolvedAsTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	one, two := newBackend(t, "one", nil), newBackend(t, "two", nil)
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dynamic}
spec:
  hosts: ['*.localhost']
  location: MESH_EXTERNAL
  resolution: DYNAMIC_DNS
  ports: [{number: %s, name: http, protocol: HTTP}]
`, m.port))
	m.listening()

	require.NoError(t, m.must(request{host: "any.localhost:" + one.port}).from("one"))
	require.NoError(t, m.must(request{host: "other.localhost:" + two.port}).from("two"))
}
