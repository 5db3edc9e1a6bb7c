package inbound

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/listener"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
)

// What clients of the mesh announce in a TLS handshake: that it is mutual TLS, and what is inside.
var (
	mutualHTTP = []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"}
	mutualTCP  = []string{"istio-peer-exchange", "istio"}
)

// match says which connections to a port a chain is for, and what it does with them.
type match struct {
	protocols []string
	transport string
	http      bool // rather than bytes
	endsTLS   bool
}

// The chains of a port, by what it accepts and what protocol is declared for it. TLS that does not
// announce itself as the mesh's is the application's own, and passed on to it, unless the port
// accepts only the mesh's.
var (
	permissive = shapes{
		http: []match{
			{protocols: listener.MeshProtocols, transport: listener.TLS, http: true, endsTLS: true},
			{transport: listener.RawBuffer, http: true},
		},
		tcp: []match{
			{protocols: listener.MeshProtocols, transport: listener.TLS, endsTLS: true},
			{transport: listener.TLS},
			{transport: listener.RawBuffer},
		},
		sniffed: []match{
			{protocols: mutualHTTP, transport: listener.TLS, http: true, endsTLS: true},
			{protocols: listener.PlaintextHTTP, transport: listener.RawBuffer, http: true},
			{protocols: mutualTCP, transport: listener.TLS, endsTLS: true},
			{transport: listener.RawBuffer},
			{transport: listener.TLS},
		},
	}
	strict = shapes{
		http: []match{{transport: listener.TLS, http: true, endsTLS: true}},
		tcp:  []match{{transport: listener.TLS, endsTLS: true}},
		sniffed: []match{
			{protocols: mutualHTTP, transport: listener.TLS, http: true, endsTLS: true},
			{transport: listener.TLS, endsTLS: true},
		},
	}
	plaintext = shapes{
		http:    []match{{transport: listener.RawBuffer, http: true}},
		tcp:     []match{{transport: listener.RawBuffer}},
		sniffed: []match{{protocols: listener.PlaintextHTTP, transport: listener.RawBuffer, http: true}, {transport: listener.RawBuffer}},
	}
)

// shapes has the chains by the declared protocol.
type shapes struct{ http, tcp, sniffed []match }

func (s shapes) of(p mesh.Protocol) []match {
	switch {
	case p.IsSniffed():
		return s.sniffed
	case p.IsHTTP():
		return s.http
	default:
		return s.tcp
	}
}

// chains are those that the PeerAuthentications ask for. A proxy without a certificate cannot end
// mutual TLS: it accepts plaintext if that is allowed, and otherwise refuses everything.
func (in servedPort) chains() []*listenerv3.FilterChain {
	mode := in.mutualTLS()
	switch {
	case mode == mesh.MutualTLSOnly && !in.Proxy.Identity.Serves():
		return []*listenerv3.FilterChain{in.refusal()}
	case mode == mesh.MutualTLSOnly:
		return in.checking(true).shaped(strict.of(in.protocol), transport.MutualServer(in.View))
	case mode == mesh.MutualTLSOrNone:
		return in.checking(true).shaped(permissive.of(in.protocol), transport.MutualServer(in.View))
	case in.tls != nil:
		return in.checking(secret.ChecksClients(in.tls)).shaped([]match{{transport: listener.TLS, http: in.protocol.IsHTTP(), endsTLS: true}}, transport.Server(in.View, in.tls))
	default:
		return in.shaped(plaintext.of(in.protocol), nil)
	}
}

// mutualTLS is what the port accepts.
func (in servedPort) mutualTLS() mesh.MutualTLS {
	mode := in.Mesh.WorkloadMutualTLS(in.Proxy.Namespace, in.Proxy.Labels, in.port)
	if mode == mesh.MutualTLSOrNone && !in.Proxy.Identity.Serves() {
		return mesh.PlaintextOnly
	}
	return mode
}

// checking asks clients of the port for certificates, or does not.
func (in servedPort) checking(clients bool) servedPort {
	in.Context = in.Certifying(clients)
	return in
}

func (in servedPort) shaped(matches []match, tls *corev3.TransportSocket) []*listenerv3.FilterChain {
	out := make([]*listenerv3.FilterChain, len(matches))
	for i, m := range matches {
		out[i] = in.chain(m)
		if m.endsTLS {
			out[i].TransportSocket = tls
		}
	}
	return out
}

func (in servedPort) chain(m match) *listenerv3.FilterChain {
	c := &listenerv3.FilterChain{
		FilterChainMatch: &listenerv3.FilterChainMatch{
			DestinationPort: message.Positive(in.port), TransportProtocol: m.transport, ApplicationProtocols: m.protocols,
		},
	}
	if in.from != nil {
		c.Metadata = message.MadeFrom(in.from)
	}
	in = in.checking(in.Certified && m.endsTLS)
	in.Context = in.For(in.counted())
	if m.http {
		c.Name, c.Filters = in.httpName(), in.InboundHTTP(in.port, in.statPrefix(), in.protocol, in.routes())
	} else {
		c.Name, c.Filters = in.tcpName(), in.Guarding(in.port, in.ToApplication(in.tcpStat(), in.cluster, in.protocol)...)
	}
	return c
}

// counted is the host of the service that what comes in counts for: also where a Sidecar names the
// port, and nothing else is called by the service.
func (in servedPort) counted() string {
	if in.from == nil {
		return in.service
	}
	for _, t := range in.Mesh.Targets(in.Proxy) {
		if t.Number == in.port && !t.TakesDatagrams() {
			return t.Service.Hostname
		}
	}
	return ""
}

// refusal keeps connections to the port from the chains of all ports.
func (in servedPort) refusal() *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name:             in.tcpName(),
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: message.Positive(in.port)},
		Filters:          []*listenerv3.Filter{in.Refusal()},
	}
}
