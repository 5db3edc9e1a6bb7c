package mesh_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/webkeys"
	"github.com/pgmesh/pgmesh/kinds"
)

const symmetricKeys = `{"keys": [{"kty": "oct", "k": "b25l"}]}`

// tokens is a RequestAuthentication; the rest is that of its spec.
func tokens(namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: %s, namespace: %s}\nspec: {%s}\n---\n", name, namespace, spec)
}

func written(issuer string) string {
	return fmt.Sprintf("{issuer: %s, jwks: '%s'}", issuer, symmetricKeys)
}

// issuers are those of a proxy's rules, in their order.
func issuers(m *mesh.Mesh, p *mesh.Proxy) string {
	rules := m.TokenRules(p)
	if rules == nil {
		return ""
	}
	var out []string
	for _, r := range rules.Rules {
		out = append(out, r.GetIssuer())
	}
	return strings.Join(out, " ")
}

func TestWhichRequestAuthenticationsAreForAProxy(t *testing.T) {
	t.Parallel()
	gateway := "{group: gateway.networking.k8s.io, kind: Gateway, name: front}"
	m := build(t, tokens("istio-system", "root", "jwtRules: ["+written("root")+"]")+
		tokens("istio-system", "root-web", "selector: {matchLabels: {app: web}}, jwtRules: ["+written("root-web")+"]")+
		tokens("shop", "all", "jwtRules: ["+written("shop-2")+", "+written("shop-1")+"]")+
		tokens("shop", "web", "selector: {matchLabels: {app: web}}, jwtRules: ["+written("web")+"]")+
		tokens("edge", "front", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: back}, "+gateway+"], jwtRules: ["+written("front")+"]")+
		tokens("shop", "front", "targetRef: "+gateway+", jwtRules: ["+written("elsewhere")+"]")+
		tokens("edge", "service", "targetRef: {kind: Service, group: '', name: front}, jwtRules: ["+written("service")+"]")+
		tokens("bank", "nothing", ""))
	web, cart := map[string]string{"app": "web"}, map[string]string{"app": "cart"}
	router := func(labels map[string]string) *mesh.Proxy {
		return &mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.9"}, Namespace: "edge", Labels: labels}
	}
	require.Equal(t, "root root-web shop-1 shop-2 web", issuers(m, sidecar("shop", web, "10.0.0.1")))
	require.Equal(t, "root shop-1 shop-2", issuers(m, sidecar("shop", cart, "10.0.0.1")))
	require.Equal(t, "root root-web", issuers(m, sidecar("bank", web, "10.0.0.1")))
	require.Equal(t, "root", issuers(m, sidecar("istio-system", cart, "10.0.0.1")), "once, where the namespace is the root one")
	require.Equal(t, "root", issuers(m, router(nil)))
	require.Equal(t, "front root", issuers(m, router(map[string]string{"gateway.networking.k8s.io/gateway-name": "front"})))
	require.Equal(t, "root", issuers(m, router(map[string]string{"gateway.networking.k8s.io/gateway-name": "side"})))
	require.Nil(t, build(t, tokens("bank", "nothing", "")).TokenRules(sidecar("bank", web, "10.0.0.1")))

	require.NotEqual(t, m.Class(sidecar("shop", web, "10.0.0.1")), m.Class(sidecar("shop", cart, "10.0.0.1")))
	require.Equal(t, m.Class(sidecar("shop", cart, "10.0.0.1")), m.Class(sidecar("shop", map[string]string{"app": "other"}, "10.0.0.1")))
}

// steps builds one mesh after the other.
type steps struct {
	t     *testing.T
	store *configstore.Store
	mesh  *mesh.Mesh
}

