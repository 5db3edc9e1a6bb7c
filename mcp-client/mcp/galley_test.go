package mcp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	mcpapi "istio.io/api/mcp/v1alpha1"
	meshv1 "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// galley is a source of the first generation, played by the test. Like Galley, it ends a stream
// that asks for a collection it does not know.
type galley struct {
	legacyv1.UnimplementedResourceSourceServer
	*endpoint
	version string
	knows   map[string]bool
	silent  bool // it does not say which collection it does not know
	streams chan *galleyStream
}

type galleyStream struct {
	legacyv1.ResourceSource_EstablishResourceStreamServer
	t      *testing.T
	end    chan error
	nonces int
}

func newGalley(t *testing.T, known ...*kinds.Kind) *galley {
	s := &galley{version: "1.4.3", knows: map[string]bool{}, streams: make(chan *galleyStream, 1)}
	for _, k := range known {
		s.knows[k.Collection] = true
	}
	s.endpoint = listen(t, func(g *grpc.Server) { legacyv1.RegisterResourceSourceServer(g, s) })
	return s
}

func (s *galley) EstablishResourceStream(g legacyv1.ResourceSource_EstablishResourceStreamServer) error {
	if err := g.SendHeader(metadata.Pairs(legacyv1.VersionHeader, s.version)); err != nil {
		return err
	}
	one := &galleyStream{ResourceSource_EstablishResourceStreamServer: g, t: s.t, end: make(chan error)}
	return handOver(g.Context(), s.streams, one, one.end)
}

// accept takes the next stream whose requests are all for known collections, and those requests.
func (s *galley) accept(collections ...string) *galleyStream {
	s.t.Helper()
	for {
		g := <-s.streams
		asked, unknown := []string{}, ""
		for range collections {
			r := g.request()
			require.Empty(s.t, r.GetResponseNonce())
			require.Empty(s.t, r.GetInitialResourceVersions())
			require.False(s.t, r.GetIncremental(), "the first answer is to be everything")
			require.NotEmpty(s.t, r.GetSinkNode().GetId())
			asked = append(asked, r.GetCollection())
			if !s.knows[r.GetCollection()] {
				unknown = r.GetCollection()
				break
			}
		}
		if unknown == "" {
			require.Equal(s.t, collections, asked)
			return g
		}
		g.end <- s.refusal(unknown)
	}
}

func (s *galley) refusal(collection string) error {
	if s.silent {
		return status.Error(codes.InvalidArgument, "unsupported collection")
	}
	return status.Errorf(codes.InvalidArgument, "unsupported collection %q", collection)
}

func (g *galleyStream) request() *legacyv1.RequestResources {
	g.t.Helper()
	r, err := g.Recv()
	require.NoError(g.t, err)
	return r
}

// say sends a collection in full, or only its changes.
func (g *galleyStream) say(collection string, incremental bool, rs []*mcpapi.Resource, removed ...string) {
	g.t.Helper()
	g.nonces++
	require.NoError(g.t, g.Send(&legacyv1.Resources{
		Collection: collection, SystemVersionInfo: fmt.Sprintf("%s/%d", collection, g.nonces), Nonce: fmt.Sprint(g.nonces),
		Resources: rs, RemovedResources: removed, Incremental: incremental,
	}))
}

// acked takes the answer to the last response, which must accept it and ask for increments.
func (g *galleyStream) acked() {
	g.t.Helper()
	r := g.request()
	require.Nil(g.t, r.GetErrorDetail())
	require.Equal(g.t, fmt.Sprint(g.nonces), r.GetResponseNonce())
	require.True(g.t, r.GetIncremental())
}

func (g *galleyStream) refused(code codes.Code) string {
	g.t.Helper()
	r := g.request()
	require.Equal(g.t, int32(code), r.GetErrorDetail().GetCode())
	require.Equal(g.t, fmt.Sprint(g.nonces), r.GetResponseNonce())
	require.False(g.t, r.GetIncremental(), "after a refusal the next is to be everything")
	return r.GetErrorDetail().GetMessage()
}

// legacyResources has resources as sent, with versions counted like those of Galley's file source.
func legacyResources(t *testing.T, version string, rs ...*kinds.Resource) []*mcpapi.Resource {
	t.Helper()
	made := make([]*mcpapi.Resource, len(rs))
	for i, r := range rs {
		m, err := r.MCP(version)
		require.NoError(t, err)
		made[i] = m
	}
	return made
}

var entries, routes = serviceEntry.Collection, virtualService.Collection

