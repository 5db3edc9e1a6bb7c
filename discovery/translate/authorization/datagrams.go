package authorization

import (
	"maps"
	"slices"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/matching"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// RefusedDatagrams says which datagrams the policies for a proxy refuse. Envoy has no filter for them,
// so its matcher asks what the filter of connections would. Nobody proves an identity by datagrams, and
// no authorizer is asked about them: what one would be asked about is refused.
func RefusedDatagrams(v view.View) matching.Condition {
	of := map[security.AuthorizationPolicy_Action][]*mesh.AuthorizationPolicy{}
	for _, a := range v.Mesh.AuthorizationPolicies(v.Proxy) {
		if !a.DryRun {
			of[a.Spec.GetAction()] = append(of[a.Spec.GetAction()], a)
		}
	}
	j := &datagramJudge{}
	custom := j.any(askingRules(v, "", of[security.AuthorizationPolicy_CUSTOM], onTCP))
	denied, _ := rules(v, of[security.AuthorizationPolicy_DENY], rbacv3.RBAC_DENY, onTCP)
	allowed, _ := rules(v, of[security.AuthorizationPolicy_ALLOW], rbacv3.RBAC_ALLOW, onTCP)
	refused := matching.Any(custom, j.any(denied.GetPolicies()))
	if allowed != nil {
		refused = matching.Any(refused, matching.Not(j.any(allowed.GetPolicies())))
	}
	if j.lost {
		return matching.Known(true)
	}
	return refused
}

// datagramJudge reads rules for datagrams. Lost tells that it came across something that it does not
// know.
type datagramJudge struct{ lost bool }

// any holds if one of the rules matches.
func (j *datagramJudge) any(rules map[string]*rbacv3.Policy) matching.Condition {
	var out []matching.Condition
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		out = append(out, matching.All(
			matching.Any(each(rules[name].GetPermissions(), j.permission)...), matching.Any(each(rules[name].GetPrincipals(), j.principal)...)))
	}
	return matching.Any(out...)
}

func (j *datagramJudge) permission(p *rbacv3.Permission) matching.Condition {
	switch rule := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return matching.Known(true)
	case *rbacv3.Permission_AndRules:
		return matching.All(each(rule.AndRules.GetRules(), j.permission)...)
	case *rbacv3.Permission_OrRules:
		return matching.Any(each(rule.OrRules.GetRules(), j.permission)...)
	case *rbacv3.Permission_NotRule:
		return matching.Not(j.permission(rule.NotRule))
	case *rbacv3.Permission_DestinationPort:
		return matching.DestinationPort(rule.DestinationPort)
	case *rbacv3.Permission_DestinationIp:
		return matching.DestinationIn(rule.DestinationIp)
	case *rbacv3.Permission_RequestedServerName, *rbacv3.Permission_Metadata:
		return matching.Known(false) // there is none
	default:
		j.lost = true
		return matching.Known(false)
	}
}

func (j *datagramJudge) principal(p *rbacv3.Principal) matching.Condition {
	switch id := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return matching.Known(true)
	case *rbacv3.Principal_AndIds:
		return matching.All(each(id.AndIds.GetIds(), j.principal)...)
	case *rbacv3.Principal_OrIds:
		return matching.Any(each(id.OrIds.GetIds(), j.principal)...)
	case *rbacv3.Principal_NotId:
		return matching.Not(j.principal(id.NotId))
	case *rbacv3.Principal_DirectRemoteIp:
		return matching.SourceIn(id.DirectRemoteIp)
	case *rbacv3.Principal_RemoteIp:
		return matching.SourceIn(id.RemoteIp)
	case *rbacv3.Principal_Authenticated_:
		return matching.Known(false) // there is none
	default:
		j.lost = true
		return matching.Known(false)
	}
}

func each[M any](all []M, read func(M) matching.Condition) []matching.Condition {
	out := make([]matching.Condition, len(all))
	for i, one := range all {
		out[i] = read(one)
	}
	return out
}
