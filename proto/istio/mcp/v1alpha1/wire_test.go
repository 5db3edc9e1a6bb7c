package legacyv1_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcp "istio.io/api/mcp/v1alpha1"

	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// The bytes are written by hand from Istio's numbers, so that a slip in the .proto file cannot agree with itself.

func text(number protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), s)
}

func message(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), joined(parts...))
}

func number(field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
}

func entry(field protowire.Number, key, value string) []byte {
	return message(field, text(1, key), text(2, value))
}

func joined(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

var (
	refusal      = &status.Status{Code: 12, Message: "no", Details: []*anypb.Any{{TypeUrl: "t", Value: []byte("v")}}}
	refusalBytes = joined(number(1, 12), text(2, "no"), message(3, text(1, "t"), text(2, "v")))

	resource = &mcp.Resource{
		Metadata: &mcp.Metadata{
			Name: "ns/a", CreateTime: timestamppb.New(time.Unix(5, 7)), Version: "v1",
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		},
		Body: &anypb.Any{TypeUrl: "type.googleapis.com/x", Value: []byte("body")},
	}
	resourceBytes = joined(
		message(1, text(1, "ns/a"), message(2, number(1, 5), number(2, 7)), text(3, "v1"), entry(4, "l", "1"), entry(5, "a", "2")),
		message(2, text(1, "type.googleapis.com/x"), text(2, "body")),
	)
)

func TestMessagesAreIstiosOnTheWire(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message proto.Message
		bytes   []byte
	}{
		"RequestResources": {
			&legacyv1.RequestResources{
				SinkNode:   &legacyv1.SinkNode{Id: "pilot", Annotations: map[string]string{"k": "v"}},
				Collection: "c", InitialResourceVersions: map[string]string{"ns/a": "v1"},
				ResponseNonce: "7", ErrorDetail: refusal, Incremental: true,
			},
			joined(message(1, text(1, "pilot"), entry(2, "k", "v")), text(2, "c"), entry(3, "ns/a", "v1"), text(4, "7"),
				message(5, refusalBytes), number(6, 1)),
		},
		"Resources": {
			&legacyv1.Resources{
				SystemVersionInfo: "s", Collection: "c", Resources: []*mcp.Resource{resource, resource},
				RemovedResources: []string{"ns/b", "ns/c"}, Nonce: "8", Incremental: true,
			},
			joined(text(1, "s"), text(2, "c"), message(3, resourceBytes), message(3, resourceBytes), text(4, "ns/b"), text(4, "ns/c"),
				text(5, "8"), number(6, 1)),
		},
		"MeshConfigRequest": {
			&legacyv1.MeshConfigRequest{
				VersionInfo: "v", SinkNode: &legacyv1.Client{Id: "pilot"}, TypeUrl: "u", ResponseNonce: "9", ErrorDetail: refusal,
			},
			joined(text(1, "v"), message(2, text(1, "pilot")), text(3, "u"), text(4, "9"), message(5, refusalBytes)),
		},
		"MeshConfigResponse": {
			&legacyv1.MeshConfigResponse{VersionInfo: "v", Resources: []*mcp.Resource{resource}, TypeUrl: "u", Nonce: "1"},
			joined(text(1, "v"), message(2, resourceBytes), text(3, "u"), text(4, "1")),
		},
		"IncrementalMeshConfigRequest": {
			&legacyv1.IncrementalMeshConfigRequest{
				SinkNode: &legacyv1.Client{Id: "pilot"}, TypeUrl: "u", InitialResourceVersions: map[string]string{"ns/a": "v1"},
				ResponseNonce: "2", ErrorDetail: refusal,
			},
			joined(message(1, text(1, "pilot")), text(2, "u"), entry(3, "ns/a", "v1"), text(4, "2"), message(5, refusalBytes)),
		},
		"IncrementalMeshConfigResponse": {
			&legacyv1.IncrementalMeshConfigResponse{
				SystemVersionInfo: "s", Resources: []*mcp.Resource{resource}, RemovedResources: []string{"ns/b"}, Nonce: "3",
			},
			joined(text(1, "s"), message(2, resourceBytes), text(3, "ns/b"), text(4, "3")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(test.message)
			require.NoError(t, err)
			require.Equal(t, test.bytes, encoded)
			decoded := test.message.ProtoReflect().New().Interface()
			require.NoError(t, proto.Unmarshal(test.bytes, decoded))
			require.Empty(t, cmp.Diff(test.message, decoded, protocmp.Transform()))
		})
	}
}

func TestServicesHaveIstiosNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/istio.mcp.v1alpha1.ResourceSource/EstablishResourceStream", legacyv1.ResourceSource_EstablishResourceStream_FullMethodName)
	require.Equal(t, "/istio.mcp.v1alpha1.ResourceSink/EstablishResourceStream", legacyv1.ResourceSink_EstablishResourceStream_FullMethodName)
	require.Equal(t, "/istio.mcp.v1alpha1.AggregatedMeshConfigService/StreamAggregatedResources",
		legacyv1.AggregatedMeshConfigService_StreamAggregatedResources_FullMethodName)
	require.Equal(t, "/istio.mcp.v1alpha1.AggregatedMeshConfigService/IncrementalAggregatedResources",
		legacyv1.AggregatedMeshConfigService_IncrementalAggregatedResources_FullMethodName)
}

// Istio 1.0 has a Struct where 1.1 has a map of strings. Its bytes are no text, and must not end the stream.
func TestTheNodeOfIstio10Decodes(t *testing.T) {
	t.Parallel()
	number := []byte{2<<3 | 1, 0, 0, 0, 0, 0, 0xf0, 0xff, 0xff} // a Value of a double: bytes that are not UTF-8
	client := message(2, text(1, "pilot"), message(2, message(1, text(1, "k"), protowire.AppendBytes([]byte{2<<3 | 2}, number))))
	var r legacyv1.MeshConfigRequest
	require.NoError(t, proto.Unmarshal(joined(client, text(3, "u")), &r))
	require.Equal(t, "pilot", r.GetSinkNode().GetId())
	require.Equal(t, "u", r.GetTypeUrl())
	require.Error(t, proto.Unmarshal(client[2:], &legacyv1.SinkNode{}), "what it would be as annotations")
}
