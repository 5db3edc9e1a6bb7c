package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/cluster"
	"github.com/pgmesh/pgmesh/discovery/translate/division"
	"github.com/pgmesh/pgmesh/discovery/translate/dns"
	"github.com/pgmesh/pgmesh/discovery/translate/endpoint"
	"github.com/pgmesh/pgmesh/discovery/translate/gateway"
	"github.com/pgmesh/pgmesh/discovery/translate/inbound"
	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/outbound"
	"github.com/pgmesh/pgmesh/discovery/translate/secret"
	"github.com/pgmesh/pgmesh/discovery/translate/telemetry"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// View is one proxy's view of a mesh, for callers that translate it part by part and cache the parts.
type View struct {
	view.View

	memory *memory.Memory // of routes; nil for none
}

// ViewOf is the view of a proxy.
func ViewOf(m *mesh.Mesh, p *mesh.Proxy) View { return View{View: view.Of(m, p)} }

// Routes returns every route configuration that the listeners of a proxy ask for.
func Routes(m *mesh.Mesh, p *mesh.Proxy) []*routev3.RouteConfiguration { return ViewOf(m, p).Routes() }

// Recall begins another go through all routes of a proxy. Changed tells of hosts whose service, or the rule for it, is not known to be what it
// was in the last go.
func (s View) Recall(m *memory.Memory, changed func(host string) bool) View {
	m.Recall(s.View, changed)
	s.memory = m
	return s
}

// remembering returns the memory that Recall was given, or an empty one.
func (s View) remembering() *memory.Memory {
	if s.memory == nil {
		return memory.ForOnce(s.View)
	}
	return s.memory
}

// Routes returns every route configuration that the proxy's listeners ask for.
func (s View) Routes() []*routev3.RouteConfiguration { return division.Whole(s.View, s.remembering()) }

// Divisions returns the route configurations of Routes, divided.
func (s View) Divisions() []division.Division { return division.Of(s.View, s.remembering()) }

// Divide divides a route configuration of the proxy's that was made whole, as patches want it.
func (s View) Divide(whole *routev3.RouteConfiguration) division.Divided {
	return division.Patched(s.View, whole)
}

// Rerouted returns the virtual hosts that a change of the scope touches. The memory must have made the divisions for the scope before, and the
// proxy must listen as it did then.
func (s View) Rerouted(m *memory.Memory, before *mesh.Scope, since *mesh.ScopeChange, changed map[string]bool) (memory.Rerouting, bool) {
	return m.Rerouted(s.View, before, since, changed)
}

// ReroutedByHost are the routes of hosts that have others now, for a router whose divisions were made with the memory.
func (s View) ReroutedByHost(m *memory.Memory) (memory.ByHost, bool) { return m.ReroutedByHost(s.View) }

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

// Listened is what outbound listeners are made from beside traits and surroundings, to be compared.
func (s View) Listened() []any { return memory.Listened(s.View) }

// ListensAlike reports whether a proxy listens as it did before what it sees has changed, and this was what it listened for. It may say false
// though the proxy listens alike.
func (s View) ListensAlike(since *mesh.ScopeChange, listened []any, changed map[string]bool) bool {
	return memory.ListensAlike(s.View, since, listened, changed)
}

// Secrets returns what a proxy may ask for: secrets of the mesh, and secrets that name files of its machine.
func Secrets(m *mesh.Mesh, p *mesh.Proxy) []*tlsv3.Secret { return ViewOf(m, p).Secrets() }

// Secrets returns the secrets that the proxy may ask for.
func (s View) Secrets() []*tlsv3.Secret { return secret.Of(s.View) }

// NameTable returns the names that the resolver beside the proxy answers for; nil for a router.
func (s View) NameTable() *ndsv1.NameTable { return dns.NameTable(s.View) }

// PassesTLS reports whether the proxy has clusters for mutual TLS that it passes on as it came, too.
func (s View) PassesTLS() bool { return upstream.PassesTLS(s.View) }

// Clusters are those of one backend.
func (s View) Clusters(b upstream.Backend) []*clusterv3.Cluster {
	return cluster.Of(s.View, b)
}

// Endpoints are the load assignments of the clusters of one backend.
func (s View) Endpoints(b upstream.Backend) []*endpointv3.ClusterLoadAssignment {
	return endpoint.Assignments(s.View, b)
}

// OwnClusters are the clusters beside those of backends.
func (s View) OwnClusters() []*clusterv3.Cluster { return cluster.Own(s.View) }

// OutboundListeners are those for what proxies see. All of a router's are.
func (s View) OutboundListeners() []*listenerv3.Listener {
	if !s.Sidecar() {
		return logged(s.View, gateway.Listeners(s.View))
	}
	return logged(s.View, outbound.Listeners(s.View))
}

// InboundListeners are those for what the workload serves.
func (s View) InboundListeners() []*listenerv3.Listener {
	if !s.Sidecar() {
		return nil
	}
	return logged(s.View, inbound.Listeners(s.View))
}

func logged(v view.View, listeners []*listenerv3.Listener) []*listenerv3.Listener {
	for _, l := range listeners {
		l.AccessLog = telemetry.ListenerLogs(v)
	}
	return listeners
}
