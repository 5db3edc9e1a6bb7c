package gatewayapi

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// What holds for retries if an XBackendTrafficPolicy that bounds them leaves it out, as the API says.
const (
	usualRetryPercent  = 20
	usualRetryInterval = 10 * time.Second
	fewestRetries      = 10
)

// guide returns what an XBackendTrafficPolicy comes to. Retries are a share of the requests that are
// under way, and as many as minRetryRate says may be in any case, as in Istio.
func (p *Policy) guide() *Effect {
	out := &Effect{}
	if in := p.traffic.RetryConstraint; in != nil {
		interval := duration(or(in.Budget.Interval, ""))
		if interval == nil {
			interval = durationpb.New(usualRetryInterval)
		}
		out.Retries = &networking.TrafficPolicy_RetryBudget{
			Percent: wrapperspb.Double(or(in.Budget.Percent, usualRetryPercent)), BudgetInterval: interval,
			MinRetryConcurrency: or(in.MinRetryRate.Count, fewestRetries),
		}
	}
	if in := p.traffic.SessionPersistence; in != nil {
		r := p.Resource
		session, wrong := in.session(r.Kind.Name + "/" + r.Namespace + "/" + r.Name)
		if wrong != "" {
			out.invalid = fault{reasonInvalid, wrong}
		}
		out.Session = session
	}
	return out
}
