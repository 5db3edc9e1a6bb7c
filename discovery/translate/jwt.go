package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// checkingTokens is the filter that checks the tokens of requests by the RequestAuthentications for the proxy, if there are any.
func (v view) checkingTokens() []*hcmv3.HttpFilter {
	rules := v.mesh.TokenRules(v.proxy)
	if rules == nil {
		return nil
	}
	config := &jwtv3.JwtAuthentication{
		Providers: map[string]*jwtv3.JwtProvider{}, BypassCorsPreflight: true,
		Rules: []*jwtv3.RequirementRule{{
			Match:           anyRequest(),
			RequirementType: &jwtv3.RequirementRule_Requires{Requires: validOrMissing(len(rules.Rules))},
		}},
	}
	for i, rule := range rules.Rules {
		config.Providers[providerName(i)] = v.tokenProvider(rule)
	}
	return []*hcmv3.HttpFilter{httpFilter(jwtFilter, config)}
}

func providerName(i int) string { return fmt.Sprintf("origins-%d", i) }

// tokenProvider checks the tokens of one issuer. At a gateway, where routes may ask for claims, the route is chosen again once they are known.
func (v view) tokenProvider(rule *mesh.TokenRule) *jwtv3.JwtProvider {
	p := &jwtv3.JwtProvider{
		Issuer:               rule.GetIssuer(),
		Audiences:            rule.GetAudiences(),
		JwksSourceSpecifier:  &jwtv3.JwtProvider_LocalJwks{LocalJwks: inlineText(rule.KeySet)},
		Forward:              rule.GetForwardOriginalToken(),
		ForwardPayloadHeader: headerOrNone(rule.GetOutputPayloadToHeader()),
		PayloadInMetadata:    jwtPayload,
		NormalizePayloadInMetadata: &jwtv3.JwtProvider_NormalizePayload{
			SpaceDelimitedClaims: spaceDelimited(rule.GetSpaceDelimitedClaims()),
		},
		FromParams:      rule.GetFromParams(),
		FromCookies:     rule.GetFromCookies(),
		ClearRouteCache: !v.sidecar(),

		RequireExpiration: rule.Expire,
	}
	for _, from := range rule.GetFromHeaders() {
		// A name that no header has is looked for in vain. Without any name Envoy would look into its own places.
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

func inlineText(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

// spaceDelimited are the claims that are lists with spaces between the items, which access rules see as lists: two always are.
func spaceDelimited(more []string) []string {
	all := map[string]bool{"permission": true, "scope": true}
	for _, claim := range more {
		all[claim] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// validOrMissing lets a request in that has no token, or of each token that it has a good one. Two issuers may have their tokens in the same
// place, where a token of one is a bad one of the other: so a good token of any is enough.
func validOrMissing(issuers int) *jwtv3.JwtRequirement {
	each := make([]*jwtv3.JwtRequirement, issuers)
	anyOne := make([]*jwtv3.JwtRequirement, issuers, issuers+1)
	for i := range issuers {
		anyOne[i] = &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: providerName(i)}}
		each[i] = anyToken(anyOne[i], &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}}})
	}
	if issuers == 1 {
		return each[0]
	}
	return anyToken(append(anyOne, &jwtv3.JwtRequirement{
		RequiresType: &jwtv3.JwtRequirement_RequiresAll{RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: each}},
	})...)
}

func anyToken(of ...*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAny{RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: of}}}
}

// headerOrNone is the name of a header if it is one. Envoy refuses a listener for some that are not, and would write others.
func headerOrNone(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) {
		return ""
	}
	return name
}

func isHeaderValue(text string) bool { return !strings.ContainsAny(text, "\x00\r\n") }