func TestGalley(t *testing.T) {
	t.Parallel()
	s := newGalley(t, both...)
	f := follow(t, s.addr)
	g := s.accept(entries, routes)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1"), entry("b", "1")))
	g.acked()
	g.say(routes, false, nil) // an empty collection is answered too
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	g.acked()
	require.Equal(t, mcp.Legacy, f.client.Status().Protocol)

	// A source without increments sends everything each time.
	g.say(entries, false, legacyResources(t, "v2", entry("a", "2")), "default/unheard-of")
	f.expect(0, "ServiceEntry default/a=2", "ServiceEntry default/b gone")
	g.acked()
}

// Galley answers in any order. A client that reads once wants the MeshConfig too, and learns if
// there is none.
func TestOptionalTimeoutWaitsForMeshConfig(t *testing.T) {
	t.Parallel()
	meshConfig := kind("MeshConfig")
	s := newGalley(t, serviceEntry, meshConfig)
	f := follow(t, s.addr, only(meshConfig, serviceEntry), func(cfg *mcp.Config) { cfg.OptionalTimeout = limit })
	g := s.accept(meshConfig.Collection, entries)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	g.acked()
	body, err := anypb.New(&meshv1.MeshConfig{RootNamespace: "root"})
	require.NoError(t, err)
	g.say(meshConfig.Collection, false, []*mcpapi.Resource{{Metadata: &mcpapi.Metadata{Name: "istio-system/meshconfig"}, Body: body}})
	select {
	case b := <-f.batches:
		require.Len(t, b.Changes, 2)
	case <-time.After(limit):
		require.FailNow(t, "no batch came")
	}
}

func TestOnUnansweredReportsKinds(t *testing.T) {
	t.Parallel()
	meshConfig := kind("MeshConfig")
	s := newGalley(t, serviceEntry, meshConfig)
	unheard := make(chan []*kinds.Kind, 1)
	f := follow(t, s.addr, only(meshConfig, serviceEntry), func(cfg *mcp.Config) {
		cfg.OptionalTimeout, cfg.OnUnanswered = 50*time.Millisecond, func(left []*kinds.Kind) { unheard <- left }
	})
	g := s.accept(meshConfig.Collection, entries)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	f.expect(0, "ServiceEntry default/a=1")
	require.Equal(t, []*kinds.Kind{meshConfig}, <-unheard)
}

// An overloaded server gets the delay that it asks for.
func TestRetryDelay(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, func(cfg *mcp.Config) { cfg.Protocol = mcp.XDS })
	busy, err := status.New(codes.ResourceExhausted, "too many").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(700 * time.Millisecond)})
	require.NoError(t, err)
	(<-s.streams).end <- busy.Err()
	told := time.Now()
	<-s.streams
	require.GreaterOrEqual(t, time.Since(told), 600*time.Millisecond)
	require.Equal(t, 1, f.client.Status().Reconnects)
}

func TestGalleyIncrements(t *testing.T) {
	t.Parallel()
	s := newGalley(t, both...)
	f := follow(t, s.addr)
	g := s.accept(entries, routes)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1"), entry("b", "1"), entry("c", "1")))
	g.say(routes, false, nil)
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1", "ServiceEntry default/c=1")
	g.request()
	g.acked()
	g.say(entries, true, legacyResources(t, "v2", entry("a", "2")), "default/b", "default/never-there")
	f.expect(0, "ServiceEntry default/a=2", "ServiceEntry default/b gone")
	g.acked()
	g.say(entries, false, legacyResources(t, "v3", entry("a", "2")), "default/a") // everything: what is said to be gone does not count
	f.expect(0, "ServiceEntry default/c gone")
	g.acked()
}

// Galley 1.4 ignores the versions of the sink and sends everything first, perhaps marked as
// incremental.
func TestFirstLegacyAnswerIsComplete(t *testing.T) {
	t.Parallel()
	s := newGalley(t, both...)
	f := follow(t, s.addr)
	g := s.accept(entries, routes)
	g.say(entries, true, legacyResources(t, "v1", entry("a", "1"), entry("b", "1")))
	g.say(routes, true, nil)
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	g.end <- status.Error(codes.Unavailable, "gone")
	g = s.accept(entries, routes)
	g.say(entries, true, legacyResources(t, "v1", entry("b", "1"), entry("c", "1")))
	g.say(routes, true, nil)
	f.expect(0, "ServiceEntry default/a gone", "ServiceEntry default/c=1")
}

