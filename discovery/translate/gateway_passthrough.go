package translate

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
)

// meshProtocols are those that sidecars offer to each other in mutual TLS. Connections that offer none of them are not the
// mesh's, and do not pass.
var meshProtocols = []string{"istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"}

// autoPassthroughChains let sidecars of other networks through to the services of this one: the server name that they ask
// for is that of a cluster. What passes is not decrypted.
func (v filtering) autoPassthroughChains(e *mesh.Entrance) []chain {
	var out []chain
	for _, b := range upstream.Backends(v.View) {
		if !withinAny(b.Service.Hostname, e.Server.Hosts) {
			continue
		}
		for _, u := range upstream.Passing(v.View, b) {
			proxy := tcpCalled(upstream.Stat(v.View, u), u.Name())
			v.applyRule(proxy, u.Rule, u.Subset.GetName())
			proxy.TunnelingConfig = nil // the client has made its tunnel
			out = append(out, chain{names: []string{u.Name()}, protocols: meshProtocols, filters: []*listenerv3.Filter{tcpFilter(proxy)}})
		}
	}
	return out
}

func withinAny(host string, of []mesh.ServerHost) bool {
	return slices.ContainsFunc(of, func(h mesh.ServerHost) bool { return mesh.HostWithin(host, h.Name) })
}
