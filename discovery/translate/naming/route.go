package naming

import (
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// HTTPProxyRoute is the route of clients that use the proxy port of the mesh.
const HTTPProxyRoute = "http_proxy"

// Route is the name that a listener asks for its routes by: a port, host:port for a listener of one
// service that detects its protocol, a socket as unix:///path, or the route of the proxy port.
type Route struct {
	Full string
	Host string
	Port uint32 // 0: requests name the port themselves
}

// ParseRoute reads the name that a listener asks for its routes by.
func ParseRoute(full string) Route {
	if full == HTTPProxyRoute || mesh.IsSocket(full) {
		return Route{Full: full}
	}
	host, text := "", full
	if at := strings.LastIndexByte(full, ':'); at >= 0 {
		host, text = full[:at], full[at+1:]
	}
	port, _ := strconv.ParseUint(text, 10, 32) // it was made here
	return Route{Full: full, Host: host, Port: uint32(port)}
}

// AnyPort reports whether requests name the port that they are for.
func (n Route) AnyPort(egress *mesh.Egress) bool {
	return n.Port == 0 || egress != nil && egress.AnyPort()
}
