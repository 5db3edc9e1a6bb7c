package filter

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/extension"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// Guarding puts in front of filters what connections to a port have to pass: what guards the proxy,
// and the extensions between.
func (c Context) Guarding(port uint32, filters ...*listenerv3.Filter) []*listenerv3.Filter {
	return c.guard.OnConnections(c.Certified, extension.OnConnections(c.added, c.traffic(port)), filters...)
}

// Extended puts the extensions in front of filters whose connections nothing guards.
func (c Context) Extended(port uint32, filters ...*listenerv3.Filter) []*listenerv3.Filter {
	if len(c.added) == 0 {
		return filters
	}
	return slices.Concat(extension.OnConnections(c.added, c.traffic(port)).All(), filters)
}

// reading reads requests to a port. They have to pass, before the filters that it has, what guards
// the proxy and the extensions; those that read bytes come before it.
func (c Context) reading(port uint32, m *hcmv3.HttpConnectionManager) []*listenerv3.Filter {
	c.guard.OnRequests(m, c.Certified, extension.OnRequests(c.added, c.traffic(port)))
	return c.Extended(port, message.NetworkFilter(managerName, m))
}

func (c Context) traffic(port uint32) mesh.Traffic {
	return mesh.Traffic{Served: c.serving, Port: port}
}
