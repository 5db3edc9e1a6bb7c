package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// View is one proxy's view of a mesh, for callers that translate it part by part and cache the parts.
type View struct{ recalling }

// ViewOf is the view of a proxy.
func ViewOf(m *mesh.Mesh, p *mesh.Proxy) View { return View{recalling{View: view.Of(m, p)}} }

// Scope is what the proxy may see.
func (s View) Scope() *mesh.Scope { return s.View.Scope }

// Backend is that of a host; without a service if the proxy has no clusters for it.
func (s View) Backend(host string) upstream.Backend {
	service := s.View.Scope.Service(host)
	if service == nil {
		return upstream.Backend{}
	}
	return upstream.BackendOf(s.View, service)
}

// PassesTLS reports whether the proxy has clusters for mutual TLS that it passes on as it came, too.
func (s View) PassesTLS() bool { return upstream.PassesTLS(s.View) }

// Clusters are those of one backend.
func (s View) Clusters(b upstream.Backend) []*clusterv3.Cluster {
	out := clustersOf(s.View, upstream.Of(s.View, b))
	if upstream.PassesTLS(s.View) {
		out = append(out, clustersOf(s.View, upstream.Passing(s.View, b))...)
	}
	return out
}

// Endpoints are the load assignments of those clusters of a backend that ask for one, also where it is empty: Envoy waits for it.
func (s View) Endpoints(b upstream.Backend) []*endpointv3.ClusterLoadAssignment {
	if upstream.IsDynamic(b.Service) {
		return nil
	}
	upstreams := upstream.Of(s.View, b)
	if upstream.PassesTLS(s.View) {
		upstreams = append(upstreams, upstream.Passing(s.View, b)...)
	}
	var out []*endpointv3.ClusterLoadAssignment
	for _, u := range upstreams {
		if upstream.DiscoveryType(s.View, u) == clusterv3.Cluster_EDS {
			out = append(out, &endpointv3.ClusterLoadAssignment{ClusterName: u.Name(), Endpoints: localityEndpoints(s.View, u)})
		}
	}
	return out
}

// OwnClusters are those that are not of services that the proxy sees: the fixed ones, and those of the ports that its workload serves.
func (s View) OwnClusters() []*clusterv3.Cluster {
	out := []*clusterv3.Cluster{blackHole(s.View)}
	if s.Sidecar() {
		out = append(out, passthrough(s.View))
		if s.ResolvesUnknown() {
			out = append(out, unknownHosts(s.View))
		}
		out = append(out, inboundClusters(s.View)...)
		out = append(out, inboundPassthrough(s.View))
	}
	return out
}
