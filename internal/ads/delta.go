package ads

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// delta is the incremental form of the protocol.
type delta struct {
	stream     discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	identifier string
}

func (d *delta) incremental() bool { return true }

func (d *delta) recv() (*request, error) {
	m, err := d.stream.Recv()
	if err != nil {
		return nil, err
	}
	return &request{
		node: m.GetNode(), typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), failure: m.GetErrorDetail(),
		subscribe: m.GetResourceNamesSubscribe(), unsubscribe: m.GetResourceNamesUnsubscribe(),
		held: m.GetInitialResourceVersions(),
	}, nil
}

func (d *delta) send(r *response) error {
	m := &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: r.revision, TypeUrl: r.typeURL, Nonce: r.nonce, RemovedResources: r.removed,
		ControlPlane: &corev3.ControlPlane{Identifier: d.identifier},
		Resources:    make([]*discoveryv3.Resource, len(r.resources)),
	}
	for i, res := range r.resources {
		m.Resources[i] = &discoveryv3.Resource{Name: res.Name, Version: res.Version, Resource: res.Body}
	}
	return d.stream.Send(m)
}
