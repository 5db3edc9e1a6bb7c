package ads

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// sotw is the state-of-the-world form of the protocol.
type sotw struct {
	stream     discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
	identifier string
}

func (s *sotw) incremental() bool { return false }

func (s *sotw) recv() (*request, error) {
	m, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	return &request{
		node: m.GetNode(), typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), failure: m.GetErrorDetail(),
		names: m.GetResourceNames(),
	}, nil
}

func (s *sotw) send(r *response) error {
	m := &discoveryv3.DiscoveryResponse{
		VersionInfo: r.revision, TypeUrl: r.typeURL, Nonce: r.nonce,
		ControlPlane: &corev3.ControlPlane{Identifier: s.identifier},
		Resources:    make([]*anypb.Any, len(r.resources)),
	}
	for i, res := range r.resources {
		m.Resources[i] = res.Body
	}
	return s.stream.Send(m)
}
