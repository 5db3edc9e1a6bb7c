package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
)

// What clients of the mesh announce in a TLS handshake: that they speak mutual TLS, and what is inside.
var (
	mutualHTTP = []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"}
	mutualTCP  = []string{"istio-peer-exchange", "istio"}
	mutualAny  = append([]string{"istio", "istio-peer-exchange"}, mutualHTTP...)
)

const tlsTransport = "tls"

// inboundMatch is which connections to a port a chain is for, and what it makes of them.
type inboundMatch struct {
	protocols []string
	transport string
	http      bool // rather than bytes
	endsTLS   bool
}

// The chains of a port by what it takes and what is declared of it. TLS that does not announce itself as the mesh's is the
// application's own, and passed on to it, unless the port takes nothing else.
var (
	permissive = inboundShapes{
		http: []inboundMatch{
			{protocols: mutualAny, transport: tlsTransport, http: true, endsTLS: true},
			{transport: rawBuffer, http: true},
		},
		tcp: []inboundMatch{
			{protocols: mutualAny, transport: tlsTransport, endsTLS: true},
			{transport: tlsTransport},
			{transport: rawBuffer},
		},
		sniffed: []inboundMatch{
			{protocols: mutualHTTP, transport: tlsTransport, http: true, endsTLS: true},
			{protocols: plaintextHTTP, transport: rawBuffer, http: true},
			{protocols: mutualTCP, transport: tlsTransport, endsTLS: true},
			{transport: rawBuffer},
			{transport: tlsTransport},
		},
	}
	strict = inboundShapes{
		http: []inboundMatch{{transport: tlsTransport, http: true, endsTLS: true}},
		tcp:  []inboundMatch{{transport: tlsTransport, endsTLS: true}},
		sniffed: []inboundMatch{
			{protocols: mutualHTTP, transport: tlsTransport, http: true, endsTLS: true},
			{transport: tlsTransport, endsTLS: true},
		},
	}
	plaintext = inboundShapes{
		http:    []inboundMatch{{transport: rawBuffer, http: true}},
		tcp:     []inboundMatch{{transport: rawBuffer}},
		sniffed: []inboundMatch{{protocols: plaintextHTTP, transport: rawBuffer, http: true}, {transport: rawBuffer}},
	}
)

// inboundShapes are by what is declared of a port.
type inboundShapes struct{ http, tcp, sniffed []inboundMatch }

func (s inboundShapes) of(p mesh.Protocol) []inboundMatch {
	switch {
	case p.IsSniffed():
		return s.sniffed
	case p.IsHTTP():
		return s.http
	default:
		return s.tcp
	}
}

// chains are those that the PeerAuthentications ask for. A proxy without a certificate cannot end mutual TLS: it takes plaintext
// where that is allowed, and refuses everything where it is not.
func (in inboundPort) chains() []*listenerv3.FilterChain {
	mode := in.mutualTLS()
	switch {
	case mode == mesh.MutualTLSOnly && !in.Proxy.Identity.Serves():
		return []*listenerv3.FilterChain{in.refusal()}
	case mode == mesh.MutualTLSOnly:
		return in.checking(true).shaped(strict.of(in.protocol), transport.MutualServer(in.View))
	case mode == mesh.MutualTLSOrNone:
		return in.checking(true).shaped(permissive.of(in.protocol), transport.MutualServer(in.View))
	case in.tls != nil:
		return in.checking(secret.ChecksClients(in.tls)).shaped([]inboundMatch{{transport: tlsTransport, http: in.protocol.IsHTTP(), endsTLS: true}}, transport.Server(in.View, in.tls))
	default:
		return in.shaped(plaintext.of(in.protocol), nil)
	}
}

// mutualTLS is what the port takes.
func (in inboundPort) mutualTLS() mesh.MutualTLS {
	mode := in.Mesh.WorkloadMutualTLS(in.Proxy.Namespace, in.Proxy.Labels, in.port)
	if mode == mesh.MutualTLSOrNone && !in.Proxy.Identity.Serves() {
		return mesh.PlaintextOnly
	}
	return mode
}

// checking is the port whose TLS asks clients for certificates, or does not.
func (in inboundPort) checking(clients bool) inboundPort {
	in.filtering = in.certifying(clients)
	return in
}

func (in inboundPort) shaped(matches []inboundMatch, tls *corev3.TransportSocket) []*listenerv3.FilterChain {
	out := make([]*listenerv3.FilterChain, len(matches))
	for i, m := range matches {
		out[i] = in.chain(m)
		if m.endsTLS {
			out[i].TransportSocket = tls
		}
	}
	return out
}

func (in inboundPort) chain(m inboundMatch) *listenerv3.FilterChain {
	c := &listenerv3.FilterChain{
		FilterChainMatch: &listenerv3.FilterChainMatch{
			DestinationPort: message.Positive(in.port), TransportProtocol: m.transport, ApplicationProtocols: m.protocols,
		},
	}
	if in.from != nil {
		c.Metadata = message.MadeFrom(in.from)
	}
	in = in.checking(in.certified && m.endsTLS)
	if m.http {
		c.Name, c.Filters = in.httpName(), []*listenerv3.Filter{in.inboundHTTP(in.statPrefix(), in.protocol, in.routes())}
	} else {
		c.Name, c.Filters = in.tcpName(), in.guard.OnConnections(in.certified, in.tcp()...)
	}
	return c
}

func (in inboundPort) tcp() []*listenerv3.Filter {
	proxy := tcpCalled(in.tcpStat(), in.cluster)
	proxy.AccessLog = in.logs
	proxy.IdleTimeout = idleTimeout(in.View)
	return tcpFilters(in.protocol, proxy)
}

// refusal takes what would otherwise find the chains of all ports.
func (in inboundPort) refusal() *listenerv3.FilterChain {
	proxy := tcpTo(naming.BlackHoleCluster)
	proxy.AccessLog = in.logs
	return &listenerv3.FilterChain{
		Name:             in.tcpName(),
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: message.Positive(in.port)},
		Filters:          []*listenerv3.Filter{tcpFilter(proxy)},
	}
}
