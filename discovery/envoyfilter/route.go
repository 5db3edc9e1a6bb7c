package envoyfilter

import (
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// InRoutes is what a patch can change in routes.
var InRoutes = []networking.EnvoyFilter_ApplyTo{
	networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE,
}

// Routes applies the patches of routes to the route configurations that listeners ask for.
func (p *Patcher) Routes(routes []*routev3.RouteConfiguration) []*routev3.RouteConfiguration {
	if !p.Patches(InRoutes...) {
		return routes
	}
	out := make([]*routev3.RouteConfiguration, len(routes))
	for i, r := range routes {
		out[i], _ = applyPatches(p, r.GetName(), p.context(false), p.patches.of(InRoutes...), r, (*edit).wholeRoutes)
	}
	return out
}

// wholeRoutes keeps the name of a route configuration, because listeners ask for it by that.
func (e *edit) wholeRoutes(r *routev3.RouteConfiguration) (*routev3.RouteConfiguration, bool) {
	patched := e.routes(r)
	if patched.GetName() != r.GetName() {
		e.fail("listeners ask for the route configuration by its name, which has to stay")
	}
	return patched, true
}

// carriedRoutes applies the patches to routes inside a listener, such as inbound ones.
func (e *edit) carriedRoutes(l *listenerv3.Listener) *listenerv3.Listener {
	if !e.patches.has(InRoutes...) {
		return l
	}
	change := func(chain *listenerv3.FilterChain) (*listenerv3.FilterChain, bool) {
		filters, changed := each(chain.GetFilters(), func(f *listenerv3.Filter) (*listenerv3.Filter, bool) {
			if f.GetName() != envoy.ConnectionManager {
				return f, true
			}
			return e.managed(f, e.managedRoutes), true
		})
		if !changed {
			return chain, true
		}
		return altered(chain, func(to *listenerv3.FilterChain) { to.Filters = filters }), true
	}
	chains, changed := each(l.GetFilterChains(), change)
	fallback := l.GetDefaultFilterChain()
	if fallback != nil {
		fallback, _ = change(fallback)
	}
	if !changed && fallback == l.GetDefaultFilterChain() {
		return l
	}
	return altered(l, func(to *listenerv3.Listener) { to.FilterChains, to.DefaultFilterChain = chains, fallback })
}

func (e *edit) managedRoutes(m *hcmv3.HttpConnectionManager) *hcmv3.HttpConnectionManager {
	carried := m.GetRouteConfig()
	if carried == nil {
		return m
	}
	routes := e.routes(carried)
	if routes == carried {
		return m
	}
	return altered(m, func(to *hcmv3.HttpConnectionManager) {
		to.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes}
	})
}

// routes patches a route configuration from the outside in: itself, its virtual hosts, their
// routes. Hosts that a patch adds come last, and are not patched.
func (e *edit) routes(r *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	for _, patch := range e.patches[networking.EnvoyFilter_ROUTE_CONFIGURATION] {
		if value, _ := patch.Value.(*routev3.RouteConfiguration); patch.Merges() && e.matchesRoutes(patch, r) {
			r = mergedBy(r, value, patch)
		}
	}
	hosts, changed := each(r.GetVirtualHosts(), func(h *routev3.VirtualHost) (*routev3.VirtualHost, bool) { return e.virtualHost(r, h) })
	for _, patch := range e.patches[networking.EnvoyFilter_VIRTUAL_HOST] {
		if value, _ := patch.Value.(*routev3.VirtualHost); patch.Operation == networking.EnvoyFilter_Patch_ADD && e.matchesRoutes(patch, r) {
			hosts, changed = inserted(hosts, len(hosts), value), true
		}
	}
	if !changed {
		return r
	}
	return altered(r, func(to *routev3.RouteConfiguration) { to.VirtualHosts = hosts })
}

// virtualHost patches a virtual host and its routes. It reports whether the host is still there.
func (e *edit) virtualHost(r *routev3.RouteConfiguration, h *routev3.VirtualHost) (*routev3.VirtualHost, bool) {
	for _, patch := range e.patches[networking.EnvoyFilter_VIRTUAL_HOST] {
		if !e.matchesRoutes(patch, r) || !matchesHost(patch, h) {
			continue
		}
		switch value, _ := patch.Value.(*routev3.VirtualHost); {
		case patch.Operation == networking.EnvoyFilter_Patch_REMOVE:
			return nil, false
		case patch.Operation == networking.EnvoyFilter_Patch_REPLACE:
			h = value
		case patch.Merges():
			h = mergedBy(h, value, patch)
		}
	}
	return e.hostRoutes(r, h), true
}

