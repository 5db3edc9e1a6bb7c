package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// secure makes a cluster's connections TLS if a rule, or the mesh, asks for it.
func (d *draft) secure(v view.View, u upstream.Upstream) {
	tls := transport.ClientOf(v, u)
	context := d.context(v, u, tls.Settings)
	switch {
	case context == nil:
	case tls.Automatic && !d.passesThrough():
		d.TransportSocketMatches = transport.WhereTaken(transport.TLS(context))
	default:
		d.TransportSocket = transport.TLS(context)
	}
}

// context is the TLS of the cluster's connections; nil for plaintext.
func (d *draft) context(v view.View, u upstream.Upstream, tls *networking.ClientTLSSettings) *tlsv3.UpstreamTlsContext {
	out := transport.ClientContext(v, u, tls, d.isHTTP2())
	if out != nil && (d.dynamic != nil || transport.Originates(tls.GetMode())) {
		d.nameServer(tls)
	}
	return out
}

// nameServer asks for, and expects, the host that each request names, unless the rule names one.
func (d *draft) nameServer(tls *networking.ClientTLSSettings) {
	named, lenient := tls.GetSni() != "", tls.GetInsecureSkipVerify().GetValue()
	verified := !lenient && (d.dynamic != nil || !named && len(tls.GetSubjectAltNames()) == 0)
	if d.dynamic != nil {
		d.dynamic.AllowInsecureClusterOptions = named || !verified
	}
	if named && !verified {
		return
	}
	o := d.options()
	if o.GetUpstreamHttpProtocolOptions() == nil {
		o.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{}
	}
	o.UpstreamHttpProtocolOptions.AutoSni = !named
	o.UpstreamHttpProtocolOptions.AutoSanValidation = verified
}

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
