package mcp_test

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	mcpapi "istio.io/api/mcp/v1alpha1"
	meshv1 "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// foreign is a server, played by the test, that only speaks the state of the world.
type foreign struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	*endpoint
	streams chan *foreignStream
}

type foreignStream struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
	t      *testing.T
	end    chan error
	nonces int
}

func newForeign(t *testing.T) *foreign {
	f := &foreign{streams: make(chan *foreignStream, 1)}
	f.endpoint = listen(t, func(g *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, f) })
	return f
}

func (f *foreign) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	s := &foreignStream{AggregatedDiscoveryService_StreamAggregatedResourcesServer: g, t: f.t, end: make(chan error)}
	return handOver(g.Context(), f.streams, s, s.end)
}

// accept takes the next stream, and its requests for these kinds and for the types of pgmesh.
func (f *foreign) accept(ks ...*kinds.Kind) *foreignStream {
	f.t.Helper()
	s := <-f.streams
	for i, k := range ks {
		r := s.request()
		require.Equal(f.t, k.TypeURL(), r.GetTypeUrl())
		require.Empty(f.t, r.GetResponseNonce())
		require.Equal(f.t, i == 0, r.GetNode() != nil)
	}
	require.Equal(f.t, mcpv1.StandingTypeURL, s.request().GetTypeUrl())
	require.Equal(f.t, mcpv1.BatchTypeURL, s.request().GetTypeUrl())
	return s
}

func (s *foreignStream) request() *discoveryv3.DiscoveryRequest {
	s.t.Helper()
	r, err := s.Recv()
	require.NoError(s.t, err)
	return r
}

// say sends the whole of a type with a version.
func (s *foreignStream) say(typeURL, version string, bodies ...*anypb.Any) {
	s.t.Helper()
	s.nonces++
	require.NoError(s.t, s.Send(&discoveryv3.DiscoveryResponse{
		TypeUrl: typeURL, VersionInfo: version, Nonce: fmt.Sprint("nonce-", s.nonces), Resources: bodies,
		ControlPlane: &corev3.ControlPlane{Identifier: `{"Component":"istiod","ID":"istiod-0","Info":{"version":"1.31"}}`},
	}))
}

// acked takes the answer to the last response, which must be an ACK.
func (s *foreignStream) acked(version string) {
	s.t.Helper()
	r := s.request()
	require.Nil(s.t, r.GetErrorDetail())
	require.Equal(s.t, fmt.Sprint("nonce-", s.nonces), r.GetResponseNonce())
	require.Equal(s.t, version, r.GetVersionInfo())
	require.NotNil(s.t, r.GetNode())
}

// asked takes first requests for these types.
func (s *foreignStream) asked(typeURLs ...string) {
	s.t.Helper()
	for _, typeURL := range typeURLs {
		r := s.request()
		require.Equal(s.t, typeURL, r.GetTypeUrl())
		require.Empty(s.t, r.GetResponseNonce())
	}
}

// answered takes the answers to the last few responses, which must be ACKs.
func (s *foreignStream) answered(n int) {
	s.t.Helper()
	for i := range n {
		r := s.request()
		require.Equal(s.t, fmt.Sprint("nonce-", s.nonces-n+1+i), r.GetResponseNonce())
		require.Nil(s.t, r.GetErrorDetail())
	}
}

func (s *foreignStream) refused() *discoveryv3.DiscoveryRequest {
	s.t.Helper()
	r := s.request()
	require.Equal(s.t, fmt.Sprint("nonce-", s.nonces), r.GetResponseNonce())
	require.Equal(s.t, int32(codes.InvalidArgument), r.GetErrorDetail().GetCode())
	return r
}

// envelope wraps a resource for MCP. The test's entries have no create time, and a version only if
// they are given one.
func envelope(t *testing.T, r *kinds.Resource, version string) *anypb.Any {
	t.Helper()
	body, err := r.Any(version)
	require.NoError(t, err)
	return body
}

