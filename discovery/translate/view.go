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

// Backends lists the services that the proxy has clusters for.
func (s View) Backends() []Backend { return s.backends() }

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

// BackendsAfter are those of Backends, of which some may be those that there were in another scope of the same proxies.
func (s View) BackendsAfter(before []Backend, scope *mesh.Scope) []Backend {
	if scope == nil || !s.scope.SameRules(scope) {
		return s.Backends()
	}
	if sameList(s.scope.Services, scope.Services) {
		return before
	}
	out := make([]Backend, len(s.scope.Services))
	later := len(before) - len(out)
	for i, service := range s.scope.Services {
		switch {
		case i < len(before) && before[i].Service == service:
			out[i] = before[i]
		case 0 <= i+later && i+later < len(before) && before[i+later].Service == service: // behind what has come, or gone
			out[i] = before[i+later]
		default:
			out[i] = s.backend(service)
		}
	}
	return out
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

// sameList tells whether two lists are one, which is known without looking at what is in them.
func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
