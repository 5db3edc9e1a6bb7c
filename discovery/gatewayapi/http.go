package gatewayapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/re2"
)

// conversion turns the rules of a route into those of a VirtualService.
type conversion struct {
	route *Route
	world World
	// checked says that ReferenceGrants count, as they do for what comes through a Gateway.
	checked  bool
	problems []Problem

	converted    *rules // nil before they are asked for
	unresolved   faults // what rules name in vain
	dropped      faults // what of rules is of no use
	droppedRules int
	extras       extras // beside the routes that rules became
}

func (c *conversion) report(path, reason string) {
	c.problems = append(c.problems, Problem{c.route.Resource.Key(), path, reason})
}

// requests converts the rules of an HTTPRoute or a GRPCRoute: one route for each match, which has
// it alone. So routes of several resources can be sorted.
func (c *conversion) requests() (out []*networking.HTTPRoute) {
	for i, rule := range c.route.spec.Rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		converted, useless := c.rule(rule, i, at), ""
		by, ok := c.authorization(rule, i, at)
		if !ok {
			refuse(converted)
		}
		session := c.session(rule, converted, i, at)
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []matchSpec{{}}
		}
		matched := 0
		for j, m := range matches {
			match := c.match(m)
			if wrong := re2.InMatch(match); len(wrong) > 0 {
				useless = wrong[0].Reason + ": the match is left out"
				c.report(fmt.Sprintf("%s.matches[%d]", at, j), useless)
				continue
			}
			one := with(converted, match)
			c.extras = c.extras.with(one, &Extras{Session: session.under(match), Authorization: by})
			out = append(out, one)
			matched++
		}
		if matched == 0 {
			c.drop(i, useless)
		}
	}
	return out
}

// with is a route for one match.
func with(r *networking.HTTPRoute, match *networking.HTTPMatchRequest) *networking.HTTPRoute {
	return &networking.HTTPRoute{
		Name: r.GetName(), Match: []*networking.HTTPMatchRequest{match}, Headers: r.GetHeaders(), Redirect: r.GetRedirect(), Rewrite: r.GetRewrite(),
		Mirrors: r.GetMirrors(), CorsPolicy: r.GetCorsPolicy(), Retries: r.GetRetries(), Timeout: r.GetTimeout(), DirectResponse: r.GetDirectResponse(),
		Route: r.GetRoute(),
	}
}

// rule converts a rule without its matches.
func (c *conversion) rule(rule ruleSpec, index int, at string) *networking.HTTPRoute {
	r := c.route.Resource
	out := &networking.HTTPRoute{Name: or(rule.Name, r.Namespace+"."+r.Name+"."+strconv.Itoa(index))}
	if unknown := c.filter(out, rule.Filters, at); unknown != "" {
		c.drop(index, unknown)
		refuse(out)
		return out
	}
	setRetries(out, rule)
	setTimeouts(out, rule)
	if out.GetRedirect() != nil {
		return out
	}
	c.send(out, rule, at)
	return out
}

// refuse has all requests of a rule answered with 500.
func refuse(out *networking.HTTPRoute) {
	out.Redirect, out.Rewrite, out.Mirrors, out.Route = nil, nil, nil, nil
	out.DirectResponse = &networking.HTTPDirectResponse{Status: http.StatusInternalServerError}
}

// send sets where requests go: nowhere, which is answered with 500, if nothing has a weight. Sessions go
// on with a backend that has none any more.
func (c *conversion) send(out *networking.HTTPRoute, rule ruleSpec, at string) {
	backends := rule.BackendRefs
	indices, weights := weigh(backends)
	if len(indices) > 0 && rule.SessionPersistence != nil {
		indices, weights = all(backends)
	}
	if len(indices) == 0 {
		out.DirectResponse = &networking.HTTPDirectResponse{Status: http.StatusInternalServerError}
		return
	}
	for n, i := range indices {
		path := fmt.Sprintf("%s.backendRefs[%d]", at, i)
		to := &networking.HTTPRouteDestination{Destination: c.destination(backends[i], path), Weight: weights[n]}
		if !c.filterBackend(to, backends[i].Filters, path) {
			to.Destination, to.Headers = &networking.Destination{}, nil
		}
		out.Route = append(out.Route, to)
	}
}

// setRetries says what is tried again. Connections that fail are, as soon as anything is.
func setRetries(out *networking.HTTPRoute, rule ruleSpec) {
	if rule.Retry == nil {
		return
	}
	on := []string{"connect-failure", "refused-stream", "unavailable", "cancelled"}
	for _, code := range rule.Retry.Codes {
		on = append(on, strconv.Itoa(code))
	}
	out.Retries = &networking.HTTPRetry{Attempts: or(rule.Retry.Attempts, 2), RetryOn: strings.Join(on, ",")}
	if rule.Retry.Backoff != nil {
		out.Retries.Backoff = duration(*rule.Retry.Backoff)
	}
}

// setTimeouts bounds the whole request, and each try of it. Where nothing is tried again the bound
// of a try is that of the request.
func setTimeouts(out *networking.HTTPRoute, rule ruleSpec) {
	if rule.Timeouts.Request != nil {
		out.Timeout = duration(*rule.Timeouts.Request)
	}
	if rule.Timeouts.BackendRequest == nil {
		return
	}
	try := duration(*rule.Timeouts.BackendRequest)
	switch {
	case try == nil:
	case out.GetRetries() != nil:
		out.Retries.PerTryTimeout = try
	default:
		out.Timeout = try
	}
}

// duration reads a duration; nil for 0, which is none.
func duration(text string) *durationpb.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return nil
	}
	return durationpb.New(d)
}
