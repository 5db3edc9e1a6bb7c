package ads

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/pgmesh/pgmesh/internal/limits"
)

// sotw is the state-of-the-world form of the protocol.
type sotw struct {
	stream     discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
	identifier string
	reader     *limits.Reader
}

func (s *sotw) incremental() bool { return false }

func (s *sotw) recv() (*request, error) {
	m := leanSotW{&discoveryv3.DiscoveryRequest{}, s.reader.Admit()}
	release, err := m.Result(s.stream.RecvMsg(m))
	if err != nil {
		return nil, err
	}
	return &request{
		node: m.GetNode(), typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), failure: m.GetErrorDetail(),
		names: m.GetResourceNames(), release: release,
	}, nil
}

func (s *sotw) encode(r *response) *message { return r.sotw(s.identifier) }

func (s *sotw) send(m *message) error { return s.stream.SendMsg(m) }
