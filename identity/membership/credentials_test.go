package membership_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/membership"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// register records the certificates that calls come with.
type register struct {
	identityv1.UnimplementedAuthorityServiceServer

	mu      sync.Mutex
	serials []string
}

func (r *register) Record(ctx context.Context, _ *identityv1.RecordRequest) (*identityv1.RecordResponse, error) {
	p, _ := peer.FromContext(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serials = append(r.serials, p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].SerialNumber.String())
	return &identityv1.RecordResponse{}, nil
}

func TestConnectionEndsWithItsCertificate(t *testing.T) {
	t.Parallel()
	mesh := newMesh(t, "mesh.example")
	mesh.lifetime = 4 * time.Second
	server := join(t, membership.Options{}, newTwin(mesh).gives(discovery))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &register{}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(server.Server(tls.RequireAndVerifyClientCert, "h2"))))
	identityv1.RegisterAuthorityServiceServer(g, r)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)

	member := join(t, membership.Options{}, mesh.gives(cart))
	first := member.Current()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(member.Credentials(membership.IsProgram(identity.Discovery))))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	call := func() {
		_, err := identityv1.NewAuthorityServiceClient(conn).Record(t.Context(), &identityv1.RecordRequest{}, grpc.WaitForReady(true))
		require.NoError(t, err)
	}
	call()
	mesh.others = []*identityv1.Federated{{TrustDomain: "other.example", Roots: mesh.active.RootsPEM()}}
	require.NoError(t, member.Learn(mesh.trust()))
	call() // what is trusted has nothing to do with it

	second := member.Current()
	runs(t, member, mesh.gives(cart))
	<-second.Replaced()
	require.Eventually(t, func() bool {
		_, err := identityv1.NewAuthorityServiceClient(conn).Record(t.Context(), &identityv1.RecordRequest{}, grpc.WaitForReady(true))
		r.mu.Lock()
		defer r.mu.Unlock()
		return err == nil && r.serials[len(r.serials)-1] == member.Current().Certificate.Leaf.SerialNumber.String()
	}, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, first.Certificate.Leaf.SerialNumber.String(), r.serials[0])
	require.Equal(t, r.serials[0], r.serials[1])
}

// newTwin is the same mesh, for members that live longer.
func newTwin(m *mesh) *mesh {
	return &mesh{t: m.t, domain: m.domain, active: m.active, roots: m.roots, lifetime: time.Hour}
}
