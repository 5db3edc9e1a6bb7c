package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// mirrors are the destinations that get copies of requests, whose answers nobody waits for.
func (c Context) mirrors(in *networking.HTTPRoute) []*routev3.RouteAction_RequestMirrorPolicy {
	var out []*routev3.RouteAction_RequestMirrorPolicy
	if in.GetMirror() != nil {
		out = c.appendMirror(out, in.GetMirror(), oldMirrorShare(in))
	}
	for _, m := range in.GetMirrors() {
		if m.GetDestination() != nil {
			out = c.appendMirror(out, m.GetDestination(), mirrorShare(m.GetPercentage()))
		}
	}
	return out
}

func (c Context) appendMirror(out []*routev3.RouteAction_RequestMirrorPolicy, to *networking.Destination, share *typev3.FractionalPercent) []*routev3.RouteAction_RequestMirrorPolicy {
	if share.GetNumerator() == 0 {
		return out
	}
	return append(out, &routev3.RouteAction_RequestMirrorPolicy{
		Cluster: c.clusterOf(to), RuntimeFraction: runtimeFraction(share), TraceSampled: message.No,
	})
}

// mirrorShare is all of the requests unless the rule says less.
func mirrorShare(p *networking.Percent) *typev3.FractionalPercent {
	if p == nil {
		return wholePercent(100)
	}
	return fraction(p)
}

// oldMirrorShare reads the share of the single mirror, which an older field can give in whole
// percent.
func oldMirrorShare(in *networking.HTTPRoute) *typev3.FractionalPercent {
	old := in.GetMirrorPercent() //nolint:staticcheck // people still write it
	if in.GetMirrorPercentage() == nil && old != nil {
		return wholePercent(old.GetValue())
	}
	return mirrorShare(in.GetMirrorPercentage())
}
