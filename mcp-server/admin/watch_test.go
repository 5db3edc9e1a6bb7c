package admin_test

import (
	"context"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// watch begins to watch, and returns when the watch has begun.
func (b *bundle) watch(req *adminv1.WatchRequest) grpc.ServerStreamingClient[adminv1.WatchResponse] {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	b.t.Cleanup(cancel)
	stream, err := b.admin.Watch(ctx, req)
	require.NoError(b.t, err)
	return stream
}

func (b *bundle) next(stream grpc.ServerStreamingClient[adminv1.WatchResponse]) *adminv1.WatchResponse {
	b.t.Helper()
	got, err := stream.Recv()
	require.NoError(b.t, err)
	return got
}

func TestWatchSendsTheSelectedChanges(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"s1/a": "x"})
	all, one := b.watch(&adminv1.WatchRequest{}), b.watch(&adminv1.WatchRequest{Namespaces: []string{"s2"}})
	for _, stream := range []grpc.ServerStreamingClient[adminv1.WatchResponse]{all, one} {
		begun := b.next(stream)
		require.Equal(t, int64(1), begun.GetRevision().GetRevision())
		require.Empty(t, begun.GetRevision().GetChanges())
	}

	b.apply(map[string]string{"s1/a": "y"})
	b.apply(map[string]string{"s1/b": "x", "s2/a": "x"})
	_, err := b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resource: refIn("s2", "a")})
	require.NoError(t, err)

	changed := b.next(all).GetRevision()
	require.Equal(t, []any{int64(2), "ada", "because", int32(1)}, []any{changed.GetRevision(), changed.GetAuthor(), changed.GetMessage(), changed.GetSize()})
	require.Equal(t, "update", changed.GetChanges()[0].GetOperation())
	require.Equal(t, int64(1), changed.GetChanges()[0].GetBefore().GetMetadata().GetResourceVersion())
	require.Equal(t, int64(2), changed.GetChanges()[0].GetAfter().GetMetadata().GetResourceVersion())
	require.Len(t, b.next(all).GetRevision().GetChanges(), 2)
	created := b.next(one).GetRevision()
	require.Equal(t, int64(3), created.GetRevision(), "the revision before did not concern it")
	require.Len(t, created.GetChanges(), 1)
	require.Equal(t, "create", created.GetChanges()[0].GetOperation())
	deleted := b.next(one).GetRevision()
	require.Equal(t, "delete", deleted.GetChanges()[0].GetOperation())
	require.Nil(t, deleted.GetChanges()[0].GetAfter())
}

func TestWatchFromARevision(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	b := startAPI(t, database)
	for _, host := range []string{"x", "y", "z"} {
		b.apply(map[string]string{"a": host})
	}
	after := func(r int64) *adminv1.WatchRequest { return &adminv1.WatchRequest{After: &r} }

	stream := b.watch(after(1))
	for _, want := range []int64{1, 2, 3} {
		require.Equal(t, want, b.next(stream).GetRevision().GetRevision())
	}
	execute(t, database, "SELECT mesh.prune(2)")
	for _, gone := range []int64{1, 9} {
		_, err := b.watch(after(gone)).Recv()
		require.Equal(t, codes.OutOfRange, grpcstatus.Code(err), "%v", err)
		info, is := grpcstatus.Convert(err).Details()[0].(*errdetails.ErrorInfo)
		require.True(t, is)
		require.Equal(t, "TOO_OLD", info.GetReason())
	}
	_, err := b.watch(&adminv1.WatchRequest{After: new(int64(-1)), Kinds: []string{"nothing"}}).Recv()
	require.Equal(t, []string{"kinds[0]", "after"}, badFields(t, err))
}

func TestWatchMatchesLabelsBeforeAndAfterAChange(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	stream := b.watch(&adminv1.WatchRequest{LabelSelector: "app=a"})
	b.next(stream)
	b.apply(map[string]string{"a": "x", "b": "x"})
	require.Len(t, b.next(stream).GetRevision().GetChanges(), 1)
	execute(t, b.database, `UPDATE mesh.virtual_services SET labels = '{}'`)
	lost := b.next(stream).GetRevision().GetChanges()
	require.Len(t, lost, 1)
	require.Equal(t, "a", lost[0].GetResource().GetName())
}

