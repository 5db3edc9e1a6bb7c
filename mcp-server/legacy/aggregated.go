package legacy

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/limits"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// aggregated is a stream of Istio 1.0 and 1.1 that sends whole collections.
type aggregated struct {
	stream grpc.BidiStreamingServer[legacyv1.MeshConfigRequest, legacyv1.MeshConfigResponse]
	reader *limits.Reader
}

func (aggregated) field() protowire.Number { return 2 }
func (aggregated) sendsWholes() bool       { return true }

func (a aggregated) recv() (*request, error) {
	m := &legacyv1.MeshConfigRequest{}
	release, err := receiveInto(m, a.stream, a.reader)
	if err != nil {
		return nil, err
	}
	return &request{
		sink: m.GetSinkNode().GetId(), collection: m.GetTypeUrl(), nonce: m.GetResponseNonce(), failure: m.GetErrorDetail(),
		version: m.GetVersionInfo(), release: release,
	}, nil
}

func (aggregated) message(r *response) proto.Message {
	return withResources(&legacyv1.MeshConfigResponse{VersionInfo: r.version, TypeUrl: r.collection, Nonce: r.nonce}, r.resources)
}

func (a aggregated) send(m proto.Message) error {
	return a.stream.Send(m.(*legacyv1.MeshConfigResponse))
}

// incrementalAggregated is a stream of the aggregated service that sends changes. Its form cannot
// mark a response as a whole collection, so none is.
type incrementalAggregated struct {
	stream grpc.BidiStreamingServer[legacyv1.IncrementalMeshConfigRequest, legacyv1.IncrementalMeshConfigResponse]
	reader *limits.Reader
}

func (incrementalAggregated) field() protowire.Number { return 2 }
func (incrementalAggregated) sendsWholes() bool       { return false }

func (i incrementalAggregated) recv() (*request, error) {
	m := &legacyv1.IncrementalMeshConfigRequest{}
	release, err := receiveInto(m, i.stream, i.reader)
	if err != nil {
		return nil, err
	}
	return &request{
		sink: m.GetSinkNode().GetId(), collection: m.GetTypeUrl(), nonce: m.GetResponseNonce(), failure: m.GetErrorDetail(),
		incremental: true, held: m.GetInitialResourceVersions(), release: release,
	}, nil
}

func (incrementalAggregated) message(r *response) proto.Message {
	return withResources(&legacyv1.IncrementalMeshConfigResponse{
		SystemVersionInfo: r.version, Nonce: r.nonce, RemovedResources: r.removed,
	}, r.resources)
}

func (i incrementalAggregated) send(m proto.Message) error {
	return i.stream.Send(m.(*legacyv1.IncrementalMeshConfigResponse))
}
