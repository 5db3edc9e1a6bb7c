package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// apply applies YAML documents to a store.
func apply(t *testing.T, store *configstore.Store, text string) configstore.Step {
	t.Helper()
	documents, err := kinds.Parse("test.yaml", []byte(text))
	require.NoError(t, err)
	batch := kinds.Batch{Revision: store.Snapshot().Revision + 1}
	for _, d := range documents {
		batch.Changes = append(batch.Changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	return store.Apply(batch)
}

func build(t *testing.T, text string) *mesh.Mesh {
	t.Helper()
	return mesh.Build(apply(t, configstore.New(), text), nil)
}

func sidecar(namespace string, labels map[string]string, addresses ...string) *mesh.Proxy {
	if len(addresses) == 0 {
		addresses = []string{"10.0.0.1"}
	}
	return &mesh.Proxy{Type: mesh.Sidecar, Addresses: addresses, Namespace: namespace, Labels: labels}
}

const reviews = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: default}
spec:
  hosts: [reviews.default.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP, targetPort: 8080}]
  workloadSelector: {labels: {app: reviews}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: one, namespace: default}
spec: {address: 10.0.1.1, labels: {app: reviews}}
`

func TestBuildKeepsWhatDidNotChange(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	first := mesh.Build(apply(t, store, reviews), nil)
	second := mesh.Build(apply(t, store, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: default}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}]}]}
`), first)
	require.Equal(t, int64(2), second.Revision)
	require.Same(t, first.Services()[0], second.Services()[0])
	require.Empty(t, first.Scope(sidecar("default", nil)).Egress[0].VirtualServices)
	require.Len(t, second.Scope(sidecar("default", nil)).Egress[0].VirtualServices, 1)
}

func TestAWorkloadThatComesOrGoesChangesTheEndpoints(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	first := mesh.Build(apply(t, store, reviews), nil)
	second := mesh.Build(apply(t, store, `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: two, namespace: default, labels: {app: reviews}}
spec: {address: 10.0.1.2, ports: {http: 80}}
`), first)
	require.Len(t, first.Services()[0].Endpoints, 1)
	endpoints := second.Services()[0].Endpoints
	require.Len(t, endpoints, 2)
	require.Equal(t, "10.0.1.1:8080", hostPort(endpoints[0]))
	require.Equal(t, "10.0.1.2:80", hostPort(endpoints[1]))
}

func TestServicesWhoseWorkloadsStayAreTheSame(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	other := entry("other", "default", "hosts: [other.example.com], "+port80)
	first := mesh.Build(apply(t, store, reviews+other), nil)
	second := mesh.Build(apply(t, store, `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: two, namespace: default, labels: {app: reviews}}
spec: {address: 10.0.1.2}
`), first)
	p := sidecar("default", nil)
	require.Same(t, first.Scope(p).Service("other.example.com"), second.Scope(p).Service("other.example.com"))
	reviews := "reviews.default.svc.cluster.local"
	require.NotSame(t, first.Scope(p).Service(reviews), second.Scope(p).Service(reviews))
}

func TestMeshConfigFillsInDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, "istio-system", build(t, reviews).Config.GetRootNamespace())
	require.True(t, build(t, reviews).Scope(sidecar("default", nil)).AllowsAny())
	strict := build(t, `
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: meshconfig, namespace: istio-system}
spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}, connectTimeout: 3s}
`)
	require.False(t, strict.Scope(sidecar("default", nil)).AllowsAny())
	require.Equal(t, int64(3), strict.Config.GetConnectTimeout().GetSeconds())
	require.Equal(t, int32(15001), strict.Config.GetProxyListenPort())
}

func TestDefaultVisibilityComesFromTheMeshConfig(t *testing.T) {
	t.Parallel()
	m := build(t, reviews+`
---
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: meshconfig, namespace: istio-system}
spec: {defaultServiceExportTo: ['.']}
`)
	require.Len(t, m.Scope(sidecar("default", nil)).Services, 1)
	require.Empty(t, m.Scope(sidecar("other", nil)).Services)
}
