package legacy_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	mcp "istio.io/api/mcp/v1alpha1"

	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

const virtualServiceMessage = "type.googleapis.com/istio.networking.v1alpha3.VirtualService"

// aggregated is the client's end of a stream of the aggregated service. Req and Resp are its
// messages.
type aggregated[Req, Resp any] struct {
	t      *testing.T
	stream interface {
		Send(*Req) error
		Recv() (*Resp, error)
	}
}

func (a aggregated[Req, Resp]) exchange(r *Req) *Resp {
	a.t.Helper()
	require.NoError(a.t, a.stream.Send(r))
	return a.recv()
}

func (a aggregated[Req, Resp]) recv() *Resp {
	a.t.Helper()
	r, err := a.stream.Recv()
	require.NoError(a.t, err)
	return r
}

func (m *mesh) aggregated() aggregated[legacyv1.MeshConfigRequest, legacyv1.MeshConfigResponse] {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	m.t.Cleanup(cancel)
	stream, err := legacyv1.NewAggregatedMeshConfigServiceClient(m.client).StreamAggregatedResources(ctx)
	require.NoError(m.t, err)
	return aggregated[legacyv1.MeshConfigRequest, legacyv1.MeshConfigResponse]{m.t, stream}
}

func nameList(resources []*mcp.Resource) []string {
	return names(&legacyv1.Resources{Resources: resources})
}

func TestThePilotOfIstio10AsksByTypeURL(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.aggregated()
	client := &legacyv1.Client{Id: "pilot"}
	r := s.exchange(&legacyv1.MeshConfigRequest{SinkNode: client, TypeUrl: virtualServiceMessage})
	require.Equal(t, virtualServiceMessage, r.GetTypeUrl())
	require.Equal(t, "1", r.GetNonce())
	require.Equal(t, []string{"default/a"}, nameList(r.GetResources()))
	for i, dead := range []string{"istio.rbac.v1alpha1.ServiceRole", "istio.authentication.v1alpha1.Policy", "istio.mixer.v1.config.client.QuotaSpec"} {
		url := "type.googleapis.com/" + dead
		empty := s.exchange(&legacyv1.MeshConfigRequest{SinkNode: client, TypeUrl: url})
		require.Equal(t, url, empty.GetTypeUrl())
		require.Empty(t, empty.GetResources())
		require.Equal(t, string(rune('2'+i)), empty.GetNonce())
	}

	require.NoError(t, s.stream.Send(&legacyv1.MeshConfigRequest{TypeUrl: virtualServiceMessage, ResponseNonce: "1", VersionInfo: r.GetVersionInfo()}))
	m.write("b=b")
	next := s.recv()
	require.Equal(t, []string{"default/a", "default/b"}, nameList(next.GetResources()))
	require.NotEqual(t, r.GetVersionInfo(), next.GetVersionInfo())
	require.Equal(t, "pilot", m.source.Streams()[0].Sink)
}

func TestThePilotOfIstio11AsksByCollection(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.aggregated()
	r := s.exchange(&legacyv1.MeshConfigRequest{TypeUrl: virtualServices})
	require.Equal(t, virtualServices, r.GetTypeUrl())
	require.Equal(t, []string{"default/a"}, nameList(r.GetResources()))

	// A refusal names the version that the sink still has, here none. That must not cause the same
	// response again.
	refusal := &legacyv1.MeshConfigRequest{TypeUrl: virtualServices, ResponseNonce: r.GetNonce(), ErrorDetail: &rpcstatus.Status{Code: 3}}
	require.NoError(t, s.stream.Send(refusal))
	require.Equal(t, gateways, s.exchange(&legacyv1.MeshConfigRequest{TypeUrl: gateways}).GetTypeUrl())
	m.write("b=b")
	require.Len(t, s.recv().GetResources(), 2)
}

func TestASinkThatNamesTheNewestVersionHasIt(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	r := m.aggregated().exchange(&legacyv1.MeshConfigRequest{TypeUrl: virtualServices})

	s := m.aggregated()
	require.NoError(t, s.stream.Send(&legacyv1.MeshConfigRequest{TypeUrl: virtualServices, VersionInfo: r.GetVersionInfo()}))
	require.Equal(t, gateways, s.exchange(&legacyv1.MeshConfigRequest{TypeUrl: gateways}).GetTypeUrl())
	m.write("b=b")
	require.Len(t, s.recv().GetResources(), 2)

	s = m.aggregated()
	require.Len(t, s.exchange(&legacyv1.MeshConfigRequest{TypeUrl: virtualServices, VersionInfo: "older"}).GetResources(), 2)
}

func TestAnUnknownTypeEndsTheAggregatedStream(t *testing.T) {
	t.Parallel()
	s := newMesh(t).aggregated()
	require.NoError(t, s.stream.Send(&legacyv1.MeshConfigRequest{TypeUrl: "type.googleapis.com/istio.Nothing"}))
	_, err := s.stream.Recv()
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestTheAggregatedServiceIsIncrementalToo(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	open := func() aggregated[legacyv1.IncrementalMeshConfigRequest, legacyv1.IncrementalMeshConfigResponse] {
		stream, err := legacyv1.NewAggregatedMeshConfigServiceClient(m.client).IncrementalAggregatedResources(ctx)
		require.NoError(t, err)
		return aggregated[legacyv1.IncrementalMeshConfigRequest, legacyv1.IncrementalMeshConfigResponse]{t, stream}
	}
	s := open()
	r := s.exchange(&legacyv1.IncrementalMeshConfigRequest{TypeUrl: virtualServices})
	require.Equal(t, []string{"default/a", "default/b"}, nameList(r.GetResources()))
	require.NoError(t, s.stream.Send(&legacyv1.IncrementalMeshConfigRequest{TypeUrl: virtualServices, ResponseNonce: r.GetNonce()}))
	m.remove("b")
	next := s.recv()
	require.Empty(t, next.GetResources())
	require.Equal(t, []string{"default/b"}, next.GetRemovedResources())

	s = open()
	held := map[string]string{"default/b": "x", "default/a": r.GetResources()[0].GetMetadata().GetVersion()}
	r = s.exchange(&legacyv1.IncrementalMeshConfigRequest{TypeUrl: virtualServices, InitialResourceVersions: held})
	require.Empty(t, r.GetResources())
	require.Equal(t, []string{"default/b"}, r.GetRemovedResources())
}
