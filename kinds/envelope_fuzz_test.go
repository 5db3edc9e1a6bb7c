package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
)

// envelopes returns encoded envelopes and fragments of them. Concatenated, they set fields twice.
func envelopes(t testing.TB) (all [][]byte) {
	t.Helper()
	for _, m := range []*mcp.Resource{
		{},
		{Metadata: &mcp.Metadata{}, Body: &anypb.Any{}},
		{Metadata: &mcp.Metadata{Name: "shop/a", Version: "1", Labels: map[string]string{"a": "b", "": "c"}}},
		{Metadata: &mcp.Metadata{Name: "shop/b", Labels: map[string]string{"a": "d", "e": ""}, Annotations: map[string]string{"f": "g"}}},
		{Metadata: &mcp.Metadata{CreateTime: &timestamppb.Timestamp{Seconds: 1700000000, Nanos: 5}, Version: "2"}},
		{Metadata: &mcp.Metadata{CreateTime: &timestamppb.Timestamp{Seconds: -1, Nanos: -1}}},
		{Body: &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Struct"}},
		{Body: &anypb.Any{Value: []byte("value")}},
	} {
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		all = append(all, b)
	}
	// The fields that are known, as numbers, groups and fixed numbers, which makes other fields of
	// them.
	return append(all, []byte{0x08, 1, 0x10, 2}, []byte{0x0b, 0x0c}, []byte{0x0d, 1, 2, 3, 4}, []byte{0x0a, 2, 0x08, 1}, []byte{0x0a, 2, 0x13, 0x14},
		[]byte{0x0a, 4, 0x22, 2, 0x08, 1}, []byte{0x0a, 6, 0x12, 4, 0x0a, 0, 0x10, 7}, []byte{0x12, 2, 0x08, 1}, []byte{0x0a, 5, 0x0a, 3, 'a'})
}

// sameEnvelope fails unless OpenEnvelope reads the bytes like the decoder.
func sameEnvelope(t *testing.T, b []byte) {
	t.Helper()
	want := &mcp.Resource{}
	wanted := proto.Unmarshal(b, want)
	got, err := kinds.OpenEnvelope(b)
	require.Equal(t, wanted == nil, err == nil, "%x: %v, and the decoder says %v", b, err, wanted)
	if err != nil {
		return
	}
	known := &mcp.Metadata{
		Name: want.GetMetadata().GetName(), Version: want.GetMetadata().GetVersion(),
		Labels: want.GetMetadata().GetLabels(), Annotations: want.GetMetadata().GetAnnotations(),
	}
	if at := want.GetMetadata().GetCreateTime(); at != nil {
		known.CreateTime = &timestamppb.Timestamp{Seconds: at.GetSeconds(), Nanos: at.GetNanos()}
	}
	require.True(t, proto.Equal(known, got.Metadata()), "%x: %v, and the decoder says %v", b, got.Metadata(), known)
	require.Equal(t, want.GetBody() != nil, got.Body.Present)
	require.Equal(t, want.GetBody().GetTypeUrl(), string(got.Body.TypeURL))
	require.Equal(t, string(want.GetBody().GetValue()), string(got.Body.Value))
}

func TestOpenEnvelopeMatchesDecoder(t *testing.T) {
	t.Parallel()
	all := envelopes(t)
	for _, a := range all {
		for _, b := range all {
			for _, c := range all {
				whole := append(append(append([]byte{}, a...), b...), c...)
				sameEnvelope(t, whole)
				sameEnvelope(t, whole[:len(whole)/2])
			}
		}
	}
}

func FuzzOpenEnvelope(f *testing.F) {
	for _, b := range envelopes(f) {
		f.Add(b)
	}
	f.Fuzz(sameEnvelope)
}
