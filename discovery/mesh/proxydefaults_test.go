package mesh_test

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

const proxyConfigs = `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: meshconfig, namespace: istio-system}
spec: {defaultConfig: {proxyMetadata: {ISTIO_META_IDLE_TIMEOUT: 1s, ISTIO_META_HTTP10: "1", ISTIO_META_NAMESPACE: elsewhere, PATH: /bin}}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: all, namespace: istio-system}
spec: {environmentVariables: {ISTIO_META_IDLE_TIMEOUT: 2s}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: here, namespace: shop}
spec: {environmentVariables: {ISTIO_META_IDLE_TIMEOUT: 3s}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: cart, namespace: shop}
spec: {selector: {matchLabels: {app: cart}}, environmentVariables: {ISTIO_META_IDLE_TIMEOUT: 4s}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: broken, namespace: broken}
spec: {environmentVariables: {ISTIO_META_IDLE_TIMEOUT: soon}}
`

func machine(t *testing.T, namespace string, metadata map[string]any) *mesh.Proxy {
	t.Helper()
	fields, err := structpb.NewStruct(metadata)
	require.NoError(t, err)
	p, err := mesh.ParseProxy(&corev3.Node{Id: "sidecar~10.0.0.1~vm." + namespace + "~" + namespace + ".svc.cluster.local", Metadata: fields})
	require.NoError(t, err)
	return p
}

func TestProxiesAreConfiguredByTheNearestThatSaysSomething(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	m := mesh.Build(apply(t, store, proxyConfigs), nil)
	idle := func(namespace string, metadata map[string]any) time.Duration {
		p := m.Configured(machine(t, namespace, metadata))
		require.Equal(t, namespace, p.Namespace, "where a proxy is, only it can say")
		return p.IdleTimeout
	}
	require.Equal(t, 2*time.Second, idle("other", nil))
	require.Equal(t, 3*time.Second, idle("shop", nil))
	require.Equal(t, 4*time.Second, idle("shop", map[string]any{"LABELS": map[string]any{"app": "cart"}}))
	require.Equal(t, 5*time.Second, idle("shop", map[string]any{"LABELS": map[string]any{"app": "cart"}, "IDLE_TIMEOUT": "5s"}))
	require.Zero(t, idle("broken", nil), "what cannot be understood changes nothing")
	require.True(t, m.Configured(machine(t, "shop", nil)).HTTP10)

	p := machine(t, "shop", nil)
	require.Same(t, p, build(t, reviews).Configured(p), "nothing to add")
	before := m.Class(m.Configured(p))
	m = mesh.Build(apply(t, store, `
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: here, namespace: shop}
spec: {environmentVariables: {ISTIO_META_IDLE_TIMEOUT: 9s}}
`), m)
	require.NotEqual(t, before, m.Class(m.Configured(p)), "it changes live")
}
