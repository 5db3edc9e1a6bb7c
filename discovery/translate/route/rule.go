// Package route makes the routes of requests: those of a rule for a proxy and a port, and those to
// services that no rule routes. It names the configurations that the routes are in.
package route

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Context is what the routes of one VirtualService on one port are made in.
type Context struct {
	view.View

	Rule *mesh.VirtualService
	Port uint32
	// Gateways are the names by which rules mean the proxy here: view.OnSidecars, or the gateways
	// that a router's port belongs to.
	Gateways []string
	// TLS tells that the proxy ends TLS on the port, so that requests come by https.
	TLS bool
	// Shows is the credential of what the proxy shows to backends of the requests; "" for nothing.
	Shows string
	// Service finds a destination's service, to know its port; nil where there is none.
	Service func(host string) *mesh.Service
}

// Routes are those of the rule that apply to this proxy and port: one for each match, in their
// order, and more for those that have sessions. They end with a route for any request, since nothing
// after it can be reached.
func (c Context) Routes() []*routev3.Route {
	var out []*routev3.Route
	for _, in := range c.Rule.Spec.GetHttp() {
		to := sending{in.GetRoute(), c.sessions(in)}
		if len(in.GetMatch()) == 0 {
			return append(out, c.matched(in, nil, to)...)
		}
		for _, match := range in.GetMatch() {
			if !c.applies(match) {
				continue
			}
			out = append(out, c.matched(in, match, to)...)
			if IsCatchAll(out[len(out)-1].GetMatch()) {
				return out
			}
		}
	}
	return out
}

// matched are the routes for one match.
func (c Context) matched(in *networking.HTTPRoute, match *networking.HTTPMatchRequest, to sending) []*routev3.Route {
	return c.authorized(append(c.kept(in, match, to), c.route(in, match, to)), in, match)
}

// sending is where requests are sent, each with the session that keeps requests there.
type sending struct {
	to []*networking.HTTPRouteDestination
	by []*gatewayapi.Session // nil if none of them has sessions
}

// route sends requests to destinations, unless the rule answers them itself.
func (c Context) route(in *networking.HTTPRoute, match *networking.HTTPMatchRequest, to sending) *routev3.Route {
	headers := headerOperations(in.GetHeaders())
	out := &routev3.Route{
		Name:                    in.GetName(),
		Match:                   c.match(match),
		Metadata:                message.MadeFrom(c.Rule.Source(in)),
		StatPrefix:              match.GetStatPrefix(),
		RequestHeadersToAdd:     headers.requestAdd,
		RequestHeadersToRemove:  headers.requestRemove,
		ResponseHeadersToAdd:    headers.responseAdd,
		ResponseHeadersToRemove: headers.responseRemove,
		TypedPerFilterConfig:    filterSettings(in),
	}
	if match.GetName() != "" {
		out.Name = in.GetName() + "." + match.GetName()
	}
	switch {
	case in.GetRedirect() != nil:
		out.Action = c.redirect(in.GetRedirect(), match)
	case in.GetDirectResponse() != nil:
		out.Action = directResponse(in.GetDirectResponse())
	default:
		out.Action = &routev3.Route_Route{Route: c.forward(out, in, match, to, headers.authority)}
	}
	out.Decorator = &routev3.Decorator{Operation: c.operation(out)}
	return out
}

// filterSettings configure the filters that this route uses.
func filterSettings(in *networking.HTTPRoute) map[string]*anypb.Any {
	out := map[string]*anypb.Any{}
	set := func(name string, config proto.Message) { out[name] = message.Pack(config) }
	if f := fault(in.GetFault()); f != nil {
		set(FaultFilter, f)
	}
	if in.GetCorsPolicy() != nil {
		set(CORSFilter, cors(in.GetCorsPolicy()))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// operation names the route in traces: the destination and what it matches.
func (c Context) operation(r *routev3.Route) string {
	path := "/*"
	switch m := r.GetMatch().GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		path = m.Prefix + "*"
	case *routev3.RouteMatch_PathSeparatedPrefix:
		path = m.PathSeparatedPrefix + "*"
	case *routev3.RouteMatch_Path:
		path = m.Path
	case *routev3.RouteMatch_SafeRegex:
		path = m.SafeRegex.GetRegex()
	}
	if parts := strings.Split(r.GetRoute().GetCluster(), "|"); len(parts) == 4 {
		return parts[3] + ":" + parts[1] + path
	}
	return c.Rule.Resource.Name + ":" + naming.Number(c.Port) + path
}

// The HTTP filters that routes configure for themselves.
const (
	FaultFilter   = "envoy.filters.http.fault"
	CORSFilter    = "envoy.filters.http.cors"
	SessionFilter = "envoy.filters.http.stateful_session" // of listeners that have such routes
	PickerFilter  = "envoy.filters.http.ext_proc"         // likewise
)
