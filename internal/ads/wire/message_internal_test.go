package wire

import (
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func resource(t *testing.T, name, version, text string) *served.Resource {
	t.Helper()
	body, err := anypb.New(wrapperspb.String(text))
	require.NoError(t, err)
	return &served.Resource{Name: name, Version: version, Body: body}
}

// many returns resources of both sorts, of length 0 and of lengths around those at which a varint
// grows.
func many(t *testing.T) (all []*served.Resource) {
	t.Helper()
	for _, n := range []int{0, 1, 60, 80, 100, 127, 128, 129, 200, 16_000, 16_383, 16_384, 100_000} {
		r := resource(t, strings.Repeat("n", n/100+1), strings.Repeat("v", n/1000), strings.Repeat("x", n))
		one := served.NewResource(r.Name, r.Version, r.Body)
		require.Equal(t, []string{r.Name, r.Version}, []string{one.Name, one.Version})
		require.True(t, proto.Equal(r.Body, one.Body))
		all = append(all, r, one)
	}
	return all
}

func TestAnEncodedResponseIsItsProtobufMessage(t *testing.T) {
	t.Parallel()
	r := &Response{TypeURL: "type", Revision: "8", Nonce: "12", Resources: many(t), Removed: []string{"a", "b"}}

	delta := &discoveryv3.DeltaDiscoveryResponse{}
	require.NoError(t, proto.Unmarshal(r.delta("me").Encoded().Materialize(), delta))
	require.Equal(t, []string{"type", "8", "12", "me"}, []string{delta.GetTypeUrl(), delta.GetSystemVersionInfo(), delta.GetNonce(), delta.GetControlPlane().GetIdentifier()})
	require.Equal(t, []string{"a", "b"}, delta.GetRemovedResources())
	require.Len(t, delta.GetResources(), len(r.Resources))
	for i, got := range delta.GetResources() {
		want := r.Resources[i]
		require.True(t, proto.Equal(&discoveryv3.Resource{Name: want.Name, Version: want.Version, Resource: want.Body}, got), want.Name)
	}

	sotw := &discoveryv3.DiscoveryResponse{}
	require.NoError(t, proto.Unmarshal(r.sotw("me").Encoded().Materialize(), sotw))
	require.Equal(t, []string{"type", "8", "12", "me"}, []string{sotw.GetTypeUrl(), sotw.GetVersionInfo(), sotw.GetNonce(), sotw.GetControlPlane().GetIdentifier()})
	require.Len(t, sotw.GetResources(), len(r.Resources))
	for i, got := range sotw.GetResources() {
		require.True(t, proto.Equal(r.Resources[i].Body, got), r.Resources[i].Name)
	}
}

// Two streams send the same memory.
func TestStreamsShareEncodedResources(t *testing.T) {
	t.Parallel()
	all := many(t)[4:]
	one, two := &Response{Nonce: "1", Resources: all}, &Response{Nonce: "2", Resources: all}

	first, second, whole := one.delta("").Encoded(), two.delta("").Encoded(), one.sotw("").Encoded()
	for i := 1; i < len(first); i++ {
		a, b := first[i].ReadOnlyData(), second[i].ReadOnlyData()
		require.Same(t, &a[0], &b[0])
		c := whole[i].ReadOnlyData() // of the delta element it has the end
		require.Same(t, &a[len(a)-1], &c[len(c)-1])
	}
}

func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	all, removed := many(t), []string{"a", "b", strings.Repeat("c", 500), "d"}
	for _, most := range []int{1, 100, 1000, 20_000, 1 << 20, 0} {
		var got []*served.Resource
		var gone []string
		for p := range Parts(all, removed, most) {
			size := 0
			for _, r := range p.Resources {
				size += r.Size()
			}
			for _, name := range p.Removed {
				size += sizeOf(removedField, len(name))
			}
			require.Positive(t, len(p.Resources)+len(p.Removed))
			if most > 0 && len(p.Resources)+len(p.Removed) > 1 {
				require.LessOrEqual(t, size, most)
			}
			got, gone = append(got, p.Resources...), append(gone, p.Removed...)
		}
		require.Equal(t, all, got)
		require.Equal(t, removed, gone)
	}
}

func TestAnEmptyResponseHasOnePart(t *testing.T) {
	t.Parallel()
	n := 0
	for p := range Parts(nil, nil, 10) {
		require.Empty(t, p.Resources)
		n++
	}
	require.Equal(t, 1, n)
}

// A client asks for a host by other names. The answer lists these as aliases, even if there is no
// such host.
func TestAnAnswerListsTheAliasesThatItIsFor(t *testing.T) {
	t.Parallel()
	for _, one := range many(t) {
		aliases := []string{"80/a", strings.Repeat("b", 200)}
		r := &Response{Resources: []*served.Resource{served.NewAnswer("host", "1", one.Body, aliases), served.NewAnswer("80/c", "2", nil, nil)}}

		got := &discoveryv3.DeltaDiscoveryResponse{}
		require.NoError(t, proto.Unmarshal(r.delta("me").Encoded().Materialize(), got))
		require.Len(t, got.GetResources(), 2)
		require.True(t, proto.Equal(&discoveryv3.Resource{Name: "host", Version: "1", Aliases: aliases, Resource: one.Body}, got.GetResources()[0]))
		require.True(t, proto.Equal(&discoveryv3.Resource{Name: "80/c", Version: "2"}, got.GetResources()[1]))
	}
}
