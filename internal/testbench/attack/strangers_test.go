package attack

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// asStranger connects to a server without any credentials.
func asStranger(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(128<<20)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// large are calls that strangers may try, with messages of a size. The first are for members only,
// and the last is for everybody.
func large(conn *grpc.ClientConn, size int) []func(context.Context) error {
	blob := make([]byte, size)
	return []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := adminv1.NewAdminServiceClient(conn).Apply(ctx, &adminv1.ApplyRequest{Message: string(blob)})
			return err
		},
		func(ctx context.Context) error {
			_, err := adminv1.NewAdminServiceClient(conn).List(ctx, &adminv1.ListRequest{LabelSelector: string(blob)})
			return err
		},
		func(ctx context.Context) error {
			stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
			if err == nil {
				_ = stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "x", ResourceNames: []string{string(blob)}})
				_, err = stream.Recv()
			}
			return err
		},
		func(ctx context.Context) error {
			_, err := identityv1.NewAuthorityServiceClient(conn).Enroll(ctx, &identityv1.EnrollRequest{Csr: blob})
			return err
		},
	}
}

// Strangers send large messages, many at once, to every type of call. The servers read none of them
// whole.
func TestStrangersTakeNoMemory(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	check := keepsBelow(t, memory{m.MCPServer, 160}, memory{m.Discovery, 160})
	b.undisturbed(func() func() {
		var calls sync.WaitGroup
		var answered atomic.Int64
		for range 4 {
			for _, address := range []string{m.MCP, m.XDS} {
				conn := asStranger(t, address)
				for _, call := range large(conn, 60<<20) {
					calls.Go(func() {
						if call(t.Context()) == nil {
							answered.Add(1)
						}
					})
				}
			}
		}
		calls.Wait() // the work of the attacker itself on this machine is not timed
		require.Zero(t, answered.Load())
		return func() {}
	})
	check()
}

// A stranger is refused at once, whatever else it would send.
func TestStrangersAreTurnedAwayByTheirHeaders(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	ctx, cancel := context.WithTimeout(t.Context(), poll.Longest)
	defer cancel()
	conn := asStranger(t, m.MCP)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, adminv1.AdminService_Apply_FullMethodName)
	require.NoError(t, err)
	require.Equal(t, codes.Unauthenticated, status.Code(stream.RecvMsg(&anypb.Any{})), "the message was never sent")
}

// One machine opens streams, and sends as much as it can in each.
func TestOneMachineTakesNoMemory(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	stolen := m.join("shop/stolen")
	check := keepsBelow(t, memory{m.Discovery, 300})
	b.undisturbed(func() func() {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var wrong atomic.Pointer[error]
		for i := range 64 {
			conn := dial(m, stolen)
			all.Go(func() {
				stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
				if err != nil {
					return
				}
				size := 50 << 20
				if i%2 == 0 {
					size = 3 << 20 // allowed for a request, and not for a node
				}
				blob := structpb.NewStringValue(string(make([]byte, size)))
				_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{
					Node:    &corev3.Node{Id: "sidecar~127.0.0.9~stolen.shop~shop.svc.cluster.local", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"BLOB": blob}}},
					TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
				})
				_, err = stream.Recv()
				if status.Code(err) != codes.ResourceExhausted {
					wrong.Store(&err)
				}
			})
		}
		all.Wait()
		if err := wrong.Load(); err != nil {
			require.NoError(t, *err)
		}
		return cancel
	})
	check()
}

// Servers do not wait for connections that send nothing, or one byte a second.
func TestSlowStrangersHoldNobodyUp(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	b.undisturbed(func() func() {
		var open []net.Conn
		for i := range 400 {
			conn, err := net.Dial("tcp", []string{m.MCP, m.XDS}[i%2])
			require.NoError(t, err)
			if i%4 > 1 {
				_, err = conn.Write([]byte{22, 3, 1}) // the first bytes of a handshake
				require.NoError(t, err)
			}
			open = append(open, conn)
		}
		return func() {
			require.NoError(t, open[0].SetReadDeadline(time.Now().Add(poll.Longest)))
			_, err := open[0].Read(make([]byte, 1))
			require.Error(t, err)
			require.NotContains(t, err.Error(), "timeout", "the server has not ended the connection")
			for _, conn := range open {
				_ = conn.Close()
			}
		}
	})
}
