package authorization

import (
	"fmt"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// revokedStats begins the names of statistics of whom revocations refuse.
const revokedStats = "revoked."

// refusingRevoked refuses clients whose identity was revoked, whatever policies say. The rule that
// refuses bears the identity's name, and so tells in access logs why.
func refusingRevoked(v view.View) (out filters) {
	revoked := v.Mesh.Trust().Revoked
	if len(revoked) == 0 {
		return filters{}
	}
	rules := &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: make(map[string]*rbacv3.Policy, len(revoked))}
	for _, identity := range revoked {
		rules.Policies[revokedName(identity)] = &rbacv3.Policy{
			Permissions: []*rbacv3.Permission{permissions.any()}, Principals: inEachDomain(v, identity),
		}
	}
	return filters{
		http: []*hcmv3.HttpFilter{message.HTTPFilter(httpRBAC, &httprbacv3.RBAC{Rules: rules, RulesStatPrefix: revokedStats})},
		tcp:  []*listenerv3.Filter{message.NetworkFilter(tcpRBAC, &tcprbacv3.RBAC{Rules: rules, StatPrefix: revokedStats})},
	}
}

// revokedName is that of the rule for an identity: revoked-ns[NAMESPACE]-sa[SERVICE-ACCOUNT].
func revokedName(identity string) string {
	parts := strings.Split(identity, "/")
	if len(parts) != 4 {
		return "revoked-[" + identity + "]"
	}
	return fmt.Sprintf("revoked-%s[%s]-%s[%s]", parts[0], parts[1], parts[2], parts[3])
}

// inEachDomain asks for an identity under each name of the mesh's trust domain.
func inEachDomain(v view.View, identity string) (out []*rbacv3.Principal) {
	for _, domain := range domainsOf(v.Config) {
		out = append(out, proves(message.Exactly(spiffe+domain+"/"+identity)))
	}
	return out
}
