package translate

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

const defaultRoute = "default"

// routeContext is what the routes of one VirtualService on one port are made in.
type routeContext struct {
	view

	vs       *mesh.VirtualService
	services map[string]*mesh.Service // on the port
	port     uint32
}

// httpRoutes are the routes of a rule that apply to this proxy and port: one for each match, in their order. A route
// for any request ends them, since nothing after it can be reached.
func (v view) httpRoutes(vs *mesh.VirtualService, services map[string]*mesh.Service, port uint32) []*routev3.Route {
	c := routeContext{view: v, vs: vs, services: services, port: port}
	var out []*routev3.Route
	for _, in := range vs.Spec.GetHttp() {
		if len(in.GetMatch()) == 0 {
			return append(out, c.route(in, nil))
		}
		for _, match := range in.GetMatch() {
			if !c.applies(match) {
				continue
			}
			route := c.route(in, match)
			out = append(out, route)
			if isCatchAll(route.GetMatch()) {
				return out
			}
		}
	}
	return out
}

// applies reports whether a match is for this proxy and port.
func (c routeContext) applies(m *networking.HTTPMatchRequest) bool {
	if m.GetPort() != 0 && m.GetPort() != c.port {
		return false
	}
	if len(m.GetGateways()) > 0 {
		return c.isClient(m.GetGateways(), nil, "") // a named gateway makes labels and namespace meaningless, as in Istio
	}
	return c.isClient(nil, m.GetSourceLabels(), m.GetSourceNamespace())
}

// isClient reports whether a rule that names its clients means this proxy.
func (v view) isClient(gateways []string, labels map[string]string, namespace string) bool {
	mine := len(gateways) == 0
	for _, g := range gateways {
		mine = mine || g == mesh.MeshGateway
	}
	return mine && mesh.LabelsWithin(labels, v.proxy.Labels) && (namespace == "" || namespace == v.proxy.Namespace)
}

func (c routeContext) route(in *networking.HTTPRoute, match *networking.HTTPMatchRequest) *routev3.Route {
	headers := headerOperations(in.GetHeaders())
	out := &routev3.Route{
		Name:                    in.GetName(),
		Match:                   requestMatch(match),
		Metadata:                madeFrom(c.vs.Resource),
		StatPrefix:              match.GetStatPrefix(),
		RequestHeadersToAdd:     headers.requestAdd,
		RequestHeadersToRemove:  headers.requestRemove,
		ResponseHeadersToAdd:    headers.responseAdd,
		ResponseHeadersToRemove: headers.responseRemove,
	}
	if match.GetName() != "" {
		out.Name = in.GetName() + "." + match.GetName()
	}
	switch {
	case in.GetRedirect() != nil:
		out.Action = redirect(in.GetRedirect(), c.port)
	case in.GetDirectResponse() != nil:
		out.Action = directResponse(in.GetDirectResponse())
	default:
		out.Action = &routev3.Route_Route{Route: c.forward(out, in, headers.authority)}
	}
	out.Decorator = &routev3.Decorator{Operation: c.operation(out)}
	out.TypedPerFilterConfig = filterSettings(in)
	return out
}

// filterSettings configure the filters that this route uses.
func filterSettings(in *networking.HTTPRoute) map[string]*anypb.Any {
	out := map[string]*anypb.Any{}
	set := func(name string, config proto.Message) { out[name] = pack(config) }
	if f := fault(in.GetFault()); f != nil {
		set(faultFilterName, f)
	}
	if in.GetCorsPolicy() != nil {
		set(corsFilterName, cors(in.GetCorsPolicy()))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// operation names the route in traces: the destination and what it matches.
func (c routeContext) operation(r *routev3.Route) string {
	path := "/*"
	switch m := r.GetMatch().GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		path = m.Prefix + "*"
	case *routev3.RouteMatch_Path:
		path = m.Path
	case *routev3.RouteMatch_SafeRegex:
		path = m.SafeRegex.GetRegex()
	}
	if parts := strings.Split(r.GetRoute().GetCluster(), "|"); len(parts) == 4 {
		return parts[3] + ":" + parts[1] + path
	}
	return c.vs.Resource.Name + ":" + number(c.port) + path
}

// defaultRoute sends every request to a service that no rule routes.
func (v view) defaultRoute(s *mesh.Service, port uint32) *routev3.Route {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: ClusterName(port, "", s.Hostname)},
		RetryPolicy:      retries(v.config.GetDefaultHttpRetryPolicy(), false),
	}
	setTimeout(action, noDuration)
	if hash := hashPolicy(v.serviceHash(s, port)); hash != nil {
		action.HashPolicy = []*routev3.RouteAction_HashPolicy{hash}
	}
	return &routev3.Route{
		Name:      defaultRoute,
		Match:     anyRequest(),
		Decorator: &routev3.Decorator{Operation: s.Hostname + ":" + number(port) + "/*"},
		Action:    &routev3.Route_Route{Route: action},
	}
}
