package mesh

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Secret is a certificate with its key, the authorities to trust, or both; or what registries of
// images know a machine by.
type Secret struct {
	Namespace, Name string
	Pair            *credential.Pair
	Trust           *credential.Trust
	// Registries is a configuration of Docker's, as JSON; nil if the secret is no such.
	Registries []byte
	// accounts are the service accounts whose gateways may have it. None, or anyAccount, means all.
	accounts []string
}

// secretIndex holds the secrets by namespace, the oldest first.
type secretIndex struct {
	byNamespace map[string][]*Secret
	// made has what was made from each resource: checking a key takes time.
	made map[*kinds.Resource]*madeSecret
	last map[kinds.Key]*Secret // the last good state of each
}

type madeSecret struct {
	secret  *Secret // nil if it cannot be used
	problem string
}

// buildSecrets indexes the secrets that a step leads to. Of a secret that cannot be used, the last
// good state counts, for the service accounts that the new one names.
func buildSecrets(now configstore.Step, prev *Mesh) secretIndex {
	if prev.secrets.byNamespace != nil && prev.unchanged(now, kinds.Secret) {
		return prev.secrets
	}
	index := secretIndex{byNamespace: map[string][]*Secret{}, made: map[*kinds.Resource]*madeSecret{}, last: map[kinds.Key]*Secret{}}
	for r := range now.Of(kinds.Secret) {
		made := prev.secrets.made[r]
		if made == nil {
			made = makeSecret(r)
		}
		index.made[r] = made
		good := made.secret
		if good == nil { // the last good state stays in force
			good = prev.secrets.last[r.Key()].forAccounts(specOf[*mcpv1.Secret](r).GetServiceAccounts())
		}
		if good != nil {
			index.last[r.Key()] = good
			index.byNamespace[r.Namespace] = append(index.byNamespace[r.Namespace], good)
		}
	}
	return index
}

// makeSecret reads a secret. Envoy would refuse one whose key does not fit.
func makeSecret(r *kinds.Resource) *madeSecret {
	spec := specOf[*mcpv1.Secret](r)
	if wrong := credential.Check(spec.GetType(), spec.GetData()); len(wrong) > 0 {
		return &madeSecret{problem: fmt.Sprintf("%s %s: gateways keep the last good state of it, if there was one", wrong[0].Key, wrong[0].Reason)}
	}
	s := &Secret{Namespace: r.Namespace, Name: r.Name, accounts: spec.GetServiceAccounts()}
	if pair, ok := credential.PairIn(spec.GetData()); ok {
		s.Pair = &pair
	}
	if trust, ok := credential.TrustIn(spec.GetData()); ok {
		s.Trust = &trust
	}
	s.Registries = credential.RegistriesIn(spec.GetData())
	return &madeSecret{secret: s}
}

// forAccounts returns the secret, which may be nil, for the gateways of other service accounts.
func (s *Secret) forAccounts(accounts []string) *Secret {
	if s == nil || slices.Equal(s.accounts, accounts) {
		return s
	}
	out := *s
	out.accounts = accounts
	return &out
}

// lends reports whether a secret is lent to a Gateway of another namespace.
func (m *Mesh) lends(to, namespace, name string) bool {
	return slices.ContainsFunc(m.loansTo(to), func(l loan) bool { return l.secret == gatewayapi.Secret{Namespace: namespace, Name: name} })
}

// loansTo are the secrets that are lent to the Gateways of a namespace, by other namespaces.
func (m *Mesh) loansTo(namespace string) []loan {
	if m.api == nil {
		return nil
	}
	return m.api.lending.get(namespace)
}

// anyAccount says on a secret that it is for all gateways of its namespace.
const anyAccount = "*"

