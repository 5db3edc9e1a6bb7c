package serve_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/ads"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// registers opens a stream for a machine, and describes it.
func registers(t *testing.T, conn *grpc.ClientConn, namespace string) machinev1.MachineService_RegisterClient {
	t.Helper()
	stream, err := machinev1.NewMachineServiceClient(conn).Register(t.Context())
	require.NoError(t, err)
	_ = stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Machine{Machine: &machinev1.Machine{
		Id: "vm-1", Namespace: namespace, Since: 1, Address: "10.0.0.1", Services: []*machinev1.Service{{Group: "cart"}},
	}}}) // receiving tells the error
	return stream
}

func TestOnlyTrustedMachinesRegister(t *testing.T) {
	t.Parallel()
	a := servetest.NewAuthority(t)
	at, _ := servetest.Run(t, servetest.Member(t, a, t.TempDir()))
	stranger := servetest.NewMachine(t, at.XDS.String(), a.Root().Root())
	_, err := registers(t, stranger.Dial(), "").Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err), err)
	_, err = machinev1.NewMachineServiceClient(stranger.Dial()).Settings(t.Context(), &machinev1.SettingsRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err), err)

	m := joins(t, a, at, &identityv1.Grant{Namespace: "shop", ServiceAccount: "cart", Enrolment: "m1"})
	_, err = registers(t, m.Dial(), "bank").Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), err)
	require.ErrorContains(t, err, "start the agent with what its certificate says")

	stream := registers(t, m.Dial(), "shop")
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.Contains(t, answer.GetRefused().GetReason(), "keeps no registry of machines", "the authority of the tests has none")
	a.Tell(func(told *identityv1.Trust) {
		told.Revoked = append(told.Revoked, &identityv1.Revocation{Enrolment: "m1", Reason: "stolen"})
	})
	_, err = stream.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), err)
	require.ErrorContains(t, err, "stolen")
	require.Equal(t, "stolen", refusal.RevocationOf(err).GetReason())
	_, err = registers(t, m.Dial(), "").Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), err)
}

func TestADiscoveryWithoutAServerSaysThatItRegistersNobody(t *testing.T) {
	t.Parallel()
	at := servetest.Start(t, serve.Sources{Directory: t.TempDir()}, ads.Limits{})
	conn, err := grpc.NewClient(at.XDS.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	answer, err := registers(t, conn, "shop").Recv()
	require.NoError(t, err)
	require.False(t, answer.GetRefused().GetPassing())
	require.Contains(t, answer.GetRefused().GetReason(), "follows no mcp-server")
}
