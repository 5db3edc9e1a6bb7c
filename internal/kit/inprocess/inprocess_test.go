package inprocess_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/inprocess"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type key struct{}

// service answers with what it sees of its caller.
type service struct {
	adminv1.UnimplementedAdminServiceServer
	given *adminv1.ResourceRef // of the last Get
}

func (s *service) Get(ctx context.Context, req *adminv1.GetRequest) (*adminv1.GetResponse, error) {
	s.given = req.GetResource()
	m, _ := metadata.FromIncomingContext(ctx)
	p, _ := peer.FromContext(ctx)
	who, _ := ctx.Value(key{}).(string)
	switch req.GetResource().GetName() {
	case "status":
		return nil, status.Error(codes.NotFound, "no")
	case "plain":
		return nil, errors.New("no")
	case "deadline":
		return nil, context.DeadlineExceeded
	}
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-a", "b")); err != nil {
		return nil, err
	}
	return &adminv1.GetResponse{Resource: &adminv1.Resource{ApiVersion: who, Kind: p.Addr.String(), Metadata: &adminv1.Metadata{Name: m.Get("user-agent")[0]}}}, nil
}

func (s *service) Watch(req *adminv1.WatchRequest, stream grpc.ServerStreamingServer[adminv1.WatchResponse]) error {
	for i := range req.GetAfter() {
		if err := stream.Send(&adminv1.WatchResponse{Revision: &adminv1.Revision{Revision: i}}); err != nil {
			return err
		}
	}
	if len(req.GetKinds()) > 0 {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return nil
}

func start(t *testing.T, unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor) (adminv1.AdminServiceClient, *service, *inprocess.Server) {
	t.Helper()
	s, impl := inprocess.New(unary, stream), &service{}
	adminv1.RegisterAdminServiceServer(s, impl)
	t.Cleanup(s.Wait)
	return adminv1.NewAdminServiceClient(s), impl, s
}

func TestACallSeesItsCaller(t *testing.T) {
	t.Parallel()
	client, impl, _ := start(t, nil, nil)
	ctx := metadata.AppendToOutgoingContext(context.WithValue(t.Context(), key{}, "ada"), "user-agent", "curl/8")
	req := &adminv1.GetRequest{Resource: &adminv1.ResourceRef{Name: "x"}}

	var header metadata.MD
	got, err := client.Get(ctx, req, grpc.Header(&header))

	require.NoError(t, err)
	require.Equal(t, []string{"ada", "in process", "curl/8"}, []string{got.GetResource().GetApiVersion(), got.GetResource().GetKind(), got.GetResource().GetMetadata().GetName()})
	require.Equal(t, []string{"b"}, header.Get("x-a"))
	require.NotSame(t, req.GetResource(), impl.given, "each side has a message of its own")
	from := peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}})
	got, err = client.Get(from, req)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7", got.GetResource().GetKind())
}

func TestErrorsAreStatuses(t *testing.T) {
	t.Parallel()
	client, _, s := start(t, nil, nil)
	for name, want := range map[string]codes.Code{"status": codes.NotFound, "plain": codes.Unknown, "deadline": codes.DeadlineExceeded} {
		_, err := client.Get(t.Context(), &adminv1.GetRequest{Resource: &adminv1.ResourceRef{Name: name}})
		require.Equal(t, want, status.Code(err))
	}
	_, err := client.List(t.Context(), &adminv1.ListRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	_, err = client.Import(t.Context())
	require.Equal(t, codes.Unimplemented, status.Code(err), "a stream of requests")
	require.Equal(t, codes.Unimplemented, status.Code(s.Invoke(t.Context(), "/nobody/Get", &adminv1.GetRequest{}, &adminv1.GetResponse{})))
	s.Unknown = func(_ context.Context, method string) error { return status.Error(codes.FailedPrecondition, method) }
	require.ErrorContains(t, s.Invoke(t.Context(), "/nobody/Get", &adminv1.GetRequest{}, &adminv1.GetResponse{}), "/nobody/Get")
}

func TestStreamsEndWithTheirHandlersAndTheirContexts(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t, nil, nil)
	stream, err := client.Watch(t.Context(), &adminv1.WatchRequest{After: new(int64(3))})
	require.NoError(t, err)
	for i := range int64(3) {
		got, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, i, got.GetRevision().GetRevision())
	}
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)

	ctx, cancel := context.WithCancel(t.Context())
	stays, err := client.Watch(ctx, &adminv1.WatchRequest{Kinds: []string{"stay"}})
	require.NoError(t, err)
	time.AfterFunc(time.Millisecond, cancel)
	_, err = stays.Recv()
	require.Equal(t, codes.Canceled, status.Code(err))
}

func TestInterceptorsAreChained(t *testing.T) {
	t.Parallel()
	var order []string
	unary := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			order = append(order, name+info.FullMethod)
			return next(ctx, req)
		}
	}
	through := func(name string) grpc.StreamServerInterceptor {
		return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			order = append(order, name)
			return next(srv, ss)
		}
	}
	client, _, _ := start(t, inprocess.ChainUnary(unary("a "), unary("b ")), inprocess.ChainStream(through("c"), through("d")))
	_, err := client.Get(metadata.AppendToOutgoingContext(t.Context(), "user-agent", "x"), &adminv1.GetRequest{})
	require.NoError(t, err)
	stream, err := client.Watch(t.Context(), &adminv1.WatchRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"a /pgmesh.admin.v1.AdminService/Get", "b /pgmesh.admin.v1.AdminService/Get", "c", "d"}, order)
}