// SecretsFor lists the secrets of TLS that a proxy may be given: a gateway may have those of its own
// namespace, and those that are lent to a Gateway there, if they are for its service account.
func (m *Mesh) SecretsFor(p *Proxy) (out []*Secret) {
	if p.Type != Router {
		return nil
	}
	for _, s := range m.secrets.byNamespace[p.Namespace] {
		if s.isForAccount(p.ServiceAccount) && (s.Registries == nil || s.Pair != nil || s.Trust != nil) {
			out = append(out, s)
		}
	}
	for _, l := range m.loansTo(p.Namespace) {
		if s := m.secrets.good(l.secret); s != nil && s.isForAccount(p.ServiceAccount) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// good is the last good state of a secret; nil if there is none.
func (x secretIndex) good(s gatewayapi.Secret) *Secret {
	return x.last[kinds.Key{Kind: kinds.Secret, Namespace: s.Namespace, Name: s.Name}]
}

// UnknownSecret is the reason why nobody is given a secret that does not exist.
const UnknownSecret = "unknown"

// WhyNot says why a proxy is not given the secret of this name: a reason in one word, and a hint
// what to do.
func (m *Mesh) WhyNot(p *Proxy, resource string) (reason, hint string) {
	name := resource[strings.LastIndex(resource, "/")+1:]
	if of, is := authorityBehind(resource); is {
		return UnknownSecret, fmt.Sprintf("%s names no authorities that can be had", of)
	}
	if p.Type != Router {
		return "forbidden", "secrets are for gateways alone: a sidecar takes certificates from files"
	}
	_, path, found := strings.Cut(resource, "://")
	if !found {
		return UnknownSecret, "it is no name of a secret of the mesh"
	}
	namespace, _, named := strings.Cut(path, "/")
	if !named {
		namespace = p.Namespace
	}
	if namespace != p.Namespace && !m.lends(p.Namespace, namespace, name) && !m.lends(p.Namespace, namespace, strings.TrimSuffix(name, kinds.AuthoritySuffix)) {
		return "forbidden", fmt.Sprintf("gateways are given the secrets of their own namespace, which is %s, and those of another one that a Gateway names "+
			"and a ReferenceGrant there allows", p.Namespace)
	}
	for _, s := range m.secrets.byNamespace[namespace] {
		if s.Name != name && s.Name+kinds.AuthoritySuffix != name {
			continue
		}
		if !s.isForAccount(p.ServiceAccount) {
			return "forbidden", fmt.Sprintf("the secret %s/%s is for gateways of the service accounts %s, and this one's is %q", s.Namespace, s.Name,
				strings.Join(s.accounts, ", "), p.ServiceAccount)
		}
		return "incomplete", fmt.Sprintf("the secret %s/%s has no such part: it has to have tls.crt with tls.key, or for -cacert ca.crt", s.Namespace, s.Name)
	}
	return UnknownSecret, fmt.Sprintf("put a secret of that name into the namespace %s, and see that discovery may read secrets", namespace)
}

// SecretNamed is the secret that a proxy means by a name, whether it exists or not, or the resource
// whose authorities it means.
func SecretNamed(p *Proxy, resource string) kinds.Key {
	if of, is := authorityBehind(resource); is {
		return of
	}
	key := kinds.Key{Kind: kinds.Secret, Namespace: p.Namespace, Name: resource}
	if _, path, found := strings.Cut(resource, "://"); found {
		key.Name = path
	}
	if namespace, name, found := strings.Cut(key.Name, "/"); found {
		key.Namespace, key.Name = namespace, name
	}
	return key
}

// ProblemOfSecret says why a secret cannot be used; "" if it can.
func (m *Mesh) ProblemOfSecret(r *kinds.Resource) string {
	if made := m.secrets.made[r]; made != nil {
		return made.problem
	}
	return ""
}

// secretProblems lists the secrets that cannot be used.
func (m *Mesh) secretProblems() (problems []Problem) {
	for r := range m.from.Of(kinds.Secret) {
		if problem := m.ProblemOfSecret(r); problem != "" {
			problems = append(problems, Problem{Of: r.Key(), Path: "data", Reason: problem})
		}
	}
	return problems
}