// broken is a resource whose body has the wrong type.
func broken(t *testing.T, name string) *anypb.Any {
	t.Helper()
	body, err := anypb.New(&mcpapi.Resource{
		Metadata: &mcpapi.Metadata{Name: name, Version: "broken"},
		Body:     &anypb.Any{TypeUrl: "type.googleapis.com/istio.networking.v1alpha3.ServiceEntry", Value: []byte{0xff}},
	})
	require.NoError(t, err)
	return body
}

func TestStateOfTheWorldServer(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr)
	g := s.accept(both...)
	g.say(serviceEntry.TypeURL(), "push-1", envelope(t, entry("a", "1"), ""), envelope(t, entry("b", "1"), ""))
	g.acked("push-1")
	g.say(mcpv1.BatchTypeURL, "push-1") // it knows nothing of batches
	g.acked("push-1")
	g.say(virtualService.TypeURL(), "push-1")
	g.asked(virtualService.TypeURLs()[1:]...)
	g.acked("push-1")
	for _, alias := range virtualService.TypeURLs()[1:] { // there is none by its other names either
		g.say(alias, "push-1")
	}
	first := f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	require.True(t, first.Changes[0].Resource.CreateTime.IsZero())
	g.answered(2)

	// A full push delivers the difference, and removes what is absent.
	g.say(virtualService.TypeURL(), "push-2")
	g.acked("push-2")
	g.say(serviceEntry.TypeURL(), "push-2", envelope(t, entry("a", "2"), ""), envelope(t, entry("c", "1"), ""))
	f.expect(0, "ServiceEntry default/a=2", "ServiceEntry default/b gone", "ServiceEntry default/c=1")
	g.acked("push-2")
	g.say(serviceEntry.TypeURL(), "push-3", envelope(t, entry("a", "2"), ""), envelope(t, entry("c", "1"), ""))
	g.acked("push-3")

	// When the stream breaks nothing is removed. Changes are delivered once the new stream is
	// complete.
	g.end <- status.Error(codes.Unavailable, "gone for lunch")
	g = s.accept(both...)
	g.say(serviceEntry.TypeURL(), "push-9", envelope(t, entry("a", "2"), ""))
	g.acked("push-9")
	g.say(virtualService.TypeURL(), "push-9", envelope(t, route("r", "1"), ""))
	f.expect(0, "ServiceEntry default/c gone", "VirtualService default/r=1")
	g.acked("push-9")
	require.Equal(t, 1, f.client.Status().Reconnects)
}

func TestUndecodableResourceIsRefusedByName(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, only(serviceEntry))
	g := s.accept(serviceEntry)
	g.say(serviceEntry.TypeURL(), "1", envelope(t, entry("a", "1"), ""), envelope(t, entry("b", "1"), ""))
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	g.acked("1")
	g.say(serviceEntry.TypeURL(), "2", broken(t, "default/a"), envelope(t, entry("c", "1"), ""))
	f.expect(0, "ServiceEntry default/b gone", "ServiceEntry default/c=1") // and the last good a stays
	nack := g.refused()
	require.Contains(t, nack.GetErrorDetail().GetMessage(), "ServiceEntry default/a")
	require.NotContains(t, nack.GetErrorDetail().GetMessage(), "default/c")
	require.Equal(t, "1", nack.GetVersionInfo(), "a refusal names the version that is in force")

	// A resource whose name cannot be read could be any, so nothing is removed.
	junk := &anypb.Any{TypeUrl: "type.googleapis.com/istio.mcp.v1alpha1.Resource", Value: []byte{0xff}}
	g.say(serviceEntry.TypeURL(), "3", junk, envelope(t, entry("d", "1"), ""))
	f.expect(0, "ServiceEntry default/d=1")
	g.refused()
	g.say(serviceEntry.TypeURL(), "4", envelope(t, entry("a", "2"), ""))
	f.expect(0, "ServiceEntry default/a=2", "ServiceEntry default/c gone", "ServiceEntry default/d gone")
	g.acked("4")
}

