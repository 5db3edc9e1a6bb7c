package e2e

import (
	"context"
	"fmt"
	"net/http"
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

// Services of a Consul that were imported are asked as its own are: by the names of its DNS, by subsets of
// their meta, and as its router says.
func TestImportedServicesOfConsulAreAsked(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	v1, v2, admin := newBackend(t, "v1", nil), newBackend(t, "v2", nil), newBackend(t, "admin", nil)
	file := filepath.Join(t.TempDir(), "consul.json")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`
[{"Node": "n1", "Address": "127.0.0.1", "Datacenter": "dc1", "ServiceID": "web-1", "ServiceName": "web", "ServicePort": %[2]s, "ServiceMeta": {"version": "v1", "mesh-port": "%[1]s"}},
 {"Node": "n2", "Address": "127.0.0.1", "Datacenter": "dc1", "ServiceID": "web-2", "ServiceName": "web", "ServicePort": %[3]s, "ServiceMeta": {"version": "v2", "mesh-port": "%[1]s"}},
 {"Node": "n2", "Address": "127.0.0.1", "Datacenter": "dc1", "ServiceID": "admin-1", "ServiceName": "admin", "ServicePort": %[4]s, "ServiceMeta": {"mesh-port": "%[1]s"}}]
{"Kind": "proxy-defaults", "Name": "global", "Config": {"protocol": "http"}}
{"Kind": "service-resolver", "Name": "web", "DefaultSubset": "v1", "Subsets": {"v1": {"Filter": "Service.Meta.version == v1"}, "v2": {"Filter": "Service.Meta.version == v2"}, "odd": {"Filter": "Service.Meta.version != v1"}}}
{"Kind": "service-router", "Name": "web", "Routes": [
  {"Match": {"HTTP": {"PathPrefix": "/new"}}, "Destination": {"ServiceSubset": "v2"}},
  {"Match": {"HTTP": {"PathPrefix": "/admin"}}, "Destination": {"Service": "admin", "PrefixRewrite": "/console"}},
  {"Match": {"HTTP": {"PathPrefix": "/odd"}}, "Destination": {"ServiceSubset": "odd"}}]}
`, m.port, v1.port, v2.port, admin.port)), 0o600))
	m.mcpClient("import", "--from", "consul", file)
	m.listening()
	m.answeredBy("web.service.consul", "v1")
	for range 10 {
		require.NoError(t, m.must(request{host: "web.service.consul", path: "/new"}).from("v2"))
	}
	a := m.must(request{host: "web.service.consul", path: "/admin/users"})
	require.NoError(t, a.from("admin"))
	require.Equal(t, "/console/users", a.seen.URI)
	require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: "web.service.consul", path: "/odd"}).status, "what cannot be said is refused")
}

