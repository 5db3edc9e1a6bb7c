package push_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// secretServer is a foreign server of secrets. It has one secret, and records what it is asked for.
type secretServer struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer

	name  string
	pair  certtest.Pair
	asked chan []string
}

func (s *secretServer) StreamSecrets(stream secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	s.asked <- r.GetResourceNames()
	inline := func(text []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: text}}
	}
	secret, err := anypb.New(&tlsv3.Secret{Name: s.name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(s.pair.Cert), PrivateKey: inline(s.pair.Key),
	}}})
	if err != nil {
		return err
	}
	if err := stream.Send(&discoveryv3.DiscoveryResponse{TypeUrl: r.GetTypeUrl(), VersionInfo: "1", Nonce: "1", Resources: []*anypb.Any{secret}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// serve returns the port.
func (s *secretServer) serve(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(server, s)
	go func() { _ = server.Serve(l) }() // until it is stopped
	t.Cleanup(server.Stop)
	return l.Addr().(*net.TCPAddr).Port
}

const gatewayOfOthersSecrets = `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {extensionProviders: [{name: secrets, sds: {service: secrets.shop, port: %[1]d}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: secrets, namespace: istio-system}
spec: {hosts: [secrets.shop], resolution: STATIC, ports: [{number: %[1]d, name: grpc, protocol: GRPC}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  servers:
  - {port: {number: %[2]d, name: https, protocol: HTTPS}, bind: 127.0.0.1, hosts: ['*'], tls: {mode: SIMPLE, credentialName: 'sds://shop-cert'}}
`

// A real Envoy gets a gateway's certificate from the service that the MeshConfig names, by the name
// behind sds://.
func TestEnvoyAsksTheExtensionProviderForSecrets(t *testing.T) {
	t.Parallel()
	b, authority := newBench(), certtest.NewAuthority(t)
	server := &secretServer{name: "shop-cert", pair: authority.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"shop.example"} }), asked: make(chan []string, 100)}
	port := envoytest.Port(t)
	b.apply(t, fmt.Sprintf(gatewayOfOthersSecrets, server.serve(t), port))
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "shop"})
	require.NoError(t, err)
	envoytest.Start(t, following(t, b.listen(t).Target(), &corev3.Node{Id: "router~127.0.0.1~edge.shop~shop.svc.cluster.local", Cluster: "edge", Metadata: metadata}))
	require.Equal(t, []string{"shop-cert"}, <-server.asked)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool(), ServerName: "shop.example", MinVersion: tls.VersionTLS12}}
	var last error
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		var c net.Conn
		if c, last = dialer.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port)); last != nil {
			return false
		}
		return c.Close() == nil
	}, 30*time.Second, 20*time.Millisecond, "%v", lazily(func() string { return fmt.Sprint(last) }))
}