func TestUnknownCollectionEndsStream(t *testing.T) {
	t.Parallel()
	workloadEntry, gateway := kind("WorkloadEntry"), kind("Gateway")
	s := newGalley(t, serviceEntry, gateway)
	all := []*kinds.Kind{workloadEntry, serviceEntry, virtualService, gateway}
	f := follow(t, s.addr, only(all...))
	g := s.accept(entries, gateway.Collection)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	g.say(gateway.Collection, false, nil)
	f.expect(0, "ServiceEntry default/a=1")
	require.Zero(t, f.client.Status().Reconnects, "that was no failure")

	// The client does not ask the same version again.
	g.end <- status.Error(codes.Unavailable, "gone")
	g = s.accept(entries, gateway.Collection)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	g.say(gateway.Collection, false, nil)

	// It asks another version, once that has proved to be another.
	s.version, s.knows[routes] = "1.5.0", true
	g.end <- status.Error(codes.Unavailable, "upgraded")
	g = s.accept(entries, gateway.Collection)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	g.acked()
	g.end <- status.Error(codes.Unavailable, "gone")
	g = s.accept(entries, routes, gateway.Collection)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	g.say(routes, false, legacyResources(t, "v1", route("r", "1")))
	g.say(gateway.Collection, false, nil)
	f.expect(0, "VirtualService default/r=1")
}

func TestUnknownCollectionIsNotNamed(t *testing.T) {
	t.Parallel()
	s := newGalley(t, serviceEntry)
	s.silent = true
	lost := make(chan error, 100)
	follow(t, s.addr, func(cfg *mcp.Config) { cfg.Down = func(err error) { lost <- err } })
	(<-s.streams).end <- s.refusal(routes)
	require.Equal(t, codes.InvalidArgument, status.Code(<-lost), "it is a failure like any other")
	(<-s.streams).end <- s.refusal(routes)
	require.Equal(t, codes.InvalidArgument, status.Code(<-lost))
}

func TestLegacyRefusal(t *testing.T) {
	t.Parallel()
	s := newGalley(t, serviceEntry)
	f := follow(t, s.addr, only(serviceEntry))
	g := s.accept(entries)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	f.expect(0, "ServiceEntry default/a=1")
	g.acked()
	junk := &mcpapi.Resource{
		Metadata: &mcpapi.Metadata{Name: "default/a"}, Body: &anypb.Any{TypeUrl: "type.googleapis.com/example.Unknown"},
	}
	g.say(entries, true, append(legacyResources(t, "v2", entry("b", "1")), junk))
	f.expect(0, "ServiceEntry default/b=1") // the rest counts, and the last good a stays
	require.Contains(t, g.refused(codes.InvalidArgument), "default/a")
	g.say(entries, false, legacyResources(t, "v3", entry("a", "2"), entry("b", "1")))
	f.expect(0, "ServiceEntry default/a=2")
	g.acked()

	g.say("$triggerCollection", false, nil) // nobody asked for it
	require.Contains(t, g.refused(codes.Unimplemented), "$triggerCollection")
}

func TestGalleyMeshConfig(t *testing.T) {
	t.Parallel()
	s := newGalley(t, meshConfig, serviceEntry)
	f := follow(t, s.addr, only(meshConfig, serviceEntry))
	g := s.accept(meshConfig.Collection, entries)
	mesh := &kinds.Resource{Kind: meshConfig, Namespace: "istio-system", Name: "meshconfig", Spec: kinds.SpecOf(&meshv1.MeshConfig{RootNamespace: "root"})}
	g.say(meshConfig.Collection, false, legacyResources(t, "", mesh))
	g.say(entries, false, nil)
	f.expect(0, "MeshConfig istio-system/meshconfig="+host(mesh))
}

func TestLegacySourceLacksNewerKinds(t *testing.T) {
	t.Parallel()
	s := newGalley(t, serviceEntry)
	f := follow(t, s.addr, only(kind("HTTPRoute"), serviceEntry))
	g := s.accept(entries)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1")))
	f.expect(0, "ServiceEntry default/a=1")

	lost := make(chan error, 100)
	follow(t, s.addr, only(kind("HTTPRoute")), func(cfg *mcp.Config) { cfg.Down = func(err error) { lost <- err } })
	require.ErrorContains(t, <-lost, "carries none of the kinds")
}

// A server of the first generation may be replaced by another when it restarts.
func TestLegacyServerIsReplacedByPgmesh(t *testing.T) {
	t.Parallel()
	s := newGalley(t, both...)
	f := follow(t, s.addr)
	g := s.accept(entries, routes)
	g.say(entries, false, legacyResources(t, "v1", entry("a", "1"), entry("b", "1")))
	g.say(routes, false, nil)
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	s.kill()

	next := &source{}
	next.endpoint = &endpoint{t: t, register: next.register, addr: s.addr}
	next.commit(5, resources{entry("a", "1"), entry("c", "1")})
	next.start()
	t.Cleanup(next.kill)
	f.expect(5, "ServiceEntry default/a=1", "ServiceEntry default/b gone", "ServiceEntry default/c=1")
	require.Equal(t, mcp.Delta, f.client.Status().Protocol)
}
