// Package authorization makes the filters that requests and connections have to pass: by
// AuthorizationPolicies, RequestAuthentications and revocations.
package authorization

import (
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/extension"
	"github.com/pgmesh/pgmesh/discovery/translate/jwt"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

const (
	httpRBAC = "envoy.filters.http.rbac"
	tcpRBAC  = "envoy.filters.network.rbac"

	// rbacStats begins the names of statistics of connections.
	rbacStats = "tcp."
)

// Guard is what requests and connections have to pass to reach the application, or what is behind a
// gateway.
type Guard struct {
	revoked filters             // refuse clients whose identity was revoked, if their certificates are checked
	asking  filters             // ask authorizers
	tokens  []*hcmv3.HttpFilter // check tokens, so that rules know what they claim
	judging filters             // judge by rules
}

// filters are those of requests, and those of connections that nobody reads.
type filters struct {
	http []*hcmv3.HttpFilter
	tcp  []*listenerv3.Filter
}

// Of is what the policies for a proxy demand.
func Of(v view.View) (out Guard) {
	of := map[security.AuthorizationPolicy_Action][]*mesh.AuthorizationPolicy{}
	for _, a := range v.Mesh.AuthorizationPolicies(v.Proxy) {
		of[a.Spec.GetAction()] = append(of[a.Spec.GetAction()], a)
	}
	out.revoked = refusingRevoked(v)
	out.asking = asking(v, of[security.AuthorizationPolicy_CUSTOM])
	out.tokens = jwt.Checking(v)
	for _, action := range []security.AuthorizationPolicy_Action{
		security.AuthorizationPolicy_AUDIT, security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW,
	} {
		if len(of[action]) > 0 {
			out.judging.http = append(out.judging.http, judgingHTTP(v, of[action], rbacActions[action]))
			out.judging.tcp = append(out.judging.tcp, judgingTCP(v, of[action], rbacActions[action]))
		}
	}
	return out
}

// OnRequests puts what requests have to pass before the other filters, with extensions between.
// Certified tells that the certificates of clients are checked.
func (g Guard) OnRequests(m *hcmv3.HttpConnectionManager, certified bool, added extension.Phases[*hcmv3.HttpFilter]) {
	m.HttpFilters = slices.Concat(g.asking.http, added.Authn, g.tokens, added.Authz, g.judging.http, added.Late, m.GetHttpFilters())
	if certified {
		m.HttpFilters = slices.Concat(g.revoked.http, m.GetHttpFilters())
	}
}

// OnConnections puts what connections have to pass before the other filters, with extensions
// between.
func (g Guard) OnConnections(certified bool, added extension.Phases[*listenerv3.Filter], others ...*listenerv3.Filter) []*listenerv3.Filter {
	out := slices.Concat(g.asking.tcp, added.Authn, added.Authz, g.judging.tcp, added.Late, others)
	if certified {
		out = slices.Concat(g.revoked.tcp, out)
	}
	return out
}

var rbacActions = map[security.AuthorizationPolicy_Action]rbacv3.RBAC_Action{
	security.AuthorizationPolicy_ALLOW: rbacv3.RBAC_ALLOW,
	security.AuthorizationPolicy_DENY:  rbacv3.RBAC_DENY,
	security.AuthorizationPolicy_AUDIT: rbacv3.RBAC_LOG,
}

// triedPrefixes begin the names under which Envoy notes what policies on trial would have decided.
// If there are none, Istio uses the first.
var triedPrefixes = map[rbacv3.RBAC_Action]string{
	rbacv3.RBAC_ALLOW: "istio_dry_run_allow_",
	rbacv3.RBAC_DENY:  "istio_dry_run_deny_",
}

func judgingHTTP(v view.View, policies []*mesh.AuthorizationPolicy, action rbacv3.RBAC_Action) *hcmv3.HttpFilter {
	enforced, tried := rules(v, policies, action, onHTTP)
	return message.HTTPFilter(httpRBAC, &httprbacv3.RBAC{Rules: enforced, ShadowRules: tried, ShadowRulesStatPrefix: triedPrefixes[tried.GetAction()]})
}

func judgingTCP(v view.View, policies []*mesh.AuthorizationPolicy, action rbacv3.RBAC_Action) *listenerv3.Filter {
	enforced, tried := rules(v, policies, action, onTCP)
	return message.NetworkFilter(tcpRBAC, &tcprbacv3.RBAC{
		StatPrefix: rbacStats, Rules: enforced, ShadowRules: tried, ShadowRulesStatPrefix: triedPrefixes[tried.GetAction()],
	})
}

// rules are those of policies of one action: the enforced ones, and those on trial; nil if there is
// no such policy. If no rule of a policy can match, the action still stands: ALLOW refuses what no
// rule matches.
func rules(v view.View, policies []*mesh.AuthorizationPolicy, action rbacv3.RBAC_Action, on traffic) (enforced, tried *rbacv3.RBAC) {
	for _, a := range policies {
		rules := &enforced
		if a.DryRun {
			rules = &tried
		}
		if *rules == nil {
			*rules = &rbacv3.RBAC{Action: action, Policies: map[string]*rbacv3.Policy{}}
		}
		addRules(v, (*rules).Policies, a, "", reading{on: on, narrow: action == rbacv3.RBAC_ALLOW})
	}
	return enforced, tried
}

// addRules adds the rules of a policy under the names that logs and statistics have for them.
func addRules(v view.View, to map[string]*rbacv3.Policy, a *mesh.AuthorizationPolicy, prefix string, how reading) {
	name := func(i int) string {
		return fmt.Sprintf("%sns[%s]-policy[%s]-rule[%d]", prefix, a.Resource.Namespace, a.Resource.Name, i)
	}
	how.domains, how.namespace = domainsOf(v.Config), a.Resource.Namespace
	for i, rule := range a.Spec.GetRules() {
		if policy := how.rule(rule); policy != nil {
			to[name(i)] = policy
		}
	}
	if len(a.Spec.GetRules()) == 0 {
		to[name(0)] = matchesNothing
	}
}

// matchesNothing is the rule of a policy without rules.
var matchesNothing = &rbacv3.Policy{
	Permissions: []*rbacv3.Permission{permissions.not(permissions.any())},
	Principals:  []*rbacv3.Principal{principals.not(principals.any())},
}
