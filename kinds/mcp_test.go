package kinds_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// kind finds a kind that must exist.
func kind(t testing.TB, word string) *kinds.Kind {
	t.Helper()
	k, err := kinds.ByName(word)
	require.NoError(t, err)
	return k
}

func TestMCPRoundTrip(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.All() {
		r := &kinds.Resource{
			Kind: k, Namespace: "shop", Name: "reviews",
			Labels: map[string]string{"app": "reviews"}, Annotations: map[string]string{"team": "blue"},
			CreateTime: time.Date(2025, 3, 1, 12, 0, 0, 5000, time.UTC), Spec: kinds.SpecOf(k.NewSpec()),
		}
		envelope, err := r.MCP("7")
		require.NoError(t, err)
		require.Equal(t, "shop/reviews", envelope.Metadata.Name)
		require.Equal(t, "7", envelope.Metadata.Version)
		back, err := kinds.FromMCP(k, "", envelope)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(r, back, protocmp.Transform(), cmp.Comparer(sameKind)))
	}
}

func sameKind(a, b *kinds.Kind) bool { return a == b }

func TestAnyRoundTrip(t *testing.T) {
	t.Parallel()
	r := &kinds.Resource{Kind: kind(t, "vs"), Name: "reviews", Spec: kinds.SpecOf(&networking.VirtualService{Hosts: []string{"a"}})}
	a, err := r.Any("7")
	require.NoError(t, err)
	require.Equal(t, "type.googleapis.com/istio.mcp.v1alpha1.Resource", a.TypeUrl)
	back, err := kinds.FromAny(r.Kind, "", a)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(r, back, protocmp.Transform(), cmp.Comparer(sameKind)))
}

func TestBareKindsTravelWithoutEnvelope(t *testing.T) {
	t.Parallel()
	r := &kinds.Resource{Kind: kind(t, "meshconfig"), Namespace: "istio-system", Name: "meshconfig"}
	r.Spec = kinds.SpecOf(r.Kind.NewSpec())
	a, err := r.Any("7")
	require.NoError(t, err)
	require.Equal(t, "type.googleapis.com/istio.mesh.v1alpha1.MeshConfig", a.TypeUrl)
	back, err := kinds.FromAny(r.Kind, "", a)
	require.NoError(t, err)
	require.Equal(t, r.Key(), back.Key())

	wrapped, err := r.MCP("7")
	require.NoError(t, err)
	a, err = anypb.New(wrapped)
	require.NoError(t, err)
	_, err = kinds.FromAny(r.Kind, "", a)
	require.NoError(t, err)
}

func TestFromMCPTakesEveryNameForm(t *testing.T) {
	t.Parallel()
	k := kind(t, "gatewayclass")
	body, err := anypb.New(&structpb.Struct{})
	require.NoError(t, err)
	for full, want := range map[string]kinds.Key{
		"pgmesh":      {Kind: k, Name: "pgmesh"},
		"/pgmesh":     {Kind: k, Name: "pgmesh"},
		"shop/pgmesh": {Kind: k, Namespace: "shop", Name: "pgmesh"},
	} {
		r, err := kinds.FromMCP(k, "", &mcp.Resource{Metadata: &mcp.Metadata{Name: full}, Body: body})
		require.NoError(t, err)
		require.Equal(t, want, r.Key())
		require.True(t, r.CreateTime.IsZero())

		r, err = kinds.FromMCP(k, full, &mcp.Resource{Body: body})
		require.NoError(t, err)
		require.Equal(t, want, r.Key())
	}
}

func TestFromMCPToleratesUnknownFields(t *testing.T) {
	t.Parallel()
	k := kind(t, "vs")
	body, err := anypb.New(&networking.VirtualService{Hosts: []string{"a"}})
	require.NoError(t, err)
	body.Value = append(body.Value, 0xa2, 0x06, 0x02, '{', '}') // field 100, as one known server adds
	r, err := kinds.FromMCP(k, "shop/reviews", &mcp.Resource{Body: body})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, r.Spec.Message().(*networking.VirtualService).Hosts)
}

func TestFromMCPErrorsNameTheResource(t *testing.T) {
	t.Parallel()
	k := kind(t, "vs")
	other, err := anypb.New(&networking.Gateway{})
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		body *anypb.Any
		want string
	}{
		{"shop/reviews", nil, `decode VirtualService shop/reviews from MCP: it has no body`},
		{"shop/reviews", other, `decode VirtualService shop/reviews from MCP: its body is a "type.googleapis.com/istio.networking.v1alpha3.Gateway", expected a "type.googleapis.com/istio.networking.v1alpha3.VirtualService"`},
		{"", other, `decode a VirtualService from MCP: its name is "", expected "namespace/name"`},
		{"a/b/c", other, `decode a VirtualService from MCP: its name is "a/b/c", expected "namespace/name"`},
	} {
		_, err := kinds.FromMCP(k, "", &mcp.Resource{Metadata: &mcp.Metadata{Name: c.name}, Body: c.body})
		require.EqualError(t, err, c.want)
	}
	broken := &anypb.Any{TypeUrl: "type.googleapis.com/istio.networking.v1alpha3.VirtualService", Value: []byte{0xff}}
	_, err = kinds.FromMCP(k, "shop/reviews", &mcp.Resource{Body: broken})
	require.ErrorContains(t, err, "decode VirtualService shop/reviews from MCP: ")
}

func TestMCPBytesAreDeterministic(t *testing.T) {
	t.Parallel()
	k := kind(t, "dr")
	spec := &networking.DestinationRule{Host: "a", Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}}}}
	r := &kinds.Resource{Kind: k, Name: "a", Spec: kinds.SpecOf(spec), Labels: map[string]string{"x": "1", "y": "2", "z": "3"}}
	first, err := r.Any("1")
	require.NoError(t, err)
	for range 20 {
		again, err := r.Any("1")
		require.NoError(t, err)
		require.True(t, proto.Equal(first, again))
	}
}
