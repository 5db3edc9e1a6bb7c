package translate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// applyOutlier ejects endpoints that fail. Ejection by success rate, Envoy's default, stays off as in Istio; and where
// too few endpoints are healthy, the healthy ones still get all requests unless the user asked otherwise.
func applyOutlier(d *draft, o *networking.OutlierDetection) {
	d.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{Value: float64(o.GetMinHealthPercent())}
	if o == nil {
		return
	}
	out := &clusterv3.OutlierDetection{
		EnforcingSuccessRate: u32(0),
		Interval:             o.GetInterval(),
		BaseEjectionTime:     o.GetBaseEjectionTime(),
		MaxEjectionPercent:   positive(o.GetMaxEjectionPercent()),
	}
	out.Consecutive_5Xx, out.EnforcingConsecutive_5Xx = consecutive(o.GetConsecutive_5XxErrors())
	out.ConsecutiveGatewayFailure, out.EnforcingConsecutiveGatewayFailure = consecutive(o.GetConsecutiveGatewayErrors())
	if o.GetSplitExternalLocalOriginErrors() {
		out.SplitExternalLocalOriginErrors = true
		out.EnforcingLocalOriginSuccessRate = u32(0)
		if o.GetConsecutiveLocalOriginFailures().GetValue() > 0 {
			out.ConsecutiveLocalOriginFailure, out.EnforcingConsecutiveLocalOriginFailure = consecutive(o.GetConsecutiveLocalOriginFailures())
		}
	}
	d.OutlierDetection = out
}

// consecutive is a number of failures in a row and how surely it ejects: 0 switches the check off.
func consecutive(failures *wrapperspb.UInt32Value) (threshold, enforcing *wrapperspb.UInt32Value) {
	switch {
	case failures == nil:
		return nil, nil
	case failures.GetValue() == 0:
		return u32(0), u32(0)
	default:
		return u32(failures.GetValue()), u32(100)
	}
}