func (s *steps) apply(text string) *mesh.Mesh {
	s.t.Helper()
	documents, err := kinds.Parse("test.yaml", []byte(strings.TrimSuffix(text, "---\n")))
	require.NoError(s.t, err)
	var batch kinds.Batch
	for _, d := range documents {
		batch.Changes = append(batch.Changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	s.mesh = mesh.Build(s.store.Apply(batch), s.mesh)
	return s.mesh
}

func TestTokenRulesStayWhileNothingInThemChanges(t *testing.T) {
	t.Parallel()
	s := &steps{t: t, store: configstore.New()}
	web, cart := sidecar("shop", map[string]string{"app": "web"}, "10.0.0.1"), sidecar("shop", map[string]string{"app": "cart"}, "10.0.0.2")
	before := s.apply(tokens("shop", "web", "selector: {matchLabels: {app: web}}, jwtRules: ["+written("a")+"]") +
		tokens("shop", "cart", "selector: {matchLabels: {app: cart}}, jwtRules: [{issuer: b, jwksUri: 'https://b.example.com'}]"))

	after := s.apply(tokens("shop", "web", "selector: {matchLabels: {app: web}}, jwtRules: ["+written("c")+"]"))
	require.NotSame(t, before.TokenRules(web), after.TokenRules(web))
	require.Same(t, before.TokenRules(cart), after.TokenRules(cart))
	require.True(t, after.SortsLike(before), "the same policies are for the same proxies")

	fetched := after.WithKeys(mesh.FetchedKeys{{URL: "https://b.example.com"}: {Keys: symmetricKeys}})
	require.Same(t, after.TokenRules(web), fetched.TokenRules(web))
	require.NotSame(t, after.TokenRules(cart), fetched.TokenRules(cart))
	require.True(t, fetched.SortsLike(after))
	require.Same(t, fetched, fetched.WithKeys(mesh.FetchedKeys{{URL: "https://b.example.com"}: {Keys: symmetricKeys}}))
	s.mesh = fetched

	other := s.apply(tokens("shop", "cart", "selector: {matchLabels: {app: web}}, jwtRules: ["+written("b")+"]"))
	require.False(t, other.SortsLike(fetched))
	require.Equal(t, "b c", issuers(other, web))
	require.Nil(t, other.TokenRules(cart))
}

func TestWhereKeysAreFetchedFrom(t *testing.T) {
	t.Parallel()
	m := build(t, tokens("a", "one", "jwtRules: ["+written("a")+", {issuer: b, jwksUri: 'https://b.example.com', timeout: 2s}, {issuer: https://c.example.com}]")+
		tokens("b", "two", "jwtRules: [{jwksUri: 'https://b.example.com', timeout: 3s}, {issuer: d, jwksUri: 'https://d.example.com', timeout: 1h}, {issuer: e, timeout: 1ms}]"))
	require.Equal(t, map[mesh.KeySource]time.Duration{
		{URL: "https://b.example.com"}: 3 * time.Second, {Issuer: "https://c.example.com"}: 5 * time.Second,
		{URL: "https://d.example.com"}: time.Minute, {Issuer: "e"}: 100 * time.Millisecond,
	}, m.KeySources())
}

func TestKeysThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	s := &steps{t: t, store: configstore.New()}
	at, p := mesh.KeySource{URL: "https://b.example.com"}, sidecar("shop", nil, "10.0.0.1")
	keySet := func(m *mesh.Mesh) string { return m.TokenRules(p).Rules[0].KeySet }
	m := s.apply(tokens("shop", "web", "jwtRules: [{issuer: b, jwksUri: 'https://b.example.com'}]")).WithKeys(mesh.FetchedKeys{})
	require.JSONEq(t, webkeys.Nobodys, keySet(m), "nobody has tried yet")
	require.Empty(t, m.KeyProblems())

	m = m.WithKeys(mesh.FetchedKeys{at: {Problem: "it is away"}})
	require.JSONEq(t, webkeys.Nobodys, keySet(m))
	require.Len(t, m.KeyProblems(), 1)
	require.Equal(t, "spec.jwtRules[0].jwksUri", m.KeyProblems()[0].Path)
	require.Equal(t, `the keys cannot be fetched: it is away. It is tried again, and tokens of "b" are refused until it succeeds`, m.KeyProblems()[0].Reason)

	m = m.WithKeys(mesh.FetchedKeys{at: {Keys: symmetricKeys, Problem: "it is away again"}})
	require.JSONEq(t, symmetricKeys, keySet(m))
	require.Contains(t, m.KeyProblems()[0].Reason, "those from before are in force")

	// A rule that moves its keys keeps the old ones until the new source was tried. One for other
	// tokens does not.
	s.mesh = m
	m = s.apply(tokens("shop", "web", "jwtRules: [{issuer: b, jwksUri: 'https://new.example.com'}]"))
	require.JSONEq(t, symmetricKeys, keySet(m))
	s.mesh = m.WithKeys(mesh.FetchedKeys{{URL: "https://new.example.com"}: {Problem: "it is away"}})
	require.JSONEq(t, webkeys.Nobodys, keySet(s.mesh))
	s.mesh = m
	m = s.apply(tokens("shop", "web", "jwtRules: [{issuer: b, audiences: [other], jwksUri: 'https://third.example.com'}]"))
	require.JSONEq(t, webkeys.Nobodys, keySet(m))
}

func TestKeysThatCannotBeUsedAreProblems(t *testing.T) {
	t.Parallel()
	m := build(t, tokens("shop", "web", `jwtRules: [{issuer: a, jwks: '{"keys": []}'}, {issuer: b, jwks: '{"keys": [{"kty": "RSA", "n": "AQ", "e": "AQAB"}, {"kty": "oct", "k": "b25l"}]}'}]`))
	problems := m.KeyProblems()
	require.Len(t, problems, 2)
	require.Equal(t, "spec.jwtRules[0].jwks", problems[0].Path)
	require.Equal(t, `cannot be used: it has no key that can be used: the list is empty. Tokens of "a" are refused: write a set of keys`, problems[0].Reason)
	require.Equal(t, "spec.jwtRules[1].jwks", problems[1].Path)
	require.Contains(t, problems[1].Reason, "keys[0] has a modulus of 1 bits")
	rules := m.TokenRules(sidecar("shop", nil, "10.0.0.1")).Rules
	require.JSONEq(t, webkeys.Nobodys, rules[0].KeySet)
	require.JSONEq(t, symmetricKeys, rules[1].KeySet)
}
