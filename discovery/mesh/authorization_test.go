package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// policy is an AuthorizationPolicy.
func policy(name, namespace, spec string) string {
	return "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nspec: {" + spec + "}\n"
}

func namesOf(policies []*mesh.AuthorizationPolicy) (names []string) {
	for _, a := range policies {
		names = append(names, a.Resource.Key().FullName())
	}
	return names
}

func TestWhichProxiesAPolicyIsFor(t *testing.T) {
	t.Parallel()
	const gateway = "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: entry}]"
	m := build(t, policy("all", "istio-system", "rules: [{}]")+
		policy("web", "istio-system", "selector: {matchLabels: {app: web}}")+
		policy("all", "shop", "rules: [{}]")+
		policy("web", "shop", "selector: {matchLabels: {app: web}}")+
		policy("entry", "shop", gateway)+policy("entry", "bank", gateway)+policy("entry", "istio-system", gateway)+
		policy("one", "shop", "targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: entry}")+
		policy("service", "shop", "targetRefs: [{kind: Service, name: entry}]"))
	web, entry := map[string]string{"app": "web"}, map[string]string{"gateway.networking.k8s.io/gateway-name": "entry"}
	for _, c := range []struct {
		proxy *mesh.Proxy
		names []string
	}{
		{sidecar("shop", web), []string{"istio-system/all", "istio-system/web", "shop/all", "shop/web"}},
		{sidecar("shop", nil), []string{"istio-system/all", "shop/all"}},
		{sidecar("bank", web), []string{"istio-system/all", "istio-system/web"}},
		{sidecar("istio-system", nil), []string{"istio-system/all"}},
		{&mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.1"}, Namespace: "shop", Labels: entry}, []string{"istio-system/all", "shop/all", "shop/entry", "shop/one"}},
		{&mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.1"}, Namespace: "istio-system", Labels: entry}, []string{"istio-system/all", "istio-system/entry"}},
	} {
		require.ElementsMatch(t, c.names, namesOf(m.AuthorizationPolicies(c.proxy)))
	}
	require.NotEqual(t, m.Class(sidecar("shop", web)), m.Class(sidecar("shop", nil)))
	require.Equal(t, m.Class(sidecar("bank", map[string]string{"pod": "1"})).Policies, m.Class(sidecar("bank", nil)).Policies)
	require.Equal(t, m.Traits(sidecar("shop", web)), m.Traits(sidecar("shop", nil)), "what comes in is no part of what proxies see")
}

func TestAPolicyThatDidNotChangeIsTheSame(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	first := mesh.Build(apply(t, store, policy("a", "shop", "rules: [{}]")+policy("b", "shop", "rules: [{}]")), nil)
	second := mesh.Build(apply(t, store, policy("b", "shop", "action: DENY, rules: [{}]")), first)
	require.True(t, second.SortsLike(first), "other rules for the same proxies")
	p := sidecar("shop", nil)
	before, now := first.AuthorizationPolicies(p), second.AuthorizationPolicies(p)
	require.Same(t, before[0], now[0])
	require.NotSame(t, before[1], now[1])

	third := mesh.Build(apply(t, store, reviews), second)
	require.Same(t, now[1], third.AuthorizationPolicies(p)[1])
	require.Same(t, second.Authorizers(), third.Authorizers())
	for _, change := range []string{
		policy("b", "shop", "selector: {matchLabels: {app: web}}, rules: [{}]"), policy("c", "shop", "rules: [{}]"), policy("a", "bank", "rules: [{}]"),
		policy("a", "shop", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: entry}]"),
	} {
		next := mesh.Build(apply(t, store, change), third)
		require.False(t, next.SortsLike(third), change)
		third = next
	}
}

const authorizers = `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec:
  extensionProviders:
  - {name: grpc, envoyExtAuthzGrpc: {service: gate.shop, port: 9000}}
  - {name: named, envoyExtAuthzGrpc: {service: shop/gate.shop, port: 9000}}
  - {name: nobody, envoyExtAuthzHttp: {service: nobody.shop, port: 80}}
  - {name: elsewhere, envoyExtAuthzHttp: {service: bank/gate.shop, port: 9000}}
  - {name: two, envoyExtAuthzHttp: {service: two.shop, port: 80}}
  - {name: port, envoyExtAuthzHttp: {service: gate.shop, port: 9001}}
  - {name: Big, envoyExtAuthzGrpc: {service: gate.shop, port: 9000}}
  - {name: status, envoyExtAuthzGrpc: {service: gate.shop, port: 9000, statusOnError: '999'}}
  - {name: timeout, envoyExtAuthzGrpc: {service: gate.shop, port: 9000, timeout: 0s}}
  - {name: body, envoyExtAuthzGrpc: {service: gate.shop, port: 9000, includeRequestBodyInCheck: {packAsBytes: true}}}
  - {name: path, envoyExtAuthzHttp: {service: gate.shop, port: 9000, pathPrefix: check}}
  - {name: any, envoyExtAuthzHttp: {service: gate.shop, port: 9000, headersToUpstreamOnAllow: ['*']}}
  - {name: added, envoyExtAuthzHttp: {service: gate.shop, port: 9000, includeAdditionalHeadersInCheck: {x: "a\nb"}}}
  - {name: twice, envoyExtAuthzHttp: {service: gate.shop, port: 9000}}
  - {name: twice, envoyExtAuthzGrpc: {service: gate.shop, port: 9000}}
  - {name: logs, zipkin: {service: gate.shop, port: 9000}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: gate, namespace: shop}
spec: {hosts: [gate.shop], ports: [{number: 9000, name: grpc, protocol: GRPC}], resolution: STATIC, endpoints: [{address: 10.0.0.9}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: two, namespace: shop}
spec: {hosts: [two.shop], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.9}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: two, namespace: bank}
spec: {hosts: [two.shop], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.9}]}
`

func TestAnAuthorizerThatCannotBeAskedIsAProblem(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	m := mesh.Build(apply(t, store, authorizers+policy("fine", "shop", "action: CUSTOM, provider: {name: grpc}, rules: [{}]")+
		policy("wrong", "shop", "action: CUSTOM, provider: {name: logs}, rules: [{}]")), nil)
	for _, name := range []string{"grpc", "named"} {
		a := m.Authorizer(name)
		require.Empty(t, a.Wrong)
		require.Equal(t, "gate.shop", a.Host)
	}
	for name, why := range map[string]string{
		"nobody": "no ServiceEntry", "elsewhere": "no ServiceEntry", "two": "the namespaces bank, shop each have", "port": "has no port 9001",
		"Big": "lower-case", "status": "999", "timeout": "above zero", "body": "maxRequestBytes", "path": "slash", "any": `"*"`,
		"added": "no header", "twice": "two extension providers", "logs": "none of that name", "undefined": "none of that name",
	} {
		require.Contains(t, m.Authorizer(name).Wrong, why, name)
	}
	problems := map[string]string{}
	for _, p := range m.Problems() {
		problems[p.Of.String()+" "+p.Path] = p.Reason
	}
	require.Len(t, problems, 13)
	require.Contains(t, problems["MeshConfig istio-system/mesh spec.extensionProviders[2]"], `the provider "nobody" cannot be asked`)
	require.Contains(t, problems["AuthorizationPolicy shop/wrong spec.provider.name"], "Until then whatever its rules match is refused")

	entry, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	next := mesh.Build(store.Apply(kinds.Batch{Revision: 2, Changes: []kinds.Change{
		{Key: kinds.Key{Kind: entry, Namespace: "shop", Name: "gate"}},
	}}), m)
	require.NotSame(t, m.Authorizers(), next.Authorizers())
	require.Contains(t, next.Authorizer("grpc").Wrong, "no ServiceEntry")
}

// Such policies come from servers that check nothing.
func TestAnnotationsThatMeanNothingAreProblems(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("test.yaml", []byte(authorizers+policy("odd", "shop", "rules: [{}]")+
		policy("ask", "shop", "action: CUSTOM, provider: {name: grpc}, rules: [{}]")))
	require.NoError(t, err)
	batch := kinds.Batch{Revision: 1}
	for _, d := range documents {
		if d.Resource.Name == "odd" {
			d.Resource.Annotations = map[string]string{"istio.io/dry-run": "perhaps"}
		}
		if d.Resource.Name == "ask" {
			d.Resource.Annotations = map[string]string{"istio.io/dry-run": "true"}
		}
		batch.Changes = append(batch.Changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	m := mesh.Build(configstore.New().Apply(batch), nil)
	for _, a := range m.AuthorizationPolicies(sidecar("shop", nil)) {
		require.Equal(t, a.Resource.Name == "ask", a.DryRun)
	}
	reasons := map[string]string{}
	for _, p := range m.Problems() {
		if p.Path == "metadata.annotations" {
			reasons[p.Of.Name] = p.Reason
		}
	}
	require.Len(t, reasons, 2)
	require.Contains(t, reasons["odd"], `"perhaps" is neither true nor false, so the policy is enforced`)
	require.Contains(t, reasons["ask"], "is without effect")
}
