// Package upstream lists what a proxy has clusters for: ports of services and of their subsets,
// each with the traffic policy that holds for it.
package upstream

import (
	"cmp"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Upstream is one port of a service, or of a subset of it, with its traffic policy.
type Upstream struct {
	Service *mesh.Service
	Port    *mesh.Port
	Rule    *mesh.DestinationRule
	Subset  *networking.Subset
	Policy  *networking.TrafficPolicy
	Reach   mesh.Reach
	// Policies are those of the Gateway API, which are in Policy where they hold.
	Policies *mesh.BackendPolicies
	// Shows is the credential of the certificate that its endpoints are shown, in TLS that a
	// BackendTLSPolicy asks for: that of the Gateway by which requests came.
	Shows string
	// PassesTLS tells that connections come as mutual TLS for an endpoint, by their server name,
	// and go on as they came.
	PassesTLS bool
	// Datagrams tells that the port is one of UDP.
	Datagrams bool
}

// datagrams returns an upstream for each port of UDP of the service of a backend. Nothing there is TLS,
// and nothing leads to subsets.
func datagrams(v view.View, b Backend) []Upstream {
	out := make([]Upstream, len(b.Service.Datagrams))
	for i, port := range b.Service.Datagrams {
		policy := WithDefaults(v, PortPolicy(SpecOf(b.Rule).GetTrafficPolicy(), port))
		out[i] = Upstream{Service: b.Service, Port: port, Rule: b.Rule, Policy: policy, Reach: b.Reach, Datagrams: true}
	}
	return out
}

// Of returns an upstream for each port of the service of a backend, and of each of its subsets.
func Of(v view.View, b Backend) []Upstream {
	s, rule := b.Service, b.Rule
	var out []Upstream
	for _, port := range s.Ports {
		if IsDynamic(s) && !dynamicProtocol(port.Protocol) {
			continue
		}
		base := WithDefaults(v, PortPolicy(SpecOf(rule).GetTrafficPolicy(), port))
		out = append(out, Upstream{Service: s, Port: port, Rule: rule, Policies: b.Policies, Policy: b.guided(v, base, port), Reach: b.Reach})
		if IsDynamic(s) {
			continue // there are no endpoints to be told apart
		}
		for _, subset := range SpecOf(rule).GetSubsets() {
			policy := b.guided(v, subsetPolicy(base, subset.GetTrafficPolicy(), port), port)
			out = append(out, Upstream{Service: s, Port: port, Rule: rule, Subset: subset, Policies: b.Policies, Policy: policy, Reach: b.Reach})
		}
	}
	return out
}

// All returns the upstreams of all clusters of a backend: with those that a gateway between
// networks passes TLS on to, and those of UDP.
func All(v view.View, b Backend) []Upstream {
	out := Of(v, b)
	if len(b.Service.Datagrams) > 0 && PassesDatagrams(v) {
		out = append(out, datagrams(v, b)...)
	}
	for _, credential := range Shown(v) {
		out = append(out, showing(v, b, credential)...)
	}
	if PassesTLS(v) {
		out = append(out, Passing(v, b)...)
	}
	return out
}

// Passing returns what a gateway between networks passes mutual TLS on to: each service of the
// mesh, and each subset, under the server name that clients ask for.
func Passing(v view.View, b Backend) []Upstream {
	if b.Service.External {
		return nil
	}
	out := Of(v, b)
	for i := range out {
		out[i].PassesTLS = true
	}
	return out
}

// Name is the name of its cluster.
func (u Upstream) Name() string {
	switch {
	case u.PassesTLS:
		return naming.Server(u.Port.Number, u.Subset.GetName(), u.Service.Hostname)
	case u.Datagrams:
		return naming.DatagramCluster(u.Port.Number, u.Service.Hostname)
	case u.Shows != "":
		_, certificate, _ := strings.Cut(u.Shows, "://")
		return naming.ClusterShowing(u.Port.Number, u.Subset.GetName(), certificate, u.Service.Hostname)
	}
	return naming.Cluster(u.Port.Number, u.Subset.GetName(), u.Service.Hostname)
}

// ServerName is what clients ask for in the mesh's own TLS, so that a gateway can tell what they
// want. It is empty if each request names its own host.
func (u Upstream) ServerName() string {
	if IsDynamic(u.Service) {
		return ""
	}
	return naming.Server(u.Port.Number, u.Subset.GetName(), u.Service.Hostname)
}

// Endpoints are those that Envoy can take, and that requests may be sent to. If it tries all addresses of a name it refuses a second
// name: then the first counts.
func (u Upstream) Endpoints() []*mesh.Endpoint {
	unusable := func(e *mesh.Endpoint) bool {
		return u.Datagrams && e.Unix || e.Revoked || e.Draining || !usable(u.Service, e) || u.Reach.Excludes(e)
	}
	out := slices.DeleteFunc(u.Service.Of(u.Port, u.Subset.GetLabels()), unusable)
	if u.Service.RacesConnections() && len(out) > 1 {
		return out[:1]
	}
	return out
}

// usable reports whether Envoy can take the endpoint: a name only where names are resolved, a
// socket's path only elsewhere. One without an address may be behind a gateway.
func usable(s *mesh.Service, e *mesh.Endpoint) bool {
	if s.ResolvedByDNS() {
		return !e.Unix
	}
	return e.Address == "" || !e.Named()
}

// OfAll is the upstream that this one is a subset of, or itself.
func (u Upstream) OfAll() Upstream {
	u.Subset = nil
	return u
}

// DiscoveryType says where Envoy gets the endpoints from.
func DiscoveryType(v view.View, u Upstream) clusterv3.Cluster_DiscoveryType {
	if u.passesThrough() {
		return clusterv3.Cluster_ORIGINAL_DST
	}
	switch u.Service.Resolution {
	case mesh.ResolutionDNS:
		if u.Service.RacesConnections() {
			return clusterv3.Cluster_LOGICAL_DNS
		}
		return clusterv3.Cluster_STRICT_DNS
	case mesh.ResolutionDNSRR:
		return clusterv3.Cluster_LOGICAL_DNS
	case mesh.ResolutionNone:
		if v.Sidecar() {
			return clusterv3.Cluster_ORIGINAL_DST
		}
		return clusterv3.Cluster_EDS
	default:
		return clusterv3.Cluster_EDS
	}
}

// passesThrough reports whether a rule sends connections where the client sent them. What it says
// for the whole port holds for subsets, too, whatever they say of load balancing. What a subset
// says for all of its ports holds for each.
func (u Upstream) passesThrough() bool {
	port := PortPolicy(SpecOf(u.Rule).GetTrafficPolicy(), u.Port)
	return isPassthrough(port) || isPassthrough(u.Subset.GetTrafficPolicy()) || isPassthrough(u.Policy)
}

// AsksForPassthrough reports what the subset says itself, or what the rule says for the whole
// service.
func (u Upstream) AsksForPassthrough() bool {
	policy := SpecOf(u.Rule).GetTrafficPolicy()
	if u.Subset != nil {
		policy = u.Subset.GetTrafficPolicy()
	}
	return isPassthrough(policy)
}

func isPassthrough(policy *networking.TrafficPolicy) bool {
	return policy.GetLoadBalancer().GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH
}

// securedByPolicy reports whether a BackendTLSPolicy says how its endpoints are connected to.
func (u Upstream) securedByPolicy() bool {
	own := u.Policies.TLS(u.Port)
	return own != nil && own == u.Policy.GetTls()
}

// TLSMode is what a rule, or a BackendTLSPolicy, says of TLS to an upstream's endpoints. Of a rule, the
// subset counts before the service, and the port before all ports.
func TLSMode(u Upstream) (networking.ClientTLSSettings_TLSmode, bool) {
	if u.securedByPolicy() {
		return u.Policy.GetTls().GetMode(), true
	}
	policies := []*networking.TrafficPolicy{u.Subset.GetTrafficPolicy(), SpecOf(u.Rule).GetTrafficPolicy()}
	for _, policy := range policies {
		if tls := cmp.Or(PortSettings(policy, u.Port).GetTls(), policy.GetTls()); tls != nil {
			return tls.GetMode(), true
		}
	}
	return networking.ClientTLSSettings_DISABLE, false
}
