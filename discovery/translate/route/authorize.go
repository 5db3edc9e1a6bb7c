package route

import (
	"net/http"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/extauthz"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// authorized has a service decide about the requests of routes that are for one match of a rule. On a
// connection where it cannot be asked, a last route refuses them.
func (c Context) authorized(routes []*routev3.Route, in *networking.HTTPRoute, match *networking.HTTPMatchRequest) []*routev3.Route {
	extras := c.Rule.Extras(in)
	if extras == nil || extras.Authorization == nil {
		return routes
	}
	to := &networking.Destination{Host: extras.Authorization.Host}
	if port := extras.Authorization.Port; port != 0 {
		to.Port = &networking.PortSelector{Number: port}
	}
	setting := extauthz.OfRoute(extras.Authorization, c.clusterOf(to))
	for _, r := range routes {
		r.Match.FilterState = append(r.GetMatch().GetFilterState(), extauthz.Marked())
		if r.GetTypedPerFilterConfig() == nil {
			r.TypedPerFilterConfig = map[string]*anypb.Any{}
		}
		r.TypedPerFilterConfig[extauthz.RouteFilter] = setting
	}
	return append(routes, &routev3.Route{
		Name: routes[0].GetName(), Match: c.match(match), Metadata: message.MadeFrom(c.Rule.Source(in)),
		Action:    directResponse(&networking.HTTPDirectResponse{Status: http.StatusServiceUnavailable, Body: tooOld}),
		Decorator: &routev3.Decorator{Operation: c.Rule.Resource.Name + ":" + naming.Number(c.Port)},
	})
}

// tooOld tells clients what to do about a connection on which nobody can be asked.
var tooOld = &networking.HTTPBody{Specifier: &networking.HTTPBody_String_{
	String_: "this connection is older than the authorization of its requests: open another one\n",
}}