func TestBareMeshConfig(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, only(meshConfig, serviceEntry))
	g := s.accept(meshConfig, serviceEntry)
	mesh := &meshv1.MeshConfig{RootNamespace: "root"}
	bare, err := anypb.New(mesh)
	require.NoError(t, err)
	g.say(serviceEntry.TypeURL(), "1", envelope(t, entry("b", "1"), ""))
	f.expect(0, "ServiceEntry default/b=1") // Nacos never answers for the mesh configuration, so that nobody waits for it
	g.acked("1")
	g.say(meshConfig.TypeURL(), "1", bare)
	f.expect(0, "MeshConfig istio-system/meshconfig="+fmt.Sprint(mesh))
	g.acked("1")
	g.say(meshConfig.TypeURL(), "2", &anypb.Any{TypeUrl: bare.GetTypeUrl(), Value: []byte{0xff}})
	require.Equal(t, "1", g.refused().GetVersionInfo())
	g.say(meshConfig.TypeURL(), "3", bare) // the last good one stayed: this is nothing new
	g.acked("3")
	g.say(serviceEntry.TypeURL(), "3", envelope(t, entry("a", "1"), ""))
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b gone")
}

func TestUnrequestedTypes(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, only(serviceEntry))
	g := s.accept(serviceEntry)
	g.say("example.com/v1/Thing", "1", envelope(t, entry("a", "1"), ""))
	g.acked("1")
	g.say(virtualService.TypeURL(), "1", envelope(t, route("r", "1"), ""))
	g.acked("1")
	g.say(serviceEntry.TypeURL(), "1", envelope(t, entry("a", "1"), ""))
	f.expect(0, "ServiceEntry default/a=1")
}

// A foreign server may have pgmesh's identifier and know no batches.
func TestMisleadingIdentifier(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, only(serviceEntry))
	g := s.accept(serviceEntry)
	body := envelope(t, entry("a", "1"), "1")
	for _, r := range []*discoveryv3.DiscoveryResponse{
		{TypeUrl: serviceEntry.TypeURL(), Nonce: "1", Resources: []*anypb.Any{body}},
		{TypeUrl: mcpv1.BatchTypeURL, Nonce: "2"},
	} {
		r.ControlPlane = &corev3.ControlPlane{Identifier: mcpv1.Identifier + "-of-another-kind"}
		require.NoError(t, g.Send(r))
	}
	f.expect(0, "ServiceEntry default/a=1")
}

func TestTooManyReorderedResponses(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, only(serviceEntry))
	g := s.accept(serviceEntry)
	for range 200 {
		g.say(serviceEntry.TypeURL(), "1", envelope(t, entry("a", "1"), ""))
	}
	f.expect(0, "ServiceEntry default/a=1")
	g.end <- status.Error(codes.Unavailable, "gone")
	g = s.accept(serviceEntry)
	g.say(serviceEntry.TypeURL(), "2", envelope(t, entry("a", "2"), ""))
	f.expect(0, "ServiceEntry default/a=2")
}

// Retries begin at 50 ms and grow by half each time, each randomized by half.
func TestBackoffWhenServerEndsStreams(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*foreignStream){
		"at once":         func(*foreignStream) {},
		"after an answer": func(g *foreignStream) { g.say(virtualService.TypeURL(), "1") },
	}
	for name, before := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newForeign(t)
			f := follow(t, s.addr)
			began := time.Now()
			const attempts = 6
			for range attempts {
				g := s.accept(both...)
				before(g)
				g.end <- status.Error(codes.Unavailable, "go away")
			}
			s.accept(both...)
			least := time.Duration(0)
			for i, wait := 0, 25*time.Millisecond; i < attempts; i, wait = i+1, wait*3/2 {
				least += wait
			}
			require.GreaterOrEqual(t, time.Since(began), least)
			require.Equal(t, attempts, f.client.Status().Reconnects)
			require.False(t, f.client.Status().Synced)
		})
	}
}

func TestServerStartsLater(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	s.kill()
	f := follow(t, s.addr, func(cfg *mcp.Config) { cfg.Protocol = mcp.XDS })
	s.start()
	g := s.accept(both...)
	g.say(serviceEntry.TypeURL(), "1", envelope(t, entry("a", "1"), ""))
	g.say(virtualService.TypeURL(), "1", envelope(t, route("r", "1"), ""))
	f.expect(0, "ServiceEntry default/a=1", "VirtualService default/r=1")
}
