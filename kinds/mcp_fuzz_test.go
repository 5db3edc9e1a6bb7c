package kinds_test

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// FuzzFromAny holds that whatever decodes also encodes, and decodes to the same again. Anything
// else must return an error.
func FuzzFromAny(f *testing.F) {
	add := func(name string, m *mcp.Resource, body proto.Message) {
		if body != nil {
			packed, err := anypb.New(body)
			require.NoError(f, err)
			m.Body = packed
		}
		wrapped, err := anypb.New(m)
		require.NoError(f, err)
		for i := range kinds.All() {
			f.Add(i, name, wrapped.TypeUrl, wrapped.Value)
		}
	}
	spec, err := structpb.NewStruct(map[string]any{"hosts": []any{"a"}, "resolution": "DNS"})
	require.NoError(f, err)
	add("", &mcp.Resource{Metadata: &mcp.Metadata{Name: "shop/a", Labels: map[string]string{"a": "b"}}}, &networking.ServiceEntry{Hosts: []string{"a"}})
	add("/a", &mcp.Resource{Metadata: &mcp.Metadata{CreateTime: &timestamppb.Timestamp{Seconds: -62135596800}}}, spec)
	add("a", &mcp.Resource{Metadata: &mcp.Metadata{CreateTime: &timestamppb.Timestamp{Nanos: -1}}}, spec)
	add("a/b/c", &mcp.Resource{}, nil)
	f.Add(0, "", "type.googleapis.com/istio.mesh.v1alpha1.MeshConfig", []byte{0xff})
	f.Fuzz(func(t *testing.T, kind int, name, typeURL string, value []byte) {
		if !utf8.ValidString(name) {
			t.Skip("no message holds such a name")
		}
		all := kinds.All()
		k := all[uint(kind)%uint(len(all))]
		r, err := kinds.FromAny(k, name, &anypb.Any{TypeUrl: typeURL, Value: value})
		if err != nil {
			require.Nil(t, r)
			return
		}
		require.NotEmpty(t, r.Name)
		again, err := r.Any("1")
		require.NoError(t, err)
		back, err := kinds.FromAny(k, r.Key().FullName(), again)
		require.NoError(t, err)
		require.Equal(t, r.Key(), back.Key())
		if !k.Bare {
			require.True(t, r.CreateTime.Equal(back.CreateTime))
			require.Empty(t, cmp.Diff(r.Spec.Message(), back.Spec.Message(), protocmp.Transform()))
		}
	})
}
