package wire

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

// NewSotW returns the state-of-the-world form of a stream.
func NewSotW(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer, identifier string, reader *limits.Reader) Form {
	return &sotw{stream: g, identifier: identifier, reader: reader}
}

func (s *sotw) Incremental() bool { return false }

func (s *sotw) Recv() (*Request, error) {
	m := leanSotW{&discoveryv3.DiscoveryRequest{}, s.reader.Admit()}
	release, err := m.Result(s.stream.RecvMsg(m))
	if err != nil {
		return nil, err
	}
	return &Request{
		Node: m.GetNode(), TypeURL: m.GetTypeUrl(), Nonce: m.GetResponseNonce(), Failure: m.GetErrorDetail(),
		Names: m.GetResourceNames(), Release: release,
	}, nil
}

func (s *sotw) Encode(r *Response) *Message { return r.sotw(s.identifier) }

func (s *sotw) Send(m *Message) error { return s.stream.SendMsg(m) }
