package upstream

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Backend is a service with the rule that a proxy follows for it, or nil. Its clusters and
// endpoints are made from these, the traits of the proxy, and the surroundings, and from nothing
// else.
type Backend struct {
	Service *mesh.Service
	Rule    *mesh.DestinationRule
	// Policies are those of the Gateway API; nil if none is for it.
	Policies *mesh.BackendPolicies
	// Reach leaves out endpoints that are too near to the proxy.
	Reach mesh.Reach
}

// Backends lists the services that a proxy has clusters for.
func Backends(v view.View) []Backend {
	out := make([]Backend, len(v.Scope.Services))
	for i, service := range v.Scope.Services {
		out[i] = BackendOf(v, service)
	}
	return out
}

// BackendOf is a service as a proxy sees it.
func BackendOf(v view.View, s *mesh.Service) Backend {
	return Backend{s, v.Scope.DestinationRule(v.Proxy, s.Hostname), v.Scope.Policies(s.Hostname), v.Mesh.ReachOf(v.Proxy, s)}
}

// BackendFor is the backend of a host. It has no service if the proxy has no clusters for the host.
func BackendFor(v view.View, host string) Backend {
	service := v.Scope.Service(host)
	if service == nil {
		return Backend{}
	}
	return BackendOf(v, service)
}

// PassesDatagrams reports whether the proxy is a gateway with a listener for UDP. No other has clusters
// of UDP.
func PassesDatagrams(v view.View) bool {
	return v.Proxy.Type == mesh.Router && v.Mesh.Frontend(v.Proxy).TakesDatagrams()
}

// PassesTLS reports whether the proxy is a gateway between networks. Those have clusters for mutual
// TLS that they pass on as it came, too.
func PassesTLS(v view.View) bool {
	return v.Proxy.Type == mesh.Router && v.Mesh.Frontend(v.Proxy).AutoPassthrough()
}
