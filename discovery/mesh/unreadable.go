package mesh

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/re2"
)

// leaveOutUnreadable removes regular expressions that Envoy refuses from the routes: with one,
// Envoy would refuse everybody's routes. It removes the match, or the origin; and a route that has
// no match left, or would rewrite by one.
func (vs *VirtualService) leaveOutUnreadable() {
	wrong := false
	for i, route := range vs.Spec.GetHttp() {
		for _, p := range re2.InRoute(route) {
			wrong = true
			path := fmt.Sprintf("spec.http[%d].%s", i, p.Path)
			if len(vs.delegates) > 0 {
				path = "spec.http" // the routes of delegates shift the index
			}
			vs.problems = append(vs.problems, Problem{Of: vs.Resource.Key(), Path: path, Reason: p.Reason + ": what it is in is left out, and the route with it if nothing else is left of that"})
		}
	}
	if !wrong {
		return
	}
	var readable []*networking.HTTPRoute
	for _, route := range vs.Spec.GetHttp() {
		if left := readableOf(route); left != nil {
			readable = append(readable, left)
		}
	}
	vs.Spec.Http = readable
}

// readableOf returns what is left of a route; nil if nothing is.
func readableOf(route *networking.HTTPRoute) *networking.HTTPRoute {
	if len(re2.InRoute(route)) == 0 {
		return route
	}
	out := proto.CloneOf(route)
	out.Match = slices.DeleteFunc(out.GetMatch(), func(m *networking.HTTPMatchRequest) bool { return len(re2.InMatch(m)) > 0 })
	if len(out.GetMatch()) == 0 && len(route.GetMatch()) > 0 || len(re2.InRewrite(route)) > 0 {
		return nil
	}
	if cors := out.GetCorsPolicy(); cors != nil {
		cors.AllowOrigins = slices.DeleteFunc(cors.GetAllowOrigins(), re2.InOrigin)
	}
	return out
}
