package sds_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sds"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// shortFolder returns a folder with a path short enough for a socket.
func shortFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "sds")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// serve serves secrets until the test ends, and returns the socket.
func serve(t *testing.T, s *sds.Server, m *membership.Membership) string {
	t.Helper()
	path := filepath.Join(shortFolder(t), "socket")
	socket, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer()
	s.Register(server)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { _ = server.Serve(socket) })
	wait.Go(func() { _ = s.Run(ctx) })
	if m != nil {
		wait.Go(func() { _ = s.Member(ctx, m) })
	}
	t.Cleanup(func() { server.Stop(); cancel(); wait.Wait() })
	return path
}

// member is a machine of a mesh that renews its certificate on demand.
func member(t *testing.T, d *jointest.Discovery) *membership.Membership {
	t.Helper()
	o := membership.Options{Folder: filepath.Join(t.TempDir(), "state")}
	m, err := membership.Join(t.Context(), o, join.ByToken([]string{d.Address}, d.Token("shop", "cart", 1, 0)))
	require.NoError(t, err)
	return m
}

// envoy listens with mutual TLS as discovery configures it: with SDS names, and the identities that
// may connect.
const envoy = `{
  "node": {"id": "a", "cluster": "a"},
  "static_resources": {
    "listeners": [{
      "name": "in", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
      "filter_chains": [{
        "transport_socket": {"name": "tls", "typed_config": {
          "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
          "require_client_certificate": true,
          "common_tls_context": {
            "tls_params": {"tls_maximum_protocol_version": "%[2]s"},
            "tls_certificate_sds_secret_configs": [%[3]s],
            "combined_validation_context": {
              "default_validation_context": {"match_subject_alt_names": [{"prefix": "spiffe://mesh.example/"}, {"prefix": "spiffe://other.example/"}]},
              "validation_context_sds_secret_config": %[4]s
            }
          }
        }},
        "filters": [{"name": "http", "typed_config": {
          "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
          "stat_prefix": "in",
          "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]},
          "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]
        }}]
      }]
    }],
    "clusters": [{
      "name": "sds-grpc", "type": "STATIC",
      "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}}
      }},
      "load_assignment": {"cluster_name": "sds-grpc", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": "%[1]s"}}}}]}]}
    }]
  }
}`

func secretConfig(name, form string) string {
	return fmt.Sprintf(`{"name": %q, "sds_config": {"resource_api_version": "V3", "initial_fetch_timeout": "0s", "api_config_source": {
	  "api_type": %q, "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}]}}}`, name, form)
}

func bootstrap(t *testing.T, socket, version, form, cert, roots string) *bootstrapv3.Bootstrap {
	t.Helper()
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(fmt.Sprintf(envoy, socket, version, secretConfig(cert, form), secretConfig(roots, form))), b))
	return b
}

// client makes requests over connections of its own, and keeps the last server certificate.
type client struct {
	shows  *tls.Certificate
	server *x509.Certificate
}

