package authorization

import (
	"maps"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/extauthz"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

const (
	// askedPrefix begins the names of rules by which an authorizer is asked, and matchedPrefix the
	// names under which Envoy notes which of them has matched.
	askedPrefix   = "istio-ext-authz-"
	matchedPrefix = "istio_ext_authz_"

	// unaskable ends the names of rules whose authorizer cannot be asked: they refuse.
	unaskable = "-deny-due-to-bad-CUSTOM-action"
)

// asking has an authorizer decide about what the rules of policies match. Each authorizer takes two
// filters: one judges by the rules, refuses nothing and notes which matched; the next asks, if one
// of its own did. Policies on trial are left out: to ask is to do something.
func asking(v view.View, policies []*mesh.AuthorizationPolicy) (out filters) {
	by := map[string][]*mesh.AuthorizationPolicy{}
	for _, a := range policies {
		if name := a.Spec.GetProvider().GetName(); !a.DryRun {
			by[name] = append(by[name], a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		a := authorizer{Authorizer: v.Mesh.Authorizer(name), name: name, alone: len(by) == 1}
		out.http = append(out.http, a.http(askingRules(v, name, by[name], onHTTP))...)
		out.tcp = append(out.tcp, a.tcp(askingRules(v, name, by[name], onTCP))...)
	}
	return out
}

// askingRules are those of an authorizer's policies. If a part of a rule cannot be asked for, the
// rule matches more: the authorizer may look itself.
func askingRules(v view.View, name string, policies []*mesh.AuthorizationPolicy, on traffic) map[string]*rbacv3.Policy {
	rules, prefix := map[string]*rbacv3.Policy{}, askedPrefix
	if name != "" {
		prefix += name + "-"
	}
	for _, a := range policies {
		addRules(v, rules, a, prefix, reading{on: on})
	}
	return rules
}

// authorizer is one of those that are asked on behalf of a proxy.
type authorizer struct {
	mesh.Authorizer

	name  string
	alone bool // there is no other
}

func (a authorizer) http(rules map[string]*rbacv3.Policy) []*hcmv3.HttpFilter {
	if a.Wrong != "" {
		return []*hcmv3.HttpFilter{message.HTTPFilter(httpRBAC, &httprbacv3.RBAC{Rules: refusing(rules)})}
	}
	config := a.httpConfig()
	config.FilterEnabledMetadata = a.matched(httpRBAC)
	return []*hcmv3.HttpFilter{
		message.HTTPFilter(httpRBAC, &httprbacv3.RBAC{ShadowRules: denying(rules), ShadowRulesStatPrefix: matchedPrefix}),
		message.HTTPFilter(extauthz.Filter, config),
	}
}

// tcp is empty for an authorizer that speaks HTTP: it knows only of requests.
func (a authorizer) tcp(rules map[string]*rbacv3.Policy) []*listenerv3.Filter {
	if a.Wrong != "" {
		return []*listenerv3.Filter{message.NetworkFilter(tcpRBAC, &tcprbacv3.RBAC{Rules: refusing(rules), StatPrefix: rbacStats})}
	}
	if a.Provider.GetEnvoyExtAuthzGrpc() == nil {
		return nil
	}
	config := a.tcpConfig()
	config.FilterEnabledMetadata = a.matched(tcpRBAC)
	return []*listenerv3.Filter{
		message.NetworkFilter(tcpRBAC, &tcprbacv3.RBAC{ShadowRules: denying(rules), StatPrefix: rbacStats, ShadowRulesStatPrefix: matchedPrefix}),
		message.NetworkFilter("envoy.filters.network.ext_authz", config),
	}
}

func denying(rules map[string]*rbacv3.Policy) *rbacv3.RBAC {
	return &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: rules}
}

func refusing(rules map[string]*rbacv3.Policy) *rbacv3.RBAC {
	renamed := make(map[string]*rbacv3.Policy, len(rules))
	for name, rule := range rules {
		renamed[name+unaskable] = rule
	}
	return denying(renamed)
}

// matched tells, by what the filter before has noted, whether a rule of this authorizer matched.
// The name of one authorizer may begin that of another.
func (a authorizer) matched(filter string) *matcherv3.MetadataMatcher {
	prefix := askedPrefix + a.name
	if !a.alone {
		prefix += "-ns["
	}
	return noted(filter, []string{matchedPrefix + "shadow_effective_policy_id"}, textValue(message.BeginningWith(prefix)))
}