// Of a splitter of which one split cannot be said, that has no answer, and the others go on, also for the routes of
// others that lead to it.
func TestASplitOfConsulThatCannotBeSaidRefusesItsShareAlone(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	v1, v2 := newBackend(t, "v1", nil), newBackend(t, "v2", nil)
	file := filepath.Join(t.TempDir(), "consul.json")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`
[{"Node": "n1", "Address": "127.0.0.1", "Datacenter": "dc1", "ServiceID": "cart-1", "ServiceName": "cart", "ServicePort": %[2]s, "ServiceMeta": {"version": "v1", "mesh-port": "%[1]s"}},
 {"Node": "n2", "Address": "127.0.0.1", "Datacenter": "dc1", "ServiceID": "cart-2", "ServiceName": "cart", "ServicePort": %[3]s, "ServiceMeta": {"version": "v2", "mesh-port": "%[1]s"}},
 {"Node": "n1", "Address": "127.0.0.1", "Datacenter": "dc1", "ServiceID": "till-1", "ServiceName": "till", "ServicePort": %[2]s, "ServiceMeta": {"mesh-port": "%[1]s"}}]
{"Kind": "proxy-defaults", "Name": "global", "Config": {"protocol": "http"}}
{"Kind": "service-resolver", "Name": "cart", "Subsets": {"v1": {"Filter": "Service.Meta.version == v1"}, "v2": {"Filter": "Service.Meta.version != v1"}}}
{"Kind": "service-splitter", "Name": "cart", "Splits": [{"Weight": 50, "ServiceSubset": "v1"}, {"Weight": 50, "ServiceSubset": "v2"}]}
{"Kind": "service-router", "Name": "till", "Routes": [{"Match": {"HTTP": {"PathPrefix": "/cart"}}, "Destination": {"Service": "cart", "NumRetries": 3, "RetryOn": ["5xx"]}}]}
{"Kind": "service-splitter", "Name": "till", "Splits": [{"Weight": 50, "Service": "cart", "ServiceSubset": "v1"}, {"Weight": 50, "Service": "nobody-knows"}]}
`, m.port, v1.port, v2.port)), 0o600))
	m.mcpClient("import", "--from", "consul", file)
	m.listening()
	for host, path := range map[string]string{"cart.service.consul": "/", "till.service.consul": "/other"} {
		eventually(t, func(ctx context.Context) error {
			a, err := m.ask(ctx, request{host: host, path: path})
			if err != nil {
				return err
			}
			return a.from("v1")
		})
		answered, refused := 0, 0
		for range 60 {
			if a := m.must(request{host: host, path: path}); a.status == http.StatusServiceUnavailable {
				refused++
			} else {
				require.NoError(t, a.from("v1"))
				answered++
			}
		}
		require.Greater(t, answered, 10, host)
		require.Greater(t, refused, 10, host)
	}
	require.Contains(t, m.mcpClient("get", "vs", "cart", "-o", "yaml"), "UnknownSubset", "it is told for as long as it is not there")
}

// Services of a Kuma that were imported are asked by the names that it gives them, and as its routes say.
func TestImportedServicesOfKumaAreAsked(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	web, api := newBackend(t, "web", nil), newBackend(t, "api", nil)
	file := filepath.Join(t.TempDir(), "kuma.yaml")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`
{type: Dataplane, mesh: default, name: web-1, labels: {app: web}, networking: {address: 127.0.0.1, inbound: [{port: %[2]s}]}}
---
{type: Dataplane, mesh: default, name: api-1, labels: {app: api}, networking: {address: 127.0.0.1, inbound: [{port: %[3]s}]}}
---
{type: MeshService, mesh: default, name: web, spec: {selector: {dataplaneLabels: {matchLabels: {app: web}}}, ports: [{port: %[1]s, targetPort: %[2]s, appProtocol: http}]}}
---
{type: MeshService, mesh: default, name: api, spec: {selector: {dataplaneLabels: {matchLabels: {app: api}}}, ports: [{port: %[1]s, targetPort: %[3]s, appProtocol: http}]}}
---
type: MeshHTTPRoute
mesh: default
name: web
spec:
  to:
  - targetRef: {kind: MeshService, name: web}
    rules:
    - matches: [{path: {type: PathPrefix, value: /api}}]
      default:
        filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /v1}}}]
        backendRefs: [{kind: MeshService, name: api}]
    - matches: [{path: {type: PathPrefix, value: /api/none}}]
      default: {backendRefs: [{kind: MeshMultiZoneService, name: api}]}
`, m.port, web.port, api.port)), 0o600))
	m.mcpClient("import", "--from", "kuma", file)
	m.listening()
	m.answers("web.svc.mesh.local", "web")
	for path, uri := range map[string]string{"/api": "/v1", "/api/users?a=b": "/v1/users?a=b"} {
		a := m.must(request{host: "web.svc.mesh.local", path: path})
		require.NoError(t, a.from("api"))
		require.Equal(t, uri, a.seen.URI)
	}
	require.NoError(t, m.must(request{host: "web.svc.mesh.local", path: "/apis"}).from("web"), "a prefix is of whole segments")
	require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: "web.svc.mesh.local", path: "/api/none/here"}).status)
}