func (c *client) request(address string) error {
	config := &tls.Config{InsecureSkipVerify: true}
	if c.shows != nil {
		config.Certificates = []tls.Certificate{*c.shows}
	}
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	c.server = conn.ConnectionState().PeerCertificates[0]
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// signed returns a certificate for an identity from an authority, whether or not that should sign
// it.
func signed(t *testing.T, a *authority.Authority, id string) *tls.Certificate {
	t.Helper()
	key, csr := certtest.Request(t)
	issued, err := a.Sign(authority.Request{CSR: csr, ID: spiffeid.RequireFromString(id), Lifetime: time.Hour})
	require.NoError(t, err)
	pem, err := authority.EncodeKey(key)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(issued.ChainPEM, pem)
	require.NoError(t, err)
	return &pair
}

func TestEnvoyAcceptsOnlyMembers(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"TLSv1_2", "TLSv1_3"} {
		for _, form := range []string{"GRPC", "DELTA_GRPC"} {
			t.Run(version+form, func(t *testing.T) {
				t.Parallel()
				d, other := jointest.New(t, "mesh.example", time.Hour), jointest.New(t, "other.example", time.Hour)
				m := member(t, d)
				socket := serve(t, sds.New(slog.New(slog.DiscardHandler)), m)
				e := envoytest.Start(t, bootstrap(t, socket, version, form, sds.Certificate, sds.Roots))
				address := e.ListenerAddress(t, "in").String()

				friend := &client{shows: signed(t, d.Signer(), "spiffe://mesh.example/ns/shop/sa/web")}
				neighbour := &client{shows: signed(t, other.Signer(), "spiffe://other.example/ns/shop/sa/web")}
				liar := &client{shows: signed(t, other.Signer(), "spiffe://mesh.example/ns/shop/sa/web")}
				require.NoError(t, friend.request(address))
				require.Equal(t, m.Current().Certificate.Leaf.Raw, friend.server.Raw)
				key, err := m.Current().KeyPEM()
				require.NoError(t, err)
				dump := e.Get(t, "/config_dump?include_eds")
				require.Contains(t, dump, "dynamic_active_secrets")
				require.NotContains(t, dump, base64.StdEncoding.EncodeToString(key)[:60])
				refused := []*client{{}, neighbour, liar, {shows: signed(t, d.Signer(), "spiffe://third.example/ns/shop/sa/web")}}
				for _, c := range refused {
					require.Error(t, c.request(address))
				}

				// With another mesh beside it, each vouches for its own members alone.
				d.Federate("other.example", other.Roots())
				learn(t, d, m)
				require.Eventually(t, func() bool { return neighbour.request(address) == nil }, 20*time.Second, 20*time.Millisecond)
				require.NoError(t, friend.request(address))
				for _, c := range []*client{{}, liar, {shows: signed(t, d.Signer(), "spiffe://other.example/ns/shop/sa/web")}, refused[3]} {
					require.Error(t, c.request(address))
				}
			})
		}
	}
}

// learn gives a member the trust that a discovery has now.
func learn(t *testing.T, d *jointest.Discovery, m *membership.Membership) {
	t.Helper()
	s := m.Current()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	u, err := upstream.Dial(upstream.Options{Addresses: []string{d.Address}, Credentials: upstream.Member(m)})
	require.NoError(t, err)
	defer u.Close()
	wait.Go(func() { _ = join.Follow(ctx, u, m, slog.New(slog.DiscardHandler)) })
	<-s.Replaced()
	cancel()
	wait.Wait()
}

func TestFilesAreReloaded(t *testing.T) {
	t.Parallel()
	ours, theirs := certtest.NewAuthority(t), certtest.NewAuthority(t)
	folder := shortFolder(t)
	cert, key := ours.Issue(nil, "spiffe://mesh.example/ns/a/sa/b").Write(t, folder)
	roots := filepath.Join(folder, "roots.pem")
	s := sds.New(slog.New(slog.DiscardHandler))
	socket := serve(t, s, nil)

	// The roots do not exist yet: Envoy waits for them, and nobody gets in.
	e := envoytest.Launch(t, bootstrap(t, socket, "TLSv1_3", "GRPC", "file-cert:"+cert+"~"+key, "file-root:"+roots))
	certtest.WriteFile(t, roots, ours.PEM)
	e.WaitReady(t)
	address := e.ListenerAddress(t, "in").String()
	friend := &client{shows: pair(t, ours)}
	require.NoError(t, friend.request(address))
	first := friend.server

	certtest.WriteFile(t, cert, []byte("half of a file"))
	certtest.WriteFile(t, roots, theirs.PEM)
	stranger := &client{shows: pair(t, theirs)}
	require.Eventually(t, func() bool { return stranger.request(address) == nil }, 20*time.Second, 20*time.Millisecond)
	require.Error(t, friend.request(address))
	require.Equal(t, first.Raw, stranger.server.Raw, "what cannot be used changes nothing")

	ours.Issue(nil, "spiffe://mesh.example/ns/a/sa/b").Write(t, folder)
	require.Eventually(t, func() bool {
		return stranger.request(address) == nil && string(stranger.server.Raw) != string(first.Raw)
	},
		20*time.Second, 20*time.Millisecond)
}

func pair(t *testing.T, a *certtest.Authority) *tls.Certificate {
	t.Helper()
	c := a.Issue(nil, "spiffe://mesh.example/ns/a/sa/client").Certificate(t)
	return &c
}
