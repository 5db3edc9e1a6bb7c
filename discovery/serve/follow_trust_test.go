package serve

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/authority"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// teller is a TrustService that sends what the test gives it.
type teller struct {
	identityv1.UnimplementedTrustServiceServer

	told chan *identityv1.Trust
}

func (s *teller) WatchTrust(_ *identityv1.WatchTrustRequest, stream identityv1.TrustService_WatchTrustServer) error {
	for {
		select {
		case told := <-s.told:
			if err := stream.Send(&identityv1.WatchTrustResponse{Trust: told}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// A revoked identity is refused at every proxy as soon as discovery knows of it, without a change
// of the configuration.
func TestProxiesHearOfRevocations(t *testing.T) {
	t.Parallel()
	root, err := authority.NewRoot("mesh.example", time.Hour)
	require.NoError(t, err)
	tells := &teller{told: make(chan *identityv1.Trust)}
	server := grpc.NewServer()
	identityv1.RegisterTrustServiceServer(server, tells)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	keeper := trust.New(trust.Options{
		Server: conn, Roots: root.RootsPEM, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	pushed := make(chan *mesh.Mesh, 10)
	f := newFollower(func(m *mesh.Mesh, _ configstore.Step) { pushed <- m }, prometheus.NewRegistry())
	f.trust = keeper
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return server.Serve(l) })
	running.Go(func() error { return ended(keeper.Run(ctx)) })
	running.Go(func() error { return ended(f.run(ctx)) })

	f.take(batchOf(t, 1, "a", "10.0.0.1"))
	require.Empty(t, (<-pushed).Trust().Revoked)
	told := &identityv1.Trust{TrustDomain: "mesh.example", Revoked: []*identityv1.Revocation{
		{Identity: "ns/shop/sa/thief"}, {Identity: "pgmesh/discovery/eu"}, {Enrolment: "m1"},
	}}
	tells.told <- told
	require.Equal(t, []string{"ns/shop/sa/thief"}, (<-pushed).Trust().Revoked)
	f.take(batchOf(t, 2, "a", "10.0.0.2"))
	require.Equal(t, []string{"ns/shop/sa/thief"}, (<-pushed).Trust().Revoked, "a change of the configuration does not forget it")
	tells.told <- &identityv1.Trust{TrustDomain: "mesh.example", Federated: []*identityv1.Federated{{TrustDomain: "partner.example", Roots: root.RootsPEM()}}}
	last := <-pushed
	require.Empty(t, last.Trust().Revoked)
	require.Equal(t, []string{"partner.example"}, last.Trust().Federated)

	cancel()
	server.Stop()
	require.NoError(t, running.Wait())
	require.NoError(t, conn.Close())
	require.Empty(t, pushed, "nothing is pushed for nothing")
}
