package authorization

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	security "istio.io/api/security/v1beta1"
)

// traffic says about what a rule is asked.
type traffic int

const (
	onHTTP traffic = iota // about each request
	onTCP                 // about each connection, of which no requests are known
)

// reading says how rules are read.
type reading struct {
	on traffic
	// narrow rules never match where something of them cannot be asked. The others match more: they
	// are left with what can be asked.
	narrow bool
	// domains are the mesh's own trust domain and its other names, and namespace that of the
	// policy.
	domains   []string
	namespace string
}

// rule is what Envoy asks: whether somebody of the principals wants something of the permissions.
// It is nil if the rule never matches.
func (r reading) rule(rule *security.Rule) *rbacv3.Policy {
	out, whole := &rbacv3.Policy{}, true
	to, from := rule.GetTo(), rule.GetFrom()
	if len(to) == 0 {
		to = []*security.Rule_To{nil}
	}
	if len(from) == 0 {
		from = []*security.Rule_From{nil}
	}
	for _, t := range to {
		asked, all := permissions.ask(append(r.operation(t.GetOperation()), r.conditionsOn(rule.GetWhen())...))
		out.Permissions, whole = append(out.Permissions, asked), whole && all
	}
	for _, f := range from {
		asked, all := principals.ask(append(r.source(f.GetSource()), r.conditionsBy(rule.GetWhen())...))
		out.Principals, whole = append(out.Principals, asked), whole && all
	}
	if r.narrow && (!whole || !r.knowsAll(rule.GetWhen())) {
		return nil
	}
	return out
}

// operation is what is wanted.
func (r reading) operation(o *security.Operation) []question[rbacv3.Permission] {
	return []question[rbacv3.Permission]{
		permissions.each(o.GetHosts(), nil, r.toHost(!r.narrow)),
		permissions.each(nil, o.GetNotHosts(), r.toHost(r.narrow)),
		permissions.each(o.GetMethods(), o.GetNotMethods(), r.byMethod),
		permissions.each(o.GetPaths(), o.GetNotPaths(), r.toPath),
		permissions.each(o.GetPorts(), o.GetNotPorts(), toPort),
	}
}

// source is who wants it.
func (r reading) source(s *security.Source) []question[rbacv3.Principal] {
	return []question[rbacv3.Principal]{
		principals.each(r.inAllDomains(s.GetPrincipals()), r.inAllDomains(s.GetNotPrincipals()), byPrincipal),
		principals.list(s.GetRequestPrincipals(), s.GetNotRequestPrincipals(), r.byRequestPrincipals),
		principals.each(s.GetServiceAccounts(), s.GetNotServiceAccounts(), r.byServiceAccount),
		principals.each(r.withAllNames(s.GetTrustDomains()), r.withAllNames(s.GetNotTrustDomains()), byTrustDomain),
		principals.each(s.GetNamespaces(), s.GetNotNamespaces(), byNamespace),
		principals.each(s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks(), byRemoteAddress),
		principals.each(s.GetIpBlocks(), s.GetNotIpBlocks(), byPeerAddress),
	}
}

// The keys of conditions, and how those begin that end in a name.
const (
	keyDestinationIP   = "destination.ip"
	keyDestinationPort = "destination.port"
	keyServerName      = "connection.sni"
	keyEnvoyFilters    = "experimental.envoy.filters."

	keySourceIP         = "source.ip"
	keyRemoteIP         = "remote.ip"
	keyNamespace        = "source.namespace"
	keyTrustDomain      = "source.trustDomain"
	keyServiceAccount   = "source.serviceAccount"
	keyPrincipal        = "source.principal"
	keyRequestPrincipal = "request.auth.principal"
	keyAudiences        = "request.auth.audiences"
	keyPresenter        = "request.auth.presenter"
	keyHeaders          = "request.headers"
	keyClaims           = "request.auth.claims"
)

// conditionsOn are the conditions on what is wanted.
func (r reading) conditionsOn(when []*security.Condition) (out []question[rbacv3.Permission]) {
	for _, c := range when {
		if q, known := r.conditionOn(c); known {
			out = append(out, q)
		}
	}
	return out
}

func (r reading) conditionOn(c *security.Condition) (q question[rbacv3.Permission], known bool) {
	is, isNot := c.GetValues(), c.GetNotValues()
	switch key := c.GetKey(); {
	case key == keyDestinationIP:
		return permissions.each(is, isNot, toAddress), true
	case key == keyDestinationPort:
		return permissions.each(is, isNot, toPort), true
	case key == keyServerName:
		return permissions.each(is, isNot, toServerName), true
	case strings.HasPrefix(key, keyEnvoyFilters):
		return permissions.list(is, isNot, func(values []string) *rbacv3.Permission { return notedByFilter(key, values) }), true
	default:
		return q, false
	}
}

// conditionsBy are the conditions on who wants it.
func (r reading) conditionsBy(when []*security.Condition) (out []question[rbacv3.Principal]) {
	for _, c := range when {
		if q, known := r.conditionBy(c); known {
			out = append(out, q)
		}
	}
	return out
}

func (r reading) conditionBy(c *security.Condition) (q question[rbacv3.Principal], known bool) {
	is, isNot := c.GetValues(), c.GetNotValues()
	ofToken := func(claims ...string) question[rbacv3.Principal] {
		return principals.list(is, isNot, func(values []string) *rbacv3.Principal { return r.byClaim(claims, values) })
	}
	switch key := c.GetKey(); {
	case key == keySourceIP:
		return principals.each(is, isNot, byPeerAddress), true
	case key == keyRemoteIP:
		return principals.each(is, isNot, byRemoteAddress), true
	case key == keyNamespace:
		return principals.each(is, isNot, byNamespace), true
	case key == keyTrustDomain:
		return principals.each(r.withAllNames(is), r.withAllNames(isNot), byTrustDomain), true
	case key == keyServiceAccount:
		return principals.each(is, isNot, r.byServiceAccount), true
	case key == keyPrincipal:
		return principals.each(r.inAllDomains(is), r.inAllDomains(isNot), byPrincipal), true
	case key == keyRequestPrincipal:
		return principals.list(is, isNot, r.byRequestPrincipals), true
	case key == keyAudiences:
		return ofToken("aud"), true
	case key == keyPresenter:
		return ofToken("azp"), true
	case strings.HasPrefix(key, keyClaims):
		return ofToken(bracketed(strings.TrimPrefix(key, keyClaims))...), true
	case strings.HasPrefix(key, keyHeaders):
		header := strings.TrimPrefix(key, keyHeaders)
		return principals.each(is, isNot, func(value string) *rbacv3.Principal { return r.byHeader(header, value) }), true
	default:
		return q, false
	}
}

// knowsAll reports whether all conditions can be asked for. Others come from servers that do not
// check what they serve.
func (r reading) knowsAll(when []*security.Condition) bool {
	for _, c := range when {
		_, on := r.conditionOn(c)
		if _, by := r.conditionBy(c); !on && !by {
			return false
		}
	}
	return true
}
