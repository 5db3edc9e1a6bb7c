package route

import (
	"net/http"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	previousprioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// What is retried where the user says nothing: only what surely did not reach the application.
const (
	defaultAttempts  = 2
	defaultRetryOn   = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
	retriableByCode  = "retriable-status-codes"
	hostReselections = 5 // how often Envoy looks for an endpoint that it has not tried
)

// otherHosts makes retries avoid the endpoints that failed.
var otherHosts = []*routev3.RetryPolicy_RetryHostPredicate{{
	Name: "envoy.retry_host_predicates.previous_hosts",
	ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
		TypedConfig: message.Pack(&previoushostsv3.PreviousHostsPredicate{}),
	},
}}

// otherLocalities makes retries go to other priorities after every second attempt.
var otherLocalities = &routev3.RetryPolicy_RetryPriority{
	Name: "envoy.retry_priorities.previous_priorities",
	ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
		TypedConfig: message.Pack(&previousprioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 2}),
	},
}

// retries translates a policy. Nil asks for the default one, no attempts for none. Requests that
// are hashed to an endpoint stay with it.
func retries(in *networking.HTTPRetry, hashed bool) *routev3.RetryPolicy {
	out := &routev3.RetryPolicy{
		NumRetries: wrapperspb.UInt32(defaultAttempts), RetryOn: defaultRetryOn, HostSelectionRetryMaxAttempts: hostReselections,
	}
	if !hashed {
		out.RetryHostPredicate = otherHosts
	}
	if in == nil {
		return out
	}
	if in.GetAttempts() <= 0 {
		return nil
	}
	setRetryConditions(out, in)
	out.PerTryTimeout = in.GetPerTryTimeout()
	if in.GetRetryIgnorePreviousHosts() != nil {
		out.RetryHostPredicate = nil
		if in.GetRetryIgnorePreviousHosts().GetValue() {
			out.RetryHostPredicate = otherHosts
		}
	}
	if in.GetRetryRemoteLocalities().GetValue() {
		out.RetryPriority = otherLocalities
	}
	return out
}

// InboundRetries are those between the sidecar and its own application: there is no other endpoint
// to try. Nil asks for the default ones, no attempts for none.
func InboundRetries(in *networking.HTTPRetry) *routev3.RetryPolicy {
	out := &routev3.RetryPolicy{NumRetries: wrapperspb.UInt32(defaultAttempts), RetryOn: "reset-before-request"}
	if in == nil {
		return out
	}
	if in.GetAttempts() <= 0 {
		return nil
	}
	setRetryConditions(out, in)
	return out
}

func setRetryConditions(out *routev3.RetryPolicy, in *networking.HTTPRetry) {
	out.NumRetries = wrapperspb.UInt32(uint32(in.GetAttempts()))
	if in.GetRetryOn() != "" {
		out.RetryOn, out.RetriableStatusCodes = retryConditions(in.GetRetryOn())
	}
	if in.GetBackoff() != nil {
		out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: in.GetBackoff()}
	}
}

// retryConditions takes the HTTP status codes out of a list of conditions: "503,reset" has the
// condition to retry by code.
func retryConditions(list string) (conditions string, codes []uint32) {
	var words []string
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if code, err := strconv.Atoi(word); err == nil && http.StatusText(code) != "" {
			codes = append(codes, uint32(code))
		} else if word != "" {
			words = append(words, word)
		}
	}
	conditions = strings.Join(words, ",")
	if len(codes) > 0 && !strings.Contains(conditions, retriableByCode) {
		conditions += "," + retriableByCode
	}
	return strings.TrimPrefix(conditions, ","), codes
}
