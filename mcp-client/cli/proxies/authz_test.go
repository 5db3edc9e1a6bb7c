package proxies_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/kinds"
)

const guarded = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {ingress: [{port: {number: 8080, name: http, protocol: HTTP}, defaultEndpoint: '127.0.0.1:9090'}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: PERMISSIVE}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: bank}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: default-deny, namespace: istio-system}
spec: {}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: pages, namespace: shop}
spec:
  rules:
  - from: [{source: {namespaces: [front, back], notPrincipals: [cluster.local/ns/front/sa/guest]}}, {source: {ipBlocks: [10.0.0.0/8]}}]
    to: [{operation: {methods: [GET], paths: ['/public/*'], notPorts: ['9000']}}]
    when: [{key: 'request.headers[x-team]', values: [a, b]}, {key: source.ip, notValues: [10.0.0.9]}]
  - {}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: never, namespace: shop, annotations: {istio.io/dry-run: 'true'}}
spec: {action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: ask, namespace: shop}
spec: {action: CUSTOM, provider: {name: gate}, rules: [{to: [{operation: {paths: [/private]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: labelled, namespace: shop}
spec: {selector: {matchLabels: {app: other}}, action: DENY, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: users, namespace: shop}
spec: {jwtRules: [{issuer: 'https://issuer.example', audiences: [shop], jwks: '{"keys":[]}'}]}
`

// guardedBy is a discovery of a mesh of these documents, with proxies of shop, of bank and a gateway.
func guardedBy(t *testing.T, documents string, refuses string) *clitest.Discovery {
	t.Helper()
	memory := source.NewMemory()
	read, err := kinds.Parser{DefaultNamespace: "shop"}.Parse("guarded.yaml", []byte(documents))
	require.NoError(t, err)
	var all []*kinds.Resource
	for _, d := range read {
		all = append(all, d.Resource)
	}
	memory.Replace(all...)
	d := clitest.Discover(t, serve.Sources{Embedded: []source.Source{memory}})
	d.Connect(vm1, refuses, push.ListenerType)
	d.Connect("sidecar~10.0.0.4~teller.bank~bank.svc.cluster.local", "", push.ListenerType)
	d.Connect(gate, "", push.ListenerType)
	return d
}

func TestWhomAProxyLetsIn(t *testing.T) {
	t.Parallel()
	d := guardedBy(t, guarded, "")
	r := d.Until(func(r clitest.Result) bool { return r.Code == 0 && r.Err == "" }, "authz", "check", "vm-1")
	require.Regexp(t, `\Aproxy +vm-1.shop, a sidecar of the namespace shop, as of revision \d+
mutual TLS +PERMISSIVE \(mutual TLS and plaintext\), by the PeerAuthentication istio-system/default. The proxy has no certificate: it takes plaintext, and under STRICT nothing
tokens +of https://issuer.example for shop are checked, by the RequestAuthentication shop/users: .*

ACTION +POLICY +FROM +TO +WHEN
CUSTOM +shop/ask, asks gate, which cannot be asked, so that it refuses +anybody +path /private +always
DENY \(dry run, refuses nobody\) +shop/never +anybody +path /secret +always
ALLOW +istio-system/default-deny +nobody +- +-
ALLOW +shop/pages +principal not cluster.local/ns/front/sa/guest and namespace front, back; or address 10.0.0.0/8 +method GET and path /public/\* and port not 9000 +request.headers\[x-team\] a, b and source.ip not 10.0.0.9
ALLOW +shop/pages +anybody +anything +always
all others +refused, since there is an ALLOW
\z`, r.Out)

	r = d.Run("authz", "check", "gate")
	require.Contains(t, r.Out, "as the tls of each server of its Gateways says")
	r = d.Run("authz", "check", "teller")
	require.Zero(t, r.Code)
	require.NotContains(t, r.Out, "shop/")
	require.Contains(t, r.Err, "warning: no listener of the proxy has these rules, for nothing comes in through it. It refuses everything, being without a certificate")

	var tree struct {
		Policies []struct {
			Policy string
			Rules  []map[string]any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(d.Run("authz", "check", "vm-1", "-o", "json").Out), &tree))
	require.Len(t, tree.Policies, 4)
	require.Equal(t, map[string]any{"to": []any{map[string]any{"operation": map[string]any{"paths": []any{"/secret"}}}}}, tree.Policies[1].Rules[0])

	r = d.Run("authz", "check", "vm-11")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "there are gate.shop, teller.bank, vm-1.shop")
}

func TestAProxyLetsEverybodyInWherePoliciesAreSilent(t *testing.T) {
	t.Parallel()
	sidecar, _, _ := strings.Cut(guarded, "---")
	d := guardedBy(t, sidecar, push.ListenerType)
	r := d.Until(func(r clitest.Result) bool { return strings.Contains(r.Err, "has not accepted all of its listeners") }, "authz", "check", "vm-1")
	require.Regexp(t, `(?m)^mutual TLS +PERMISSIVE \(mutual TLS and plaintext\), as where no PeerAuthentication says anything`, r.Out)
	require.Regexp(t, `(?m)^all others +let in, since there is no ALLOW$`, r.Out)
}

// Hands that know istioctl find it.
func TestWordsOfIstioctlLeadToAuthzCheck(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"x authz check vm-1", "experimental authz check vm-1", "auth check vm-1"} {
		r := clitest.Run(t.Context(), "", nil, strings.Fields(words)...)
		require.Equal(t, 2, r.Code, words)
		require.Contains(t, r.Err, "authz check", words)
	}
}
