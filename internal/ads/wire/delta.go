package wire

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/pgmesh/pgmesh/internal/limits"
)

// delta is the delta form of the protocol.
type delta struct {
	stream     discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	identifier string
	reader     *limits.Reader
	buffer     *discoveryv3.DeltaDiscoveryRequest // reused for each received request
}

// NewDelta returns the delta form of a stream.
func NewDelta(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, identifier string, reader *limits.Reader) Form {
	return &delta{stream: g, identifier: identifier, reader: reader, buffer: &discoveryv3.DeltaDiscoveryRequest{}}
}

func (d *delta) Incremental() bool { return true }

func (d *delta) Recv() (*Request, error) {
	m := leanDelta{d.buffer, d.reader.Admit()}
	release, err := m.Result(d.stream.RecvMsg(m))
	if err != nil {
		return nil, err
	}
	defer m.Reset()
	return &Request{
		Node: m.GetNode(), TypeURL: m.GetTypeUrl(), Nonce: m.GetResponseNonce(), Failure: m.GetErrorDetail(),
		Subscribe: m.GetResourceNamesSubscribe(), Unsubscribe: m.GetResourceNamesUnsubscribe(),
		Held: m.GetInitialResourceVersions(), Release: release,
	}, nil
}

func (d *delta) Encode(r *Response) *Message { return r.delta(d.identifier) }

func (d *delta) Send(m *Message) error { return d.stream.SendMsg(m) }
