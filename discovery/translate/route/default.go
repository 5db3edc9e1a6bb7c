package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// DefaultName is that of a route that no rule has made.
const DefaultName = "default"

// Default sends every request to a service that no rule routes.
func Default(v view.View, s *mesh.Service, port uint32) *routev3.Route {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: naming.Cluster(port, "", s.Hostname)},
		RetryPolicy:      retries(v.Config.GetDefaultHttpRetryPolicy(), false),
	}
	setTimeout(action, message.NoDuration)
	if hash := hashPolicy(serviceHash(v, s, port)); hash != nil {
		action.HashPolicy = []*routev3.RouteAction_HashPolicy{hash}
	}
	return &routev3.Route{
		Name:      DefaultName,
		Match:     message.AnyRequest(),
		Decorator: &routev3.Decorator{Operation: s.Hostname + ":" + naming.Number(port) + "/*"},
		Action:    &routev3.Route_Route{Route: action},

		TypedPerFilterConfig: withSession(nil, v.Scope.Policies(s.Hostname).Session(), false),
	}
}

// Unmatched routes requests to unknown hosts: to where the client meant to connect, or to a
// refusal.
func Unmatched(v view.View) *routev3.Route {
	name := naming.BlockAll
	out := &routev3.Route{Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 502}}}
	if v.Scope.AllowsAny() {
		cluster := v.UnknownCluster()
		name = naming.AllowAny
		if v.ResolvesUnknown() {
			name, cluster = naming.AllowAnyDynamic, naming.UnknownHostsCluster
		}
		action := &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}, AppendXForwardedHost: v.KeepsHost()}
		setTimeout(action, message.NoDuration)
		out.Action = &routev3.Route_Route{Route: action}
	}
	out.Name, out.Match = name, &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	return out
}
