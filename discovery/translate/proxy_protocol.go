package translate

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/transport"
)

// announceClient begins each connection with a PROXY header.
func (d *draft) announceClient(settings *networking.TrafficPolicy_ProxyProtocol) {
	if settings == nil {
		return
	}
	for _, match := range d.GetTransportSocketMatches() {
		match.TransportSocket = transport.AnnouncingClient(settings, match.GetTransportSocket())
	}
	if d.GetTransportSocket() != nil || len(d.GetTransportSocketMatches()) == 0 {
		d.TransportSocket = transport.AnnouncingClient(settings, d.GetTransportSocket())
	}
}
