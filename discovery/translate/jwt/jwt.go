// Package jwt makes the filter that checks the tokens of requests, as RequestAuthentications ask
// for it.
package jwt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/emptypb"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

const (
	// Filter is the filter that checks tokens.
	Filter = "envoy.filters.http.jwt_authn"
	// Payload is where it notes what is in them.
	Payload = "payload"
)

// Checking is the filter that checks the tokens of requests by the RequestAuthentications for the
// proxy, if there are any.
func Checking(v view.View) []*hcmv3.HttpFilter {
	rules := v.Mesh.TokenRules(v.Proxy)
	if rules == nil {
		return nil
	}
	config := &jwtv3.JwtAuthentication{
		Providers: map[string]*jwtv3.JwtProvider{}, BypassCorsPreflight: true,
		Rules: []*jwtv3.RequirementRule{{
			Match:           message.AnyRequest(),
			RequirementType: &jwtv3.RequirementRule_Requires{Requires: demandedTokens(rules.Rules)},
		}},
	}
	for i, rule := range rules.Rules {
		config.Providers[providerName(i)] = tokenProvider(v, rule)
	}
	return []*hcmv3.HttpFilter{message.HTTPFilter(Filter, config)}
}

func providerName(i int) string { return fmt.Sprintf("origins-%d", i) }

// tokenProvider checks the tokens of one issuer. Routes of a gateway may ask for claims, so there
// the route is chosen again once they are known.
func tokenProvider(v view.View, rule *mesh.TokenRule) *jwtv3.JwtProvider {
	p := &jwtv3.JwtProvider{
		Issuer:               rule.GetIssuer(),
		Audiences:            rule.GetAudiences(),
		JwksSourceSpecifier:  &jwtv3.JwtProvider_LocalJwks{LocalJwks: message.Text(rule.KeySet)},
		Forward:              rule.GetForwardOriginalToken(),
		ForwardPayloadHeader: headerOrNone(rule.GetOutputPayloadToHeader()),
		PayloadInMetadata:    Payload,
		NormalizePayloadInMetadata: &jwtv3.JwtProvider_NormalizePayload{
			SpaceDelimitedClaims: spaceDelimited(rule.GetSpaceDelimitedClaims()),
		},
		FromParams:      rule.GetFromParams(),
		FromCookies:     rule.GetFromCookies(),
		ClearRouteCache: !v.Sidecar(),

		RequireExpiration: rule.Expire,
	}
	for _, from := range rule.GetFromHeaders() {
		// A name that no header has is looked for in vain. Without any name Envoy would look into
		// its own places.
		if from.GetName() != "" && isHeaderValue(from.GetName()) && isHeaderValue(from.GetPrefix()) {
			p.FromHeaders = append(p.FromHeaders, &jwtv3.JwtHeader{Name: from.GetName(), ValuePrefix: from.GetPrefix()})
		}
	}
	for _, to := range rule.GetOutputClaimToHeaders() {
		if name := headerOrNone(to.GetHeader()); name != "" && to.GetClaim() != "" {
			p.ClaimToHeaders = append(p.ClaimToHeaders, &jwtv3.JwtClaimToHeader{HeaderName: name, ClaimName: to.GetClaim()})
		}
	}
	return p
}

// spaceDelimited are the claims whose text is a list with spaces between the items. Access rules
// see them as lists. Two claims always are.
func spaceDelimited(more []string) []string {
	all := map[string]bool{"permission": true, "scope": true}
	for _, claim := range more {
		all[claim] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// demandedTokens are those that a request must have. Other tokens may be missing, and must be good
// if they are there. Two issuers may have their tokens in the same place, where a token of one is a
// bad one of the other. So a good token of any is enough for all that may be missing.
func demandedTokens(rules []*mesh.TokenRule) *jwtv3.JwtRequirement {
	var must, may []*jwtv3.JwtRequirement
	for i, rule := range rules {
		one := &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: providerName(i)}}
		if rule.GetPresence() == security.JWTRule_REQUIRED {
			must = append(must, one)
		} else {
			may = append(may, one)
		}
	}
	if len(may) == 0 {
		return allTokens(must)
	}
	return allTokens(append(slices.Clone(must), validOrMissing(may, must)))
}

// validOrMissing lets a request in that has no token, or a good one of each of these issuers, or of
// any of them or of others.
func validOrMissing(issuers, others []*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	each := make([]*jwtv3.JwtRequirement, len(issuers))
	for i, issuer := range issuers {
		each[i] = anyToken(issuer, &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}}})
	}
	if len(issuers)+len(others) == 1 {
		return each[0]
	}
	return anyToken(slices.Concat(issuers, []*jwtv3.JwtRequirement{allTokens(each)}, others)...)
}

// allTokens asks for each.
func allTokens(of []*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	if len(of) == 1 {
		return of[0]
	}
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAll{RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: of}}}
}

func anyToken(of ...*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAny{RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: of}}}
}

// headerOrNone is the name of a header, if it is a valid one. Envoy refuses a listener for some
// that are not, and rewrites others.
func headerOrNone(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) {
		return ""
	}
	return name
}

func isHeaderValue(text string) bool { return !strings.ContainsAny(text, "\x00\r\n") }
