package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// View is one proxy's view of a mesh, for callers that translate it part by part and cache the parts.
type View struct{ view }

// ViewOf is the view of a proxy.
func ViewOf(m *mesh.Mesh, p *mesh.Proxy) View { return View{newView(m, p)} }

// Scope is what the proxy may see.
func (s View) Scope() *mesh.Scope { return s.scope }

// Backend is a service with the rule that a proxy obeys for it, nil if there is none. Its clusters and endpoints are made from those two,
// the traits of the proxy, and the surroundings: where these are the same, the clusters and endpoints are.
type Backend struct {
	Service *mesh.Service
	Rule    *mesh.DestinationRule
	// Reach leaves out endpoints that are too near to the proxy.
	Reach mesh.Reach
}

// Backend is that of a host; without a service if the proxy has no clusters for it.
func (s View) Backend(host string) Backend {
	service := s.scope.Service(host)
	if service == nil {
		return Backend{}
	}
	return s.backend(service)
}

func (v view) backends() []Backend {
	out := make([]Backend, len(v.scope.Services))
	for i, service := range v.scope.Services {
		out[i] = v.backend(service)
	}
	return out
}

func (v view) backend(s *mesh.Service) Backend {
	return Backend{s, v.scope.DestinationRule(v.proxy, s.Hostname), v.mesh.ReachOf(v.proxy, s)}
}

// PassesTLS reports whether the proxy has clusters for mutual TLS that it passes on as it came, too.
func (s View) PassesTLS() bool { return s.passesTLS() }

// Clusters are those of one backend.
func (s View) Clusters(b Backend) []*clusterv3.Cluster {
	out := s.clustersOf(s.upstreams(b))
	if s.passesTLS() {
		out = append(out, s.clustersOf(s.passingUpstreams(b))...)
	}
	return out
}

// Endpoints are the load assignments of those clusters of a backend that ask for one, also where it is empty: Envoy waits for it.
func (s View) Endpoints(b Backend) []*endpointv3.ClusterLoadAssignment {
	if isDynamic(b.Service) {
		return nil
	}
	upstreams := s.upstreams(b)
	if s.passesTLS() {
		upstreams = append(upstreams, s.passingUpstreams(b)...)
	}
	var out []*endpointv3.ClusterLoadAssignment
	for _, u := range upstreams {
		if s.discoveryType(u) == clusterv3.Cluster_EDS {
			out = append(out, &endpointv3.ClusterLoadAssignment{ClusterName: u.name(), Endpoints: s.localityEndpoints(u)})
		}
	}
	return out
}

// OwnClusters are those that are not of services that the proxy sees: the fixed ones, and those of the ports that its workload serves.
func (s View) OwnClusters() []*clusterv3.Cluster {
	out := []*clusterv3.Cluster{s.blackHole()}
	if s.sidecar() {
		out = append(out, s.passthrough())
		if s.resolvesUnknown() {
			out = append(out, s.unknownHosts())
		}
		out = append(out, s.inboundClusters()...)
		out = append(out, s.inboundPassthrough())
	}
	return out
}
