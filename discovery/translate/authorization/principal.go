package authorization

import (
	"regexp"
	"slices"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/jwt"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

const spiffe = "spiffe://"

// proves asks for the identity in the certificate that a client has shown. Nobody has one without
// mutual TLS.
func proves(m *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: m}}}
}

// byPrincipal asks for a whole identity, as cluster.local/ns/default/sa/reviews.
func byPrincipal(value string) *rbacv3.Principal {
	end, isEnd := strings.CutPrefix(value, "*")
	begin, isBegin := strings.CutSuffix(value, "*")
	switch {
	case value == "*":
		return proves(message.Matching(".+"))
	case isEnd:
		return proves(message.Matching(spiffe + ".*" + regexp.QuoteMeta(end)))
	case isBegin:
		return proves(message.BeginningWith(spiffe + begin))
	default:
		return proves(message.Exactly(spiffe + value))
	}
}

// byNamespace asks for the namespace in an identity, in which each "*" stands for anything.
func byNamespace(value string) *rbacv3.Principal {
	return proves(message.Matching(".*/ns/" + strings.ReplaceAll(regexp.QuoteMeta(value), `\*`, ".*") + "/.*"))
}

// byServiceAccount asks for an account. It is in the policy's own namespace unless it names one. An
// identity may have more in it.
func (r reading) byServiceAccount(value string) *rbacv3.Principal {
	namespace, name, named := strings.Cut(value, "/")
	if !named {
		namespace, name = r.namespace, value
	}
	return proves(message.Matching("spiffe://.+/ns/" + regexp.QuoteMeta(namespace) + "/(.+/|)sa/" + regexp.QuoteMeta(name) + "(/.+)?"))
}

// byTrustDomain asks for the trust domain of an identity.
func byTrustDomain(value string) *rbacv3.Principal {
	begin, end, some := strings.Cut(value, "*")
	switch {
	case value == "*":
		return proves(message.BeginningWith(spiffe))
	case !some:
		return proves(message.BeginningWith(spiffe + value + "/"))
	default:
		return proves(message.Matching(spiffe + regexp.QuoteMeta(begin) + "[^/]*" + regexp.QuoteMeta(end) + "/.*"))
	}
}

// byPeerAddress asks for the address that a connection comes from.
func byPeerAddress(value string) *rbacv3.Principal {
	block := cidr(value)
	if block == nil {
		return nil
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: block}}
}

// byRemoteAddress asks for the address of the first client, as far as X-Forwarded-For or the PROXY
// protocol is believed.
func byRemoteAddress(value string) *rbacv3.Principal {
	block := cidr(value)
	if block == nil {
		return nil
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: block}}
}

// byHeader asks for a header that is written in brackets.
func (r reading) byHeader(name, value string) *rbacv3.Principal {
	inside, opened := strings.CutPrefix(name, "[")
	inside, closed := strings.CutSuffix(inside, "]")
	if r.on == onTCP || !opened || !closed || inside == "" {
		return nil
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Header{Header: headerLike(inside, value)}}
}

// byRequestPrincipals asks for one of several issuers and subjects of a token, written
// issuer/subject. Issuers may contain slashes.
func (r reading) byRequestPrincipals(values []string) *rbacv3.Principal {
	if r.on == onTCP {
		return nil
	}
	list := make([]*rbacv3.Principal, len(values))
	for i, value := range values {
		issuer, subject := issuerAndSubject(value)
		list[i] = principals.all([]*rbacv3.Principal{
			inToken([]string{"iss"}, textValue(issuer)), inToken([]string{"sub"}, textValue(subject)),
		})
	}
	if len(list) == 1 {
		return list[0]
	}
	return principals.one(list)
}

func issuerAndSubject(value string) (issuer, subject *matcherv3.StringMatcher) {
	i, anything := strings.LastIndex(value, "/"), message.Matching(".+")
	switch {
	case value == "*":
		return anything, anything
	case i < 0 && strings.HasPrefix(value, "*"):
		return anything, like(value)
	case i < 0 && strings.HasSuffix(value, "*"):
		return like(value), anything
	case i < 0:
		return message.Exactly(value), message.Exactly("")
	case strings.HasPrefix(value, "*"):
		return like(value[:i]), message.Exactly(value[i+1:])
	case strings.HasSuffix(value, "*"):
		return message.Exactly(value[:i]), like(value[i+1:])
	default:
		return message.Exactly(value[:i]), message.Exactly(value[i+1:])
	}
}

// byClaim asks for a claim of a token, by the names that lead to it. It may be a list that has the
// value.
func (r reading) byClaim(path, values []string) *rbacv3.Principal {
	if r.on == onTCP || len(path) == 0 {
		return nil
	}
	wanted := make([]*matcherv3.ValueMatcher, len(values))
	for i, value := range values {
		wanted[i] = valueLike(value)
	}
	one := oneValue(wanted)
	return inToken(path, oneValue([]*matcherv3.ValueMatcher{inList(one), one}))
}

func inToken(path []string, value *matcherv3.ValueMatcher) *rbacv3.Principal {
	//nolint:staticcheck // Istio's shape, which EnvoyFilters patch
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Metadata{Metadata: noted(jwt.Filter, slices.Concat([]string{jwt.Payload}, path), value)}}
}

// bracketed reads [a][b] as a and b. If names contain brackets themselves, it is one name.
func bracketed(text string) []string {
	inside, opened := strings.CutPrefix(text, "[")
	inside, closed := strings.CutSuffix(inside, "]")
	if !opened || !closed || inside == "" {
		return nil
	}
	names := strings.Split(inside, "][")
	if slices.ContainsFunc(names, func(name string) bool { return name == "" || strings.ContainsAny(name, "[]") }) {
		return []string{inside}
	}
	return names
}