// hostRoutes applies the patches of single routes: first those that change a route, then those that
// insert one.
func (e *edit) hostRoutes(r *routev3.RouteConfiguration, h *routev3.VirtualHost) *routev3.VirtualHost {
	var patches []mesh.Patch
	for _, patch := range e.patches[networking.EnvoyFilter_HTTP_ROUTE] {
		if e.matchesRoutes(patch, r) && matchesHost(patch, h) {
			patches = append(patches, patch)
		}
	}
	routes, changed := each(h.GetRoutes(), func(route *routev3.Route) (*routev3.Route, bool) {
		return removedOrMerged(patches, route, matchesRoute, mergedBy)
	})
	for _, patch := range patches {
		value, _ := patch.Value.(*routev3.Route)
		if patch.Merges() || patch.Operation == networking.EnvoyFilter_Patch_REMOVE {
			continue
		}
		var did bool
		routes, did = in[*routev3.Route]{
			named: patch.Match.GetRouteConfiguration().GetVhost().GetRoute() != nil, needsItem: true,
			is:      func(route *routev3.Route) bool { return matchesRoute(patch, route) },
			addedAt: func(list []*routev3.Route) int { return len(list) },
		}.apply(routes, patch, value)
		changed = changed || did
	}
	if !changed {
		return h
	}
	return altered(h, func(to *routev3.VirtualHost) { to.Routes = routes })
}

// matchesRoutes reports whether a patch is for a route configuration. A sidecar's is matched by its
// name or the port in it, a gateway's also by the rest of its name.
func (e *edit) matchesRoutes(patch mesh.Patch, r *routev3.RouteConfiguration) bool {
	match := patch.Match.GetRouteConfiguration()
	switch {
	case match == nil:
		return true
	case match.GetName() != "" && match.GetName() != r.GetName():
		return false
	case e.context != networking.EnvoyFilter_GATEWAY:
		return match.GetPortNumber() == 0 || int(match.GetPortNumber()) == portOf(r.GetName())
	}
	port, portName, gateway := gatewayParts(r.GetName())
	return (match.GetPortName() == "" || match.GetPortName() == portName) && (match.GetGateway() == "" || match.GetGateway() == gateway) &&
		(match.GetPortNumber() == 0 || int(match.GetPortNumber()) == port)
}

// portOf is the port in the name of a sidecar's routes; 0 if there is none.
func portOf(name string) int {
	if parts := strings.Split(name, "|"); len(parts) == 4 {
		name = parts[1]
	}
	port, _ := strconv.Atoi(name)
	return port
}

// gatewayParts reads http.PORT, or https.PORT.PORTNAME.GATEWAY.NAMESPACE. The gateway is
// namespace/name.
func gatewayParts(name string) (port int, portName, gateway string) {
	parts := strings.Split(name, ".")
	if len(parts) > 1 {
		port, _ = strconv.Atoi(parts[1])
	}
	if len(parts) >= 5 && parts[0] == "https" {
		last := len(parts) - 1
		return port, parts[2], parts[last] + "/" + strings.Join(parts[3:last], ".")
	}
	return port, "", ""
}

func matchesHost(patch mesh.Patch, h *routev3.VirtualHost) bool {
	match := patch.Match.GetRouteConfiguration().GetVhost()
	return match == nil || (match.GetName() == "" || match.GetName() == h.GetName()) &&
		(match.GetDomainName() == "" || slices.Contains(h.GetDomains(), match.GetDomainName()))
}

func matchesRoute(patch mesh.Patch, route *routev3.Route) bool {
	match := patch.Match.GetRouteConfiguration().GetVhost().GetRoute()
	if match == nil {
		return true
	}
	if match.GetName() != "" && match.GetName() != route.GetName() {
		return false
	}
	wanted := match.GetAction()
	if wanted == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_ANY {
		return true
	}
	switch route.GetAction().(type) {
	case *routev3.Route_Route:
		return wanted == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_ROUTE
	case *routev3.Route_Redirect:
		return wanted == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_REDIRECT
	case *routev3.Route_DirectResponse:
		return wanted == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_DIRECT_RESPONSE
	default:
		return true
	}
}
