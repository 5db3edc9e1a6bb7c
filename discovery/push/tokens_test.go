package push_test

import (
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
)

// tokens is a RequestAuthentication of the namespace shop for the workloads of an app.
func tokens(app, rule string) string {
	return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: %[1]s, namespace: shop}\nspec: {selector: {matchLabels: {app: %[1]s}}, jwtRules: [%[2]s]}\n", app, rule)
}

// ofApp is a proxy of the namespace shop that says which app it is of.
func ofApp(t *testing.T, kind, ip, app string) *corev3.Node {
	t.Helper()
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "shop", "LABELS": map[string]any{"app": app}})
	require.NoError(t, err)
	return &corev3.Node{Id: kind + "~" + ip + "~" + app + ".shop~shop.svc.cluster.local", Metadata: metadata}
}

// twoGateways listen on two ports, one of them for bytes.
const twoGateways = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate, namespace: shop}
spec:
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}
  - {port: {number: 81, name: more, protocol: HTTP}, hosts: ['*']}
  - {port: {number: 9000, name: tcp, protocol: TCP}, hosts: ['*']}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: tcp, namespace: shop}
spec: {hosts: ['*'], gateways: [gate], tcp: [{match: [{port: 9000}], route: [{destination: {host: bread, port: {number: 80}}}]}]}
`

func TestRulesAboutTokensSendTheListenersThatTheyAreFor(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sidecar", "router"} {
		for _, incremental := range []bool{true, false} {
			b := newBench()
			b.apply(t, market)
			b.apply(t, twoGateways)
			address := b.listen(t)
			one, other := simulate(t, address, &envoy{ofApp(t, kind, "10.9.9.1", "one"), incremental}), simulate(t, address, &envoy{ofApp(t, kind, "10.9.9.2", "other"), incremental})
			for _, e := range []*simulated{one, other} {
				e.connect()
				e.answerAll()
			}
			sent := map[string]map[string]int{"sidecar": {push.ListenerType: 1}, "router": {push.ListenerType: 2}}[kind]
			if !incremental && kind == "router" {
				sent = map[string]int{push.ListenerType: 3} // the state of the world has the one for bytes, too
			}
			if !incremental && kind == "sidecar" {
				sent = map[string]int{push.ListenerType: len(one.has[push.ListenerType])}
			}
			changes := func(happen func()) {
				t.Helper()
				require.Empty(t, other.gets(func() { require.Equal(t, sent, one.gets(happen)) }), "it is not for this one")
			}
			changes(func() { b.apply(t, tokens("one", `{issuer: a, jwks: '{"keys": [{"kty": "oct", "k": "b25l"}]}'}`)) })
			changes(func() { b.apply(t, tokens("one", `{issuer: a, jwks: '{"keys": [{"kty": "oct", "k": "dHdv"}]}'}`)) })
			changes(func() { b.apply(t, tokens("one", `{issuer: a, jwksUri: "https://a.example.com"}`)) })
			changes(func() { b.fetched(mesh.Fetched{Keys: `{"keys":[{"kty":"oct","k":"dHdv"}]}`}) })
			changes(func() { b.fetched(mesh.Fetched{Keys: `{"keys":[{"kty":"oct","k":"b25l"}]}`}) })
			require.Empty(t, one.gets(func() { b.fetched(mesh.Fetched{Keys: `{"keys":[{"kty":"oct","k":"b25l"}]}`, Problem: "it is away"}) }))
			problems, _ := b.Problems()
			require.Len(t, problems, 1)
			require.Equal(t, push.KeysMissing, problems[0].Code)
			require.Empty(t, one.gets(func() { b.apply(t, tokens("nobody", `{issuer: a, jwksUri: "https://a.example.com"}`)) }))
		}
	}
}

// fetched pushes what has come of fetching keys.
func (b *bench) fetched(f mesh.Fetched) {
	b.mesh = b.mesh.WithKeys(mesh.FetchedKeys{{URL: "https://a.example.com"}: f})
	b.Update(b.mesh, configstore.Step{})
}
