// Package portprotocol says what a port of a Service of Kubernetes speaks.
package portprotocol

import (
	"maps"
	"slices"
	"strings"
)

// protocols are those that a port can be said to speak, by its appProtocol or by its name.
var protocols = map[string]string{
	"grpc": "GRPC", "grpc-web": "GRPC-WEB", "http": "HTTP", "http2": "HTTP2", "http_proxy": "HTTP_PROXY", "https": "HTTPS",
	"mongo": "MONGO", "mysql": "MYSQL", "redis": "REDIS", "tcp": "TCP", "tls": "TLS",
	"kubernetes.io/h2c": "HTTP2", "kubernetes.io/ws": "HTTP", "kubernetes.io/wss": "HTTPS",
}

// serverFirst are ports on which servers speak first: whoever waits for what the client sends, to
// detect the protocol, waits for ever.
var serverFirst = map[uint32]bool{25: true, 53: true, 3306: true}

// Of is what is spoken on connections to a port, as a ServiceEntry has it: what the appProtocol says,
// else the name of the port, or what stands in it before the first hyphen. It is "" if nobody has
// said, and proxies have to detect it.
func Of(appProtocol, name string, port uint32) string {
	said := appProtocol
	if said == "" {
		said = name
	}
	said = strings.ToLower(said)
	if known := protocols[said]; known != "" {
		return known
	}
	if strings.HasPrefix(said, "grpc-web-") {
		return protocols["grpc-web"]
	}
	prefix, _, _ := strings.Cut(said, "-")
	if known := protocols[prefix]; known != "" && appProtocol == "" {
		return known
	}
	if serverFirst[port] {
		return "TCP"
	}
	return ""
}

// Words are those by which a port can be said to speak something.
func Words() []string { return slices.Sorted(maps.Keys(protocols)) }
