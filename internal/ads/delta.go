package ads

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

func newDelta(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, identifier string, reader *limits.Reader) *delta {
	return &delta{stream: g, identifier: identifier, reader: reader, buffer: &discoveryv3.DeltaDiscoveryRequest{}}
}

func (d *delta) incremental() bool { return true }

func (d *delta) recv() (*request, error) {
	m := leanDelta{d.buffer, d.reader.Admit()}
	release, err := m.Result(d.stream.RecvMsg(m))
	if err != nil {
		return nil, err
	}
	defer m.Reset()
	return &request{
		node: m.GetNode(), typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), failure: m.GetErrorDetail(),
		subscribe: m.GetResourceNamesSubscribe(), unsubscribe: m.GetResourceNamesUnsubscribe(),
		held: m.GetInitialResourceVersions(), release: release,
	}, nil
}

func (d *delta) encode(r *response) *message { return r.delta(d.identifier) }

func (d *delta) send(m *message) error { return d.stream.SendMsg(m) }
