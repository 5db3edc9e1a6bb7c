package envoyfilter

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// Matching lists the patches that may have changed a resource, or made it, in the order in which
// they are applied. It goes by what the resource has become, and by all that a match
// says but for names of filters and of routes.
func (p *Patcher) Matching(resource proto.Message) (out []mesh.Patch) {
	for _, object := range slices.Concat(InListeners, []networking.EnvoyFilter_ApplyTo{networking.EnvoyFilter_CLUSTER, networking.EnvoyFilter_EXTENSION_CONFIG}) {
		for _, patch := range p.patches[object] {
			if p.matches(patch, resource) {
				out = append(out, patch)
			}
		}
	}
	return out
}

func (p *Patcher) matches(patch mesh.Patch, resource proto.Message) bool {
	switch m := resource.(type) {
	case *clusterv3.Cluster:
		identity := nameParts(m.GetName(), p.served())
		return patch.ApplyTo == networking.EnvoyFilter_CLUSTER && p.makes(patch, m.GetName(), identity.inbound, func() bool { return matchesCluster(patch, m, identity) })
	case *listenerv3.Listener:
		return p.matchesListener(patch, m)
	case *routev3.RouteConfiguration:
		return p.matchesRoutes(patch, m, false)
	case *routev3.VirtualHost: // sent by itself, by the name CONFIGURATION/HOST
		configuration := m.GetName()
		if slash := strings.LastIndexByte(configuration, '/'); slash >= 0 {
			configuration = configuration[:slash]
		}
		return p.matchesRoutes(patch, &routev3.RouteConfiguration{Name: configuration}, false)
	case *corev3.TypedExtensionConfig:
		return patch.ApplyTo == networking.EnvoyFilter_EXTENSION_CONFIG && nameIn(patch) == m.GetName()
	default:
		return false
	}
}

// makes reports whether a patch adds the resource of this name, or may change it.
func (p *Patcher) makes(patch mesh.Patch, name string, inbound bool, changes func() bool) bool {
	if patch.Operation == networking.EnvoyFilter_Patch_ADD {
		return nameIn(patch) == name
	}
	return patch.In(p.context(inbound)) && changes()
}

// nameIn is the name in the value of a patch.
func nameIn(patch mesh.Patch) string {
	named, _ := patch.Value.(interface{ GetName() string })
	if named == nil {
		return ""
	}
	return named.GetName()
}

func (p *Patcher) matchesListener(patch mesh.Patch, l *listenerv3.Listener) bool {
	inbound := l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND
	chains := append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain())
	switch {
	case patch.ApplyTo == networking.EnvoyFilter_LISTENER:
		return p.makes(patch, l.GetName(), inbound, func() bool { return matchesListener(patch, l) })
	case patch.ApplyTo == networking.EnvoyFilter_LISTENER_FILTER:
		return patch.In(p.context(inbound)) && matchesListener(patch, l)
	case slices.Contains(InRoutes, patch.ApplyTo):
		return slices.ContainsFunc(chains, func(c *listenerv3.FilterChain) bool { return p.matchesCarried(patch, c, inbound) })
	case slices.Contains(InListeners, patch.ApplyTo):
		return patch.In(p.context(inbound)) && matchesListener(patch, l) &&
			slices.ContainsFunc(chains, func(c *listenerv3.FilterChain) bool { return c != nil && matchesChain(patch, l, c) })
	default:
		return false
	}
}

// matchesCarried reports whether a patch may have changed the routes inside a filter chain.
func (p *Patcher) matchesCarried(patch mesh.Patch, chain *listenerv3.FilterChain, inbound bool) bool {
	for _, f := range chain.GetFilters() {
		var manager hcmv3.HttpConnectionManager
		if f.GetName() == envoy.ConnectionManager && f.GetTypedConfig().UnmarshalTo(&manager) == nil && manager.GetRouteConfig() != nil &&
			p.matchesRoutes(patch, manager.GetRouteConfig(), inbound) {
			return true
		}
	}
	return false
}

func (p *Patcher) matchesRoutes(patch mesh.Patch, r *routev3.RouteConfiguration, inbound bool) bool {
	e := edit{context: p.context(inbound)}
	return slices.Contains(InRoutes, patch.ApplyTo) && patch.In(e.context) && e.matchesRoutes(patch, r)
}
