package sds_test

import (
	"log/slog"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/stretchr/testify/require"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sds"
)

func dial(t *testing.T, socket string) secretv3.SecretDiscoveryServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return secretv3.NewSecretDiscoveryServiceClient(conn)
}

// served is a mesh, a member of it, and a client of the member's secrets.
func served(t *testing.T) (*jointest.Discovery, *membership.Membership, secretv3.SecretDiscoveryServiceClient) {
	t.Helper()
	d := jointest.New(t, "mesh.example", time.Hour)
	m := member(t, d)
	return d, m, dial(t, serve(t, sds.New(slog.New(slog.DiscardHandler)), m))
}

func names(t *testing.T, bodies ...*anypb.Any) (out []string) {
	t.Helper()
	for _, body := range bodies {
		secret := &tlsv3.Secret{}
		require.NoError(t, body.UnmarshalTo(secret))
		out = append(out, secret.GetName())
	}
	return out
}

func TestSotWSendsChanges(t *testing.T) {
	t.Parallel()
	d, m, client := served(t)
	stream, err := client.StreamSecrets(t.Context())
	require.NoError(t, err)
	ask := &discoveryv3.DiscoveryRequest{ResourceNames: []string{sds.Certificate, sds.Roots, "nobody knows it"}}
	require.NoError(t, stream.Send(ask))
	first, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, []string{sds.Roots, sds.Certificate}, names(t, first.GetResources()...))

	// A refused secret is not resent until something changes.
	ask.ResponseNonce, ask.ErrorDetail = first.GetNonce(), &statuspb.Status{Message: "no"}
	require.NoError(t, stream.Send(ask))
	d.Federate("other.example", jointest.New(t, "other.example", time.Hour).Roots())
	learn(t, d, m)
	second, err := stream.Recv()
	require.NoError(t, err)
	require.NotEqual(t, first.GetVersionInfo(), second.GetVersionInfo())
	require.NotEqual(t, first.GetNonce(), second.GetNonce())
	require.Len(t, second.GetResources(), 2)

	// A request about an earlier response does not change the subscription.
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{ResponseNonce: first.GetNonce()}))
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{sds.Roots}, ResponseNonce: second.GetNonce()}))
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{ResourceNames: []string{sds.Roots, sds.Certificate}, ResponseNonce: second.GetNonce()}))
	third, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, third.GetResources(), 2, "who asks again is sent it again")
}

func TestDeltaSendsOnlyChanges(t *testing.T) {
	t.Parallel()
	d, m, client := served(t)
	stream, err := client.DeltaSecrets(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{sds.Certificate, sds.Roots}}))
	first, err := stream.Recv()
	require.NoError(t, err)
	versions := map[string]string{}
	for _, r := range first.GetResources() {
		versions[r.GetName()] = r.GetVersion()
	}
	require.Len(t, versions, 2)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: first.GetNonce()}))
	d.Federate("other.example", jointest.New(t, "other.example", time.Hour).Roots())
	learn(t, d, m)
	second, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, second.GetResources(), 1)
	require.Equal(t, sds.Roots, second.GetResources()[0].GetName())

	// A returning Envoy is sent what it lacks.
	again, err := client.DeltaSecrets(t.Context())
	require.NoError(t, err)
	require.NoError(t, again.Send(&discoveryv3.DeltaDiscoveryRequest{
		ResourceNamesSubscribe: []string{sds.Certificate, sds.Roots}, InitialResourceVersions: versions,
	}))
	third, err := again.Recv()
	require.NoError(t, err)
	require.Len(t, third.GetResources(), 1)
	require.Equal(t, sds.Roots, third.GetResources()[0].GetName())
}

func TestFetchSecrets(t *testing.T) {
	t.Parallel()
	_, _, client := served(t)
	require.Eventually(t, func() bool {
		answer, err := client.FetchSecrets(t.Context(), &discoveryv3.DiscoveryRequest{ResourceNames: []string{sds.Roots}})
		return err == nil && len(answer.GetResources()) == 1
	}, 10*time.Second, 10*time.Millisecond)
}
