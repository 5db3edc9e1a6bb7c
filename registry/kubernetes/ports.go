package kubernetes

import (
	"strings"

	"github.com/pgmesh/pgmesh/registry/service"
)

// udp is the protocol of ports whose datagrams only gateways carry.
const udp = "UDP"

// isTCP reports whether a port of Kubernetes has connections that proxies carry.
func isTCP(protocol string) bool { return protocol == "" || protocol == "TCP" }

// isServed reports whether a port of Kubernetes is one of the mesh. SCTP is not.
func isServed(protocol string) bool { return isTCP(protocol) || protocol == udp }

// protocols are those that a port can be said to speak, by its appProtocol or by its name.
var protocols = map[string]string{
	"grpc": "GRPC", "grpc-web": "GRPC-WEB", "http": "HTTP", "http2": "HTTP2", "http_proxy": "HTTP_PROXY", "https": "HTTPS",
	"mongo": "MONGO", "mysql": "MYSQL", "redis": "REDIS", "tcp": "TCP", "tls": "TLS",
	"kubernetes.io/h2c": "HTTP2", "kubernetes.io/ws": "HTTP", "kubernetes.io/wss": "HTTPS",
}

// serverFirst are ports on which servers speak first: whoever waits for what the client sends, to
// detect the protocol, waits for ever.
var serverFirst = map[uint32]bool{25: true, 53: true, 3306: true}

// protocol is UDP, or what is spoken on connections: what the appProtocol says, else the name of the port, or what stands in it before the
// first hyphen. Otherwise it is detected.
func (p *servicePort) protocol() string {
	if p.Protocol == udp {
		return udp
	}
	said := p.AppProtocol
	if said == "" {
		said = p.Name
	}
	said = strings.ToLower(said)
	if known := protocols[said]; known != "" {
		return known
	}
	if strings.HasPrefix(said, "grpc-web-") {
		return protocols["grpc-web"]
	}
	prefix, _, _ := strings.Cut(said, "-")
	if known := protocols[prefix]; known != "" && p.AppProtocol == "" {
		return known
	}
	if serverFirst[p.Port] {
		return "TCP"
	}
	return service.Detected
}

// ports are those of the mesh.
func (o *serviceObject) ports() []service.Port {
	var out []service.Port
	for i := range o.Spec.Ports {
		if p := &o.Spec.Ports[i]; isServed(p.Protocol) {
			out = append(out, service.Port{Name: p.Name, Number: p.Port, Protocol: p.protocol(), Target: uint32(p.TargetPort)})
		}
	}
	return out
}
