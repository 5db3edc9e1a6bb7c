package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Services of a cluster that were imported are asked as the cluster's are: by their name there, at the
// ports that their Pods have, and by subsets of their Pods' labels.
func TestImportedServicesOfKubernetesAreAsked(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	v1, v2 := newBackend(t, "v1", nil), newBackend(t, "v2", nil)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: %[4]s}, spec: {selector: {app: web}, ports: [{name: http, port: %[1]s, targetPort: web}]}}
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: web-a, namespace: %[4]s, labels: {kubernetes.io/service-name: web}}
  addressType: IPv4
  ports: [{name: http, port: %[2]s}]
  endpoints: [{addresses: [127.0.0.1], targetRef: {kind: Pod, name: web-1}}]
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: web-b, namespace: %[4]s, labels: {kubernetes.io/service-name: web}}
  addressType: IPv4
  ports: [{name: http, port: %[3]s}]
  endpoints: [{addresses: [127.0.0.1], targetRef: {kind: Pod, name: web-2}}]
- {apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: %[4]s, labels: {app: web, version: v1}}}
- {apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: %[4]s, labels: {app: web, version: v2}}}
- apiVersion: networking.istio.io/v1
  kind: DestinationRule
  metadata: {name: web, namespace: %[4]s}
  spec: {host: web, subsets: [{name: v2, labels: {version: v2}}]}
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {name: web, namespace: %[4]s}
  spec:
    hosts: [web]
    http:
    - match: [{uri: {prefix: /new}}]
      route: [{destination: {host: web, subset: v2}}]
    - route: [{destination: {host: web}}]
`, m.port, v1.port, v2.port, m.namespace)), 0o600))
	m.mcpClient("import", "--from", "kubernetes", file)
	host := "web." + m.namespace + ".svc.cluster.local"
	m.listening()
	m.answeredBy(host, "v1", "v2")
	for range 20 {
		require.NoError(t, m.must(request{host: host, path: "/new"}).from("v2"))
	}
}
