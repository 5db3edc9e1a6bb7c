package translate

import (
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

const (
	httpRBAC = "envoy.filters.http.rbac"
	tcpRBAC  = "envoy.filters.network.rbac"

	// rbacStats begins the names of statistics of connections.
	rbacStats = "tcp."
)

// guard is what requests and connections have to pass before others have them: the application, or what is behind a gateway.
type guard struct {
	revoked filters             // refuses clients whose identity was revoked; of connections that a client's certificate is checked of
	asking  filters             // those who are asked
	tokens  []*hcmv3.HttpFilter // what checks them, for rules to know what they claim
	judging filters             // rules
}

// filters are those of requests, and those of connections that nobody reads.
type filters struct {
	http []*hcmv3.HttpFilter
	tcp  []*listenerv3.Filter
}

// guarded is the view with what the policies for the proxy demand.
func (v view) guarded() view {
	of := map[security.AuthorizationPolicy_Action][]*mesh.AuthorizationPolicy{}
	for _, a := range v.mesh.AuthorizationPolicies(v.proxy) {
		of[a.Spec.GetAction()] = append(of[a.Spec.GetAction()], a)
	}
	v.guard.revoked = v.refusingRevoked()
	v.guard.asking = v.asking(of[security.AuthorizationPolicy_CUSTOM])
	v.guard.tokens = v.checkingTokens()
	for _, action := range []security.AuthorizationPolicy_Action{
		security.AuthorizationPolicy_AUDIT, security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW,
	} {
		if len(of[action]) > 0 {
			v.guard.judging.http = append(v.guard.judging.http, v.judgingHTTP(of[action], rbacActions[action]))
			v.guard.judging.tcp = append(v.guard.judging.tcp, v.judgingTCP(of[action], rbacActions[action]))
		}
	}
	return v
}

// guardHTTP puts what requests have to pass before the other filters.
func (v view) guardHTTP(m *hcmv3.HttpConnectionManager) {
	m.HttpFilters = slices.Concat(v.guard.asking.http, v.guard.tokens, v.guard.judging.http, m.GetHttpFilters())
	if v.certified {
		m.HttpFilters = slices.Concat(v.guard.revoked.http, m.GetHttpFilters())
	}
}

// guardTCP puts what connections have to pass before the other filters.
func (v view) guardTCP(others ...*listenerv3.Filter) []*listenerv3.Filter {
	out := slices.Concat(v.guard.asking.tcp, v.guard.judging.tcp, others)
	if v.certified {
		out = slices.Concat(v.guard.revoked.tcp, out)
	}
	return out
}

// certifying is the view for a chain whose clients' certificates are checked, or are not.
func (v view) certifying(clients bool) view {
	v.certified = clients
	return v
}

var rbacActions = map[security.AuthorizationPolicy_Action]rbacv3.RBAC_Action{
	security.AuthorizationPolicy_ALLOW: rbacv3.RBAC_ALLOW,
	security.AuthorizationPolicy_DENY:  rbacv3.RBAC_DENY,
	security.AuthorizationPolicy_AUDIT: rbacv3.RBAC_LOG,
}

// triedPrefixes begin the names under which Envoy notes what policies would have decided that are tried. Where there are none Istio has the
// first.
var triedPrefixes = map[rbacv3.RBAC_Action]string{
	rbacv3.RBAC_ALLOW: "istio_dry_run_allow_",
	rbacv3.RBAC_DENY:  "istio_dry_run_deny_",
}

func (v view) judgingHTTP(policies []*mesh.AuthorizationPolicy, action rbacv3.RBAC_Action) *hcmv3.HttpFilter {
	enforced, tried := v.rules(policies, action, onHTTP)
	return httpFilter(httpRBAC, &httprbacv3.RBAC{Rules: enforced, ShadowRules: tried, ShadowRulesStatPrefix: triedPrefixes[tried.GetAction()]})
}

func (v view) judgingTCP(policies []*mesh.AuthorizationPolicy, action rbacv3.RBAC_Action) *listenerv3.Filter {
	enforced, tried := v.rules(policies, action, onTCP)
	return networkFilter(tcpRBAC, &tcprbacv3.RBAC{
		StatPrefix: rbacStats, Rules: enforced, ShadowRules: tried, ShadowRulesStatPrefix: triedPrefixes[tried.GetAction()],
	})
}

// rules are those of policies of one action: those that are enforced, and those that are tried; nil where there is no such policy. Where
// there is one and no rule of it can match, all the same the action stands: without a rule that matches, ALLOW refuses.
func (v view) rules(policies []*mesh.AuthorizationPolicy, action rbacv3.RBAC_Action, on traffic) (enforced, tried *rbacv3.RBAC) {
	for _, a := range policies {
		rules := &enforced
		if a.DryRun {
			rules = &tried
		}
		if *rules == nil {
			*rules = &rbacv3.RBAC{Action: action, Policies: map[string]*rbacv3.Policy{}}
		}
		v.addRules((*rules).Policies, a, "", reading{on: on, narrow: action == rbacv3.RBAC_ALLOW})
	}
	return enforced, tried
}

// addRules adds the rules of a policy under their names, as they are found in logs and statistics.
func (v view) addRules(to map[string]*rbacv3.Policy, a *mesh.AuthorizationPolicy, prefix string, how reading) {
	name := func(i int) string {
		return fmt.Sprintf("%sns[%s]-policy[%s]-rule[%d]", prefix, a.Resource.Namespace, a.Resource.Name, i)
	}
	how.domains, how.namespace = domainsOf(v.config), a.Resource.Namespace
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

func networkFilter(name string, config proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(config)}}
}
