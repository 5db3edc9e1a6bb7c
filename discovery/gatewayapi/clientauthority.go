package gatewayapi

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// clientAuthority is what a listener checks clients by: the authorities of a secret, or of a ConfigMap,
// which the Gateway carries.
type clientAuthority struct {
	secret  Secret
	carried string // if it is of no secret
}

// trustClients notes what a listener checks clients by, and names it for machines; "" if there is none that
// the Gateway may have. What it may not have is told, and the others count. A single secret is named as it
// is, and goes to gateways alone, as certificates do.
func (g *Gateway) trustClients(l *Listener, refs []ref) (credential string) {
	var lost []string
	for i, r := range refs {
		authority, wrong := g.clientAuthority(r)
		if wrong == (fault{}) {
			l.authorities = append(l.authorities, authority)
			continue
		}
		wrong.message = fmt.Sprintf("caCertificateRefs[%d] %s", i, wrong.message)
		l.lost(wrong.reason, wrong.message)
		lost = append(lost, wrong.message)
	}
	if len(l.authorities) == 0 {
		l.refuse(reasonNoTrust, "no authority that clients are checked by can be had, and the listener is left out: "+strings.Join(lost, "; "))
		return ""
	}
	for _, why := range lost {
		g.report(l.Of, l.Path, "checks clients without an authority that it names: "+why)
	}
	if len(refs) == 1 && l.authorities[0].carried == "" {
		return l.authorities[0].secret.credential() + kinds.AuthoritySuffix
	}
	l.trusts = trustCredential(g.Resource, strconv.FormatUint(uint64(l.port), 10)) + kinds.AuthoritySuffix
	return l.trusts
}

// clientAuthority is what a Gateway names to have clients checked by.
func (g *Gateway) clientAuthority(r ref) (out clientAuthority, wrong fault) {
	to := r.resolved("", "Secret", g.Resource.Namespace)
	if !to.is("", "ConfigMap") {
		out.secret, wrong = g.secret(g.Resource, r, "InvalidCACertificateKind")
		return out, wrong
	}
	if wrong := g.granted(g.Resource, to); wrong != (fault{}) {
		return out, wrong
	}
	out.carried = g.Resource.Authorities()[to.namespace+"/"+to.name]
	if out.carried == "" {
		wrong = fault{reasonNoAuthority, fmt.Sprintf("is the ConfigMap %s/%s, which has no certificates of authorities in ca.crt, or is not there", to.namespace, to.name)}
	}
	return out, wrong
}

// Trusting finds the authorities that a secret has.
type Trusting func(Secret) (credential.Trust, bool)

// Authorities are those that its listeners check clients by, where that is not a single secret; none for no
// Gateway. Those that can be had count.
func (g *Gateway) Authorities(trust Trusting) (out []Authority) {
	if g == nil {
		return nil
	}
	for _, l := range g.Listeners {
		if l.trusts == "" || !l.Served() || slices.ContainsFunc(out, func(a Authority) bool { return a.Name == l.trusts }) {
			continue
		}
		if all := l.trusted(trust); len(all.Authorities) > 0 {
			out = append(out, Authority{l.trusts, all})
		}
	}
	return out
}

// trusted is all that a listener checks clients by and that can be had.
func (l *Listener) trusted(trust Trusting) (all credential.Trust) {
	var some [][]byte
	for _, a := range l.authorities {
		one := credential.Trust{Authorities: []byte(a.carried)}
		if a.carried == "" {
			one, _ = trust(a.secret)
		}
		if len(one.Authorities) > 0 {
			some = append(some, one.Authorities)
			all.Revoked = slices.Concat(all.Revoked, one.Revoked)
		}
	}
	all.Authorities = bytes.Join(some, []byte("\n"))
	return all
}

// untrusted are the secrets without the authorities that the listener checks clients by, and whether it
// has no authority at all that it needs.
func (l *Listener) untrusted(trust Trusting) (missing faults, none fault) {
	for _, a := range l.authorities {
		if a.carried != "" {
			continue
		}
		if _, has := trust(a.secret); !has {
			missing = append(missing, fault{reasonNoAuthority, fmt.Sprintf("there is no secret %s/%s that has certificates of authorities in ca.crt", a.secret.Namespace, a.secret.Name)})
		}
	}
	if len(missing) > 0 && len(missing) == len(l.authorities) {
		none = fault{reasonNoTrust, missing[0].message + ": nobody can connect"}
	}
	return missing, none
}

// clientSecrets are the secrets that the listener may have authorities from: of a secret of the name, or
// else of the one with the suffix.
func (l *Listener) clientSecrets() (out []Secret) {
	for _, a := range l.authorities {
		if a.carried == "" {
			out = append(out, a.secret, Secret{a.secret.Namespace, a.secret.Name + kinds.AuthoritySuffix})
		}
	}
	return out
}

// lentAuthorities are the secrets whose authorities gateways are given by the secret's own name.
func (l *Listener) lentAuthorities() (out []Secret) {
	if l.trusts == "" {
		for _, a := range l.authorities {
			out = append(out, a.secret)
		}
	}
	return out
}
