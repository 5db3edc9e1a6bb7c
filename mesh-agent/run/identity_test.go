package run_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// doorman is a discovery that records the callers, and answers nothing.
type doorman struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	came chan visitor
}

type visitor struct {
	node *corev3.Node
	cert *x509.Certificate
}

func newDoorman() *doorman { return &doorman{came: make(chan visitor, 100)} }

func (d *doorman) register(r grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, d)
}

func (d *doorman) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	p, _ := peer.FromContext(stream.Context())
	v := visitor{node: first.GetNode()}
	if shown := p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates; len(shown) > 0 {
		v.cert = shown[0]
	}
	d.came <- v
	<-stream.Context().Done()
	return nil
}

// serveWith has the doorman at a door of its own.
func (d *doorman) serveWith(t *testing.T, cert tls.Certificate, clients *x509.CertPool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	d.register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func (d *doorman) await(t *testing.T) visitor {
	t.Helper()
	select {
	case v := <-d.came:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("nobody came")
		return visitor{}
	}
}

func TestEnvoyShowsTheMachinesCertificate(t *testing.T) {
	t.Parallel()
	door := newDoorman()
	d := jointest.New(t, "mesh.example", time.Hour, door.register)
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	token := d.Token("shop", "cart", 1, 0).Text()
	output, err := agenttest.Run(t, nil, "join", "--server", d.Address, "--token-file", agenttest.TokenFile(t, token), "--state-dir", state)
	require.NoError(t, err, output)
	require.Contains(t, output, "this machine is spiffe://mesh.example/ns/shop/sa/cart, until ")

	output, err = agenttest.Run(t, []string{"PGMESH_JOIN_TOKEN=" + token}, "join", "--server", d.Address, "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "this machine is a member already: spiffe://mesh.example/ns/shop/sa/cart")
	require.Contains(t, output, "--again gives that up")

	a := agenttest.StartSecure(t, "--state-dir", state, "--status", "127.0.0.1:0")
	metrics := a.AwaitAddress(t)
	require.Contains(t, a.Await(t, "is a member of the mesh"), "identity=spiffe://mesh.example/ns/shop/sa/cart until=")
	v := door.await(t)
	require.Equal(t, "spiffe://mesh.example/ns/shop/sa/cart", v.cert.URIs[0].String())
	fields := v.node.GetMetadata().AsMap()
	require.Equal(t, "shop", fields["NAMESPACE"])
	require.Equal(t, "cart", fields["SERVICE_ACCOUNT"])
	require.Equal(t, "agent", fields["PGMESH_IDENTITY"])
	code, body := agenttest.Get(t, "http://"+metrics+"/metrics")
	require.Equal(t, 200, code)
	require.Contains(t, body, "pgmesh_mesh_agent_identity_not_after_seconds")
	require.NotContains(t, output, token)

	a.End(t)
}

func TestRunJoinsAndRenews(t *testing.T) {
	t.Parallel()
	door := newDoorman()
	d := jointest.New(t, "mesh.example", 10*time.Second, door.register)
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	a := agenttest.StartSecure(t, "--discovery", d.Address, "--token-file", agenttest.TokenFile(t, d.Token("shop", "cart", 1, 0).Text()),
		"--state-dir", state, "--status", "")
	first := door.await(t).cert
	a.Await(t, "the certificate was renewed")
	require.GreaterOrEqual(t, d.Created(), 2)

	// Envoy's stream moves to a connection with the new certificate.
	second := door.await(t).cert
	require.Equal(t, first.URIs, second.URIs)
	require.NotEqual(t, first.SerialNumber, second.SerialNumber)

	// With a new root the machine renews at once, and trusts both.
	d.Rotate()
	a.Await(t, "the certificate was renewed")
	a.End(t)

	// It remembers where it joined, and its identity.
	output, err := agenttest.Run(t, nil, "bootstrap", "--state-dir", state)
	require.NoError(t, err, output)
	require.Contains(t, output, filepath.Join(state, "envoy.sock"))
}

func TestCertificatesFromFiles(t *testing.T) {
	t.Parallel()
	pki := certtest.NewAuthority(t)
	folder := agenttest.ShortFolder(t)
	cert, key := pki.Issue(nil, "spiffe://mesh.example/ns/shop/sa/cart").Write(t, folder)
	roots := filepath.Join(folder, "roots.pem")
	certtest.WriteFile(t, roots, pki.PEM)
	own := []string{"--tls-cert", cert, "--tls-key", key, "--tls-roots", roots, "--state-dir", folder}

	door := newDoorman()
	address := door.serveWith(t, pki.Issue(nil, "spiffe://mesh.example/pgmesh/discovery/a").Certificate(t), pki.Pool())
	a := agenttest.StartSecure(t, append(own, "--discovery", address, "--status", "")...)
	require.Contains(t, a.Await(t, "by its own files"), "spiffe://mesh.example/ns/shop/sa/cart")
	require.Equal(t, "spiffe://mesh.example/ns/shop/sa/cart", door.await(t).cert.URIs[0].String())

	// A server that is no discovery gets nothing.
	impostor := newDoorman()
	address = impostor.serveWith(t, pki.Issue(nil, "spiffe://mesh.example/ns/shop/sa/cart").Certificate(t), pki.Pool())
	other := agenttest.ShortFolder(t)
	b := agenttest.StartSecure(t, append(slices.Clone(own[:len(own)-1]), other, "--discovery", address, "--status", "")...)
	b.Await(t, "it is spiffe://mesh.example/ns/shop/sa/cart, and has to be a discovery of this mesh")
	require.Empty(t, impostor.came)

	output, err := agenttest.Run(t, nil, append([]string{"bootstrap", "--discovery", address}, own[2:]...)...)
	require.Error(t, err)
	require.Contains(t, output, "--tls-cert, --tls-key and --tls-roots belong together")
}

func TestRefusalIsExplained(t *testing.T) {
	t.Parallel()
	d := jointest.New(t, "mesh.example", time.Hour)
	joined := filepath.Join(agenttest.ShortFolder(t), "state")
	output, err := agenttest.Run(t, nil, "join", "--server", d.Address, "--token", d.Token("shop", "cart", 1, 0).Text(), "--state-dir", joined)
	require.NoError(t, err, output)
	token := agenttest.TokenFile(t, d.Token("shop", "cart", 1, 0).Text())
	expired := agenttest.TokenFile(t, d.Token("shop", "cart", 1, identityv1.Refusal_REFUSAL_TOKEN_EXPIRED).Text())
	for want, args := range map[string][]string{
		"this machine is no member of a mesh yet: mesh-agent join --server": {"run", "--state-dir", agenttest.ShortFolder(t)},
		"for spiffe://mesh.example/ns/shop/sa/cart, and discovery believes that alone: leave the flag out, or join with a token for other": {
			"bootstrap", "--state-dir", joined, "--namespace", "other",
		},
		"--service-account admin: this machine's certificate is for":   {"bootstrap", "--state-dir", joined, "--service-account", "admin"},
		"--insecure and the flags of a certificate or a token":         {"run", "--insecure", "--token-file", token},
		"(have another made with mcp-client token create)":             {"join", "--server", d.Address, "--token-file", expired, "--state-dir", agenttest.ShortFolder(t)},
		"this is not a whole join token":                               {"join", "--server", d.Address, "--token", "secret", "--state-dir", agenttest.ShortFolder(t)},
		"which --token-file or PGMESH_TOKEN_FILE names: this is not a": {"join", "--server", d.Address, "--token-file", agenttest.TokenFile(t, "of mcp-client")},
		"where is discovery? Say it with --server":                     {"join", "--token-file", token},
		"where is discovery? Say it with --discovery":                  {"run", "--token-file", token, "--state-dir", agenttest.ShortFolder(t)},
		"what is this machine to join with?":                           {"join", "--server", d.Address},
		"--jwt-file needs --roots":                                     {"join", "--server", d.Address, "--jwt-file", token},
		"--roots is for --jwt-file":                                    {"join", "--server", d.Address, "--token-file", token, "--roots", token},
		"--token, --token-file and --jwt-file: give one of them":       {"join", "--server", d.Address, "--token-file", token, "--token", "x"},
		"choose a folder with a shorter one with --state-dir": {
			"run", "--state-dir", "/tmp/a-folder-whose-name-is-rather-long/and-another-one-in-it/that-is-quite-long-too/mesh-agent/for-this",
		},
	} {
		if !slices.Contains(args, "--state-dir") { // the default is the machine's own
			args = append(args, "--state-dir", agenttest.ShortFolder(t))
		}
		output, err := agenttest.Run(t, nil, args...)
		require.Error(t, err)
		require.Contains(t, output, want)
	}
}

func TestJoinWithAWebToken(t *testing.T) {
	t.Parallel()
	d := jointest.New(t, "mesh.example", time.Hour)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(roots, d.Roots(), 0o600))
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	output, err := agenttest.Run(t, nil, "join", "--server", d.Address, "--jwt-file", agenttest.TokenFile(t, jointest.WebToken), "--roots", roots, "--state-dir", state)
	require.NoError(t, err, output)
	require.Contains(t, output, "spiffe://mesh.example/ns/shop/sa/cart")

	output, err = agenttest.Run(t, nil, "join", "--server", d.Address, "--jwt-file", agenttest.TokenFile(t, "not one"), "--roots", roots, "--state-dir", agenttest.ShortFolder(t))
	require.Error(t, err)
	require.Contains(t, output, "there has to be one JSON web token in it")
	require.NotContains(t, output, "not one")
}

func TestWebTokenRenewsAnExpiredMembership(t *testing.T) {
	t.Parallel()
	door := newDoorman()
	d := jointest.New(t, "mesh.example", 3*time.Second, door.register)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(roots, d.Roots(), 0o600))
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	token := []string{"--jwt-file", agenttest.TokenFile(t, jointest.WebToken), "--roots", roots, "--state-dir", state}
	output, err := agenttest.Run(t, nil, append([]string{"join", "--server", d.Address}, token...)...)
	require.NoError(t, err, output)
	require.Eventually(t, func() bool {
		output, err = agenttest.Run(t, nil, "bootstrap", "--state-dir", state)
		return err != nil
	}, 20*time.Second, 50*time.Millisecond)
	require.Contains(t, output, "the certificate has expired: that of spiffe://mesh.example/ns/shop/sa/cart")
	require.Contains(t, output, "join again with a new token: mesh-agent join --server "+d.Address)

	a := agenttest.StartSecure(t, append(token, "--status", "")...)
	door.await(t)
	a.End(t)
}

// TestOutputHasNoSecrets searches everything that an agent prints.
func TestOutputHasNoSecrets(t *testing.T) {
	t.Parallel()
	door := newDoorman()
	d := jointest.New(t, "mesh.example", time.Hour, door.register)
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	token := d.Token("shop", "cart", 1, 0).Text()
	a := agenttest.StartSecure(t, "--discovery", d.Address, "--token", token, "--state-dir", state, "--status", "", "--log-level", "debug")
	var said bytes.Buffer
	a.Heard = &said
	door.await(t)
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	a.AwaitEndOfLog()
	key, err := os.ReadFile(filepath.Join(state, "identity.pem"))
	require.NoError(t, err)
	require.NotEmpty(t, said.String())
	require.NotContains(t, said.String(), token[20:40])
	require.NotContains(t, said.String(), string(bytes.Split(key, []byte("\n"))[1][:40]))
}
