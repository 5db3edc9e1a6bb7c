package route

import (
	"strconv"
	"strings"

	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// cors answers preflight requests of browsers. Those of other origins go to the application unless
// the policy keeps them from it.
func cors(in *networking.CorsPolicy) *corsv3.CorsPolicy {
	out := &corsv3.CorsPolicy{
		AllowOriginStringMatch:       origins(in),
		AllowMethods:                 strings.Join(in.GetAllowMethods(), ","),
		AllowHeaders:                 strings.Join(in.GetAllowHeaders(), ","),
		ExposeHeaders:                strings.Join(in.GetExposeHeaders(), ","),
		AllowCredentials:             in.GetAllowCredentials(),
		FilterEnabled:                runtimeFraction(wholePercent(100)),
		ForwardNotMatchingPreflights: wrapperspb.Bool(in.GetUnmatchedPreflights() != networking.CorsPolicy_IGNORE),
	}
	if in.GetMaxAge() != nil {
		out.MaxAge = strconv.FormatInt(in.GetMaxAge().GetSeconds(), 10)
	}
	return out
}

func origins(in *networking.CorsPolicy) []*matcherv3.StringMatcher {
	var out []*matcherv3.StringMatcher
	for _, origin := range in.GetAllowOrigins() {
		out = append(out, stringMatch(origin))
	}
	if in.AllowOrigins == nil {
		for _, origin := range in.GetAllowOrigin() { //nolint:staticcheck // people still write it
			out = append(out, message.Exactly(origin))
		}
	}
	return out
}
