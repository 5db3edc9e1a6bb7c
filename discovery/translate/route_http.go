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

	vs   *mesh.VirtualService
	port uint32
	// gateways are the names by which rules mean the proxy here: onSidecars, or the gateways that a router's port is of.
	gateways []string
	// tls tells that the proxy ends TLS on the port, so that requests come by https.
	tls bool
	// service finds a destination's service, to know its port; nil where there is none.
	service func(host string) *mesh.Service
}

// routes are those of the rule that apply to this proxy and port: one for each match, in their order. A route for any
// request ends them, since nothing after it can be reached.
func (c routeContext) routes() []*routev3.Route {
	var out []*routev3.Route
	for _, in := range c.vs.Spec.GetHttp() {
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
		out.Action = redirect(in.GetRedirect(), c.port, c.tls)
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
