package mesh

import "strings"

// Protocol is what a port speaks.
type Protocol string

// The protocols that a port can be declared with. A port without a protocol, or with an unknown
// one, is sniffed: HTTP is detected at connection time, and everything else is TCP.
const (
	ProtocolGRPC      Protocol = "GRPC"
	ProtocolGRPCWeb   Protocol = "GRPC-Web"
	ProtocolHTTP      Protocol = "HTTP"
	ProtocolHTTPProxy Protocol = "HTTP_PROXY"
	ProtocolHTTP2     Protocol = "HTTP2"
	ProtocolHTTPS     Protocol = "HTTPS"
	ProtocolTCP       Protocol = "TCP"
	ProtocolTLS       Protocol = "TLS"
	ProtocolUDP       Protocol = "UDP"
	ProtocolMongo     Protocol = "Mongo"
	ProtocolRedis     Protocol = "Redis"
	ProtocolMySQL     Protocol = "MySQL"
	ProtocolSniffed   Protocol = ""
)

var protocols = []Protocol{
	ProtocolGRPC, ProtocolGRPCWeb, ProtocolHTTP, ProtocolHTTPProxy, ProtocolHTTP2, ProtocolHTTPS, ProtocolTCP,
	ProtocolTLS, ProtocolUDP, ProtocolMongo, ProtocolRedis, ProtocolMySQL,
}

// ParseProtocol reads a protocol in upper or lower case.
func ParseProtocol(s string) Protocol {
	for _, p := range protocols {
		if strings.EqualFold(s, string(p)) {
			return p
		}
	}
	return ProtocolSniffed
}

// takesDatagrams reports whether the port is one of UDP.
func (p *Port) takesDatagrams() bool { return p.Protocol == ProtocolUDP }

// IsHTTP reports whether a proxy sees requests on such a port.
func (p Protocol) IsHTTP() bool { return p == ProtocolHTTP || p == ProtocolHTTPProxy || p.IsHTTP2() }

// IsHTTP2 reports whether upstream connections must be HTTP/2.
func (p Protocol) IsHTTP2() bool {
	return p == ProtocolHTTP2 || p == ProtocolGRPC || p == ProtocolGRPCWeb
}

// IsTLS reports whether a proxy sees only a server name.
func (p Protocol) IsTLS() bool { return p == ProtocolTLS || p == ProtocolHTTPS }

// IsTCP reports whether a proxy sees only connections.
func (p Protocol) IsTCP() bool {
	return p == ProtocolTCP || p.IsTLS() || p == ProtocolMongo || p == ProtocolRedis || p == ProtocolMySQL
}

// IsSniffed reports whether the protocol has to be detected.
func (p Protocol) IsSniffed() bool { return p == ProtocolSniffed }

// HasRoutes reports whether HTTP routes apply to such a port.
func (p Protocol) HasRoutes() bool { return p.IsHTTP() || p.IsSniffed() }
