package push_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
)

// certified is a sidecar that can prove who it is.
func certified(ip, namespace string) *corev3.Node {
	n := node(ip, namespace)
	n.Metadata.Fields["ISTIO_VERSION"] = structpb.NewStringValue("1.31.0")
	return n
}

// A revocation changes what comes in at every proxy that takes mutual TLS, and of what goes out the
// services that the identity serves.
func TestARevocationReachesEveryProxy(t *testing.T) {
	t.Parallel()
	for _, incremental := range []bool{true, false} {
		b := newBench()
		b.apply(t, market+`---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: second, namespace: shop}
spec: {address: 10.1.1.2, serviceAccount: thief, labels: {app: bread}}
`)
		address := b.listen(t)
		nodes := map[string]*envoy{
			"shop": {certified("10.9.9.1", "shop"), incremental}, "bank": {certified("10.9.9.2", "bank"), incremental}, "plain": {node("10.9.9.3", "shop"), incremental},
		}
		proxies := map[string]*simulated{}
		for name, n := range nodes {
			proxies[name] = simulate(t, address, n)
			proxies[name].connect()
			proxies[name].answerAll()
		}
		gives := func(name, typeURL, resource string) string {
			t.Helper()
			s := b.open(t, nodes[name])
			defer s.Close()
			return shown(s.Snapshot().Sets[typeURL].Get(resource))
		}
		// believes tells what is trusted now, and of which types each proxy is sent one resource:
		// in the state of the world those that are whole.
		believes := func(trust mesh.Trust, wanted map[string][]string) {
			t.Helper()
			b.believe(trust)
			for name, p := range proxies {
				sent := map[string]int{}
				for _, typeURL := range wanted[name] {
					sent[typeURL] = 1
					if !incremental && typeURL != push.EndpointType {
						sent[typeURL] = len(p.has[typeURL])
					}
				}
				require.Equal(t, sent, p.gets(p.answerAll), name)
			}
		}
		const bread, thief, refusal = "outbound|80||bread.shop.svc.cluster.local", "10.1.1.2", "spiffe://cluster.local/ns/shop/sa/thief"
		in, out := []string{push.ListenerType}, []string{push.ListenerType, push.ClusterType, push.EndpointType}
		require.Contains(t, gives("shop", push.EndpointType, bread), thief)

		believes(mesh.Trust{Revoked: []string{"ns/shop/sa/thief"}}, map[string][]string{"shop": out, "bank": out, "plain": {push.EndpointType}})
		require.Contains(t, gives("shop", push.ListenerType, "virtualInbound"), refusal)
		require.Contains(t, gives("bank", push.ListenerType, "virtualInbound"), refusal)
		require.NotContains(t, gives("plain", push.ListenerType, "virtualInbound"), refusal)
		require.NotContains(t, gives("shop", push.EndpointType, bread), thief)

		believes(mesh.Trust{Revoked: []string{"ns/shop/sa/thief", "ns/shop/sa/nobody"}}, map[string][]string{"shop": in, "bank": in})
		believes(mesh.Trust{Revoked: []string{"ns/shop/sa/nobody", "ns/shop/sa/thief"}}, nil)

		believes(mesh.Trust{Federated: []string{"partner.example"}}, map[string][]string{"shop": out, "bank": out, "plain": {push.EndpointType}})
		require.NotContains(t, gives("shop", push.ListenerType, "virtualInbound"), refusal)
		require.Contains(t, gives("bank", push.ListenerType, "virtualInbound"), "spiffe://partner.example/")
		require.Contains(t, gives("shop", push.EndpointType, bread), thief)
	}
}

// What is trusted stays in force when the configuration changes.
func TestARevocationOutlastsChanges(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, market)
	b.believe(mesh.Trust{Revoked: []string{"ns/shop/sa/thief"}})
	b.apply(t, market)
	s := b.open(t, &envoy{certified("10.9.9.1", "shop"), true})
	defer s.Close()
	require.Contains(t, shown(s.Snapshot().Sets[push.ListenerType].Get("virtualInbound")), "revoked-ns[shop]-sa[thief]")
}
