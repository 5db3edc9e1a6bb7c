package cluster

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// ejectionsKnown is how long Envoy's workers may go on sending to an endpoint that was ejected. Envoy's
// default is a second, if something else of the cluster was ejected or came back within the last: that is
// longer than a short ejection lasts, and a request is sent again several times in it.
const ejectionsKnown = 50 * time.Millisecond

// applyOutlier ejects endpoints that fail. As in Istio, ejection by success rate, which is Envoy's
// default, stays off; and if few endpoints are healthy, those get all requests unless the user
// asked otherwise.
func (d *draft) applyOutlier(o *networking.OutlierDetection) {
	if d.dynamic == nil {
		d.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{Value: float64(o.GetMinHealthPercent())}
	}
	if o == nil {
		return
	}
	if d.dynamic == nil {
		d.CommonLbConfig.UpdateMergeWindow = durationpb.New(ejectionsKnown)
	}
	out := &clusterv3.OutlierDetection{
		EnforcingSuccessRate: wrapperspb.UInt32(0),
		Interval:             o.GetInterval(),
		BaseEjectionTime:     o.GetBaseEjectionTime(),
		MaxEjectionPercent:   message.Positive(o.GetMaxEjectionPercent()),
	}
	out.Consecutive_5Xx, out.EnforcingConsecutive_5Xx = consecutive(o.GetConsecutive_5XxErrors())
	out.ConsecutiveGatewayFailure, out.EnforcingConsecutiveGatewayFailure = consecutive(o.GetConsecutiveGatewayErrors())
	if o.GetSplitExternalLocalOriginErrors() {
		out.SplitExternalLocalOriginErrors = true
		out.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
		if o.GetConsecutiveLocalOriginFailures().GetValue() > 0 {
			out.ConsecutiveLocalOriginFailure, out.EnforcingConsecutiveLocalOriginFailure = consecutive(o.GetConsecutiveLocalOriginFailures())
		}
	}
	d.OutlierDetection = out
	if codes := o.GetOutlierDetectionHttpErrorCodes(); len(codes) > 0 {
		d.options().OutlierDetection = &upstreamhttpv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: answeredWith(codes)}
	}
}

// answeredWith matches the answers that count as failures, in place of all from 500 on.
func answeredWith(codes []uint32) *matcherv3.MatchPredicate {
	rules := make([]*matcherv3.MatchPredicate, len(codes))
	for i, code := range codes {
		rules[i] = &matcherv3.MatchPredicate{Rule: &matcherv3.MatchPredicate_HttpResponseHeadersMatch{
			HttpResponseHeadersMatch: &matcherv3.HttpHeadersMatch{Headers: []*routev3.HeaderMatcher{{
				Name:                 ":status",
				HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: message.Exactly(naming.Number(code))},
			}}},
		}}
	}
	if len(rules) == 1 {
		return rules[0]
	}
	return &matcherv3.MatchPredicate{Rule: &matcherv3.MatchPredicate_OrMatch{OrMatch: &matcherv3.MatchPredicate_MatchSet{Rules: rules}}}
}

// consecutive returns how many failures in a row eject, and in how many percent of cases. A
// threshold of 0 switches the check off.
func consecutive(failures *wrapperspb.UInt32Value) (threshold, enforcing *wrapperspb.UInt32Value) {
	switch {
	case failures == nil:
		return nil, nil
	case failures.GetValue() == 0:
		return wrapperspb.UInt32(0), wrapperspb.UInt32(0)
	default:
		return wrapperspb.UInt32(failures.GetValue()), wrapperspb.UInt32(100)
	}
}