func TestALargeRevisionComesInPortions(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	stream := b.watch(&adminv1.WatchRequest{})
	b.next(stream)
	execute(t, b.database, `INSERT INTO mesh.destination_rules (name, host) SELECT 'dr-' || i, 'h' FROM generate_series(1, 1000) i`)
	portions, changes := 0, 0
	for more := true; more; portions++ {
		got := b.next(stream)
		require.Equal(t, int64(1), got.GetRevision().GetRevision())
		changes += len(got.GetRevision().GetChanges())
		more = got.GetPartial()
	}
	require.Equal(t, []int{5, 1000}, []int{portions, changes})
}

func TestShutdownEndsWatches(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	stream := b.watch(&adminv1.WatchRequest{})
	b.next(stream)
	b.server.Shutdown()
	_, err := stream.Recv()
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err))
	require.ErrorContains(t, err, "watch again")
}

func TestStatusCoversServerMeshAndClients(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"a": "x", "b": "x"})
	require.Eventually(t, func() bool { // a server serves what it has loaded before it follows
		told, err := b.admin.Status(t.Context(), &adminv1.StatusRequest{})
		require.NoError(t, err)
		return told.GetSource().GetConnected() && told.GetServer().GetRevision() == 1
	}, 10*time.Second, 5*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := b.mcp.StreamAggregatedResources(ctx)
	require.NoError(t, err)
	const vs, dr = "networking.istio.io/v1/VirtualService", "networking.istio.io/v1/DestinationRule"
	for _, typeURL := range []string{vs, dr} {
		require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "sidecar~1"}, TypeUrl: typeURL}))
	}
	for range 2 {
		got, err := stream.Recv()
		require.NoError(t, err)
		answer := &discoveryv3.DiscoveryRequest{TypeUrl: got.GetTypeUrl(), ResponseNonce: got.GetNonce(), VersionInfo: got.GetVersionInfo()}
		if got.GetTypeUrl() == dr {
			answer.ErrorDetail = &status.Status{Code: 3, Message: "cannot read it"}
		}
		require.NoError(t, stream.Send(answer))
	}

	var told *adminv1.StatusResponse
	require.Eventually(t, func() bool { // an acknowledgement is not answered
		told, err = b.admin.Status(t.Context(), &adminv1.StatusRequest{})
		require.NoError(t, err)
		clients := told.GetClients()
		return len(clients) == 1 && len(clients[0].GetSubscriptions()) == 2 && clients[0].GetSubscriptions()[0].GetRefused() == 1 &&
			clients[0].GetSubscriptions()[1].GetAccepted() == 1
	}, 10*time.Second, 5*time.Millisecond)
	require.Equal(t, []any{"1.2.3", true, int64(1)}, []any{told.GetServer().GetVersion(), told.GetServer().GetReady(), told.GetServer().GetRevision()})
	require.Equal(t, []any{"database", true}, []any{told.GetSource().GetName(), told.GetSource().GetConnected()})
	require.Equal(t, []int64{1, 1}, []int64{told.GetMesh().GetNewestRevision(), told.GetMesh().GetOldestRevision()})
	require.Equal(t, int64(2), told.GetMesh().GetKinds()[0].GetResources())
	client := told.GetClients()[0]
	require.Equal(t, []any{"sidecar~1", "sotw", int64(0)}, []any{client.GetNode(), client.GetProtocol(), client.GetRevision()})
	require.Equal(t, "cannot read it", client.GetSubscriptions()[0].GetReason())
	require.NoError(t, stream.CloseSend())
	cancel()
	require.Eventually(t, func() bool {
		told, err = b.admin.Status(t.Context(), &adminv1.StatusRequest{})
		return err == nil && len(told.GetClients()) == 0
	}, 10*time.Second, 5*time.Millisecond)
}

func TestStatusAnswersWithoutADatabase(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Server(t)
	b := startAPI(t, postgres.URL)
	b.apply(map[string]string{"a": "x"})
	require.Eventually(t, func() bool {
		told, err := b.admin.Status(t.Context(), &adminv1.StatusRequest{})
		return err == nil && told.GetServer().GetRevision() == 1
	}, time.Minute, 5*time.Millisecond, "the server has not come to what was applied")
	postgres.Stop()

	told, err := b.admin.Status(t.Context(), &adminv1.StatusRequest{})

	require.NoError(t, err)
	require.Nil(t, told.GetMesh())
	require.Equal(t, int64(1), told.GetServer().GetRevision(), "what it serves, it serves")
	_, err = b.admin.List(t.Context(), &adminv1.ListRequest{})
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err))
	_, err = b.watch(&adminv1.WatchRequest{}).Recv()
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err))
}
