package route

import (
	"cmp"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
)

// forward is the action of a route that has destinations. Header operations of a single destination
// become the route's.
func (c Context) forward(out *routev3.Route, in *networking.HTTPRoute, match *networking.HTTPMatchRequest, to sending, authority string) *routev3.RouteAction {
	action := &routev3.RouteAction{AppendXForwardedHost: in.GetRewrite() != nil && c.KeepsHost()}
	setTimeout(action, cmp.Or(in.GetTimeout(), message.NoDuration))
	if c.Rule.OfGatewayAPI() {
		action.ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
		rewriteSegments(action, in.GetRewrite(), match)
	} else {
		rewrite(action, in.GetRewrite())
	}
	if rewritten := in.GetRewrite().GetAuthority(); rewritten != "" {
		authority = rewritten
	}
	setAuthority(action, authority)
	action.RequestMirrorPolicies = c.mirrors(in)
	hashed := false
	if len(to.to) == 1 {
		hashed = c.destination(out, action, to.to[0])
		out.TypedPerFilterConfig = withSession(out.GetTypedPerFilterConfig(), to.session(0), c.TLS)
		out.TypedPerFilterConfig = c.picked(out.GetTypedPerFilterConfig(), to.to[0].GetDestination())
	} else {
		c.split(action, to)
	}
	action.RetryPolicy = retries(cmp.Or(in.GetRetries(), c.Config.GetDefaultHttpRetryPolicy()), hashed)
	return action
}

// setTimeout bounds a request, and what a gRPC client may ask for. 0 is no bound.
func setTimeout(action *routev3.RouteAction, timeout *durationpb.Duration) {
	action.Timeout = timeout
	action.MaxGrpcTimeout = timeout //nolint:staticcheck // its successor, maxStreamDuration, also bounds streams without a gRPC timeout
}

func rewrite(action *routev3.RouteAction, in *networking.HTTPRewrite) {
	if regex := in.GetUriRegexRewrite(); regex != nil {
		action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern: &matcherv3.RegexMatcher{Regex: regex.GetMatch()}, Substitution: regex.GetRewrite(),
		}
		return
	}
	action.PrefixRewrite = in.GetUri()
}

func setAuthority(action *routev3.RouteAction, authority string) {
	if authority != "" {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: authority}
	}
}

// destination forwards to a single cluster, and reports whether requests are hashed to an endpoint.
func (c Context) destination(out *routev3.Route, action *routev3.RouteAction, to *networking.HTTPRouteDestination) bool {
	action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: c.clusterOf(to.GetDestination())}
	headers := headerOperations(to.GetHeaders())
	out.RequestHeadersToAdd = append(out.RequestHeadersToAdd, headers.requestAdd...)
	out.RequestHeadersToRemove = append(out.RequestHeadersToRemove, headers.requestRemove...)
	out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, headers.responseAdd...)
	out.ResponseHeadersToRemove = append(out.ResponseHeadersToRemove, headers.responseRemove...)
	if action.HostRewriteSpecifier == nil {
		setAuthority(action, headers.authority)
	}
	hash := destinationHash(c.View, to.GetDestination())
	if policy := hashPolicy(hash); policy != nil {
		action.HashPolicy = append(action.HashPolicy, policy)
	}
	return hash != nil
}

// split divides requests by weight. Destinations of weight zero are left out.
func (c Context) split(action *routev3.RouteAction, among sending) {
	weighted, divided := &routev3.WeightedCluster{}, Divide(among.to)
	for i, to := range among.to {
		if to.GetWeight() <= 0 {
			continue
		}
		cluster := c.weighted(to, divided)
		cluster.TypedPerFilterConfig = c.picked(withSession(nil, among.session(i), c.TLS), to.GetDestination())
		weighted.Clusters = append(weighted.Clusters, cluster)
		if policy := hashPolicy(destinationHash(c.View, to.GetDestination())); policy != nil {
			action.HashPolicy = append(action.HashPolicy, policy)
		}
	}
	if len(weighted.GetClusters()) == 0 {
		// Nobody is to have the requests; a split without clusters would be refused.
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: naming.BlackHoleCluster}
		return
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}
}

func (c Context) weighted(to *networking.HTTPRouteDestination, among Shares) *routev3.WeightedCluster_ClusterWeight {
	headers := headerOperations(to.GetHeaders())
	out := &routev3.WeightedCluster_ClusterWeight{
		Name:                    c.clusterOf(to.GetDestination()),
		Weight:                  wrapperspb.UInt32(among.Share(to.GetWeight())),
		RequestHeadersToAdd:     headers.requestAdd,
		RequestHeadersToRemove:  headers.requestRemove,
		ResponseHeadersToAdd:    headers.responseAdd,
		ResponseHeadersToRemove: headers.responseRemove,
	}
	if headers.authority != "" {
		out.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: headers.authority}
	}
	return out
}

// clusterOf names the cluster of a destination, whether there is one or not: Envoy answers
// 503 for one that is missing. Without a port it is the service's only one, else the one that the
// client connected to.
func (c Context) clusterOf(d *networking.Destination) string {
	return upstream.Destination(c.View, d, c.Service(d.GetHost()), c.Port, c.Shows)
}
