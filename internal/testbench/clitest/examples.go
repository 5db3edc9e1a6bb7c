package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bookinfo is a small mesh in two namespaces.
func Bookinfo(t *testing.T) *Mesh {
	t.Helper()
	m := Start(t)
	m.Apply(VirtualService("default", "reviews", "reviews-v1") + Separator + VirtualService("default", "ratings", "ratings-v1") + Separator +
		VirtualService("prod", "reviews", "reviews-v2") + Separator + `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews}
spec:
  host: reviews
  subsets: [{name: v1}, {name: v2}, {name: v3}, {name: v4}, {name: v5}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, labels: {app: edge}}
spec:
  gatewayClassName: pgmesh
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: https, port: 8080, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: pgmesh}
spec: {controllerName: pgmesh.io/controller}
`)
	return m
}

// Folder writes files to a new folder.
func Folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// VirtualService is a VirtualService that routes one host to another.
func VirtualService(namespace, name, to string) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: %s
  namespace: %s
  labels:
    app: %s
spec:
  hosts:
  - %s.example.com
  http:
  - route:
    - destination:
        host: %s
      weight: 100
`, name, namespace, name, name, to)
}

// Separator separates documents.
const Separator = "---\n"

// Eventful is a mesh with the revisions 1 to 4.
func Eventful(t *testing.T) *Mesh {
	t.Helper()
	m := Start(t)
	for i, change := range []struct{ documents, message string }{
		{VirtualService("default", "reviews", "v1") + Separator + VirtualService("prod", "reviews", "v1"), "the first"},
		{VirtualService("default", "reviews", "v2"), "canary: v2"},
		{VirtualService("default", "ratings", "v1"), "ratings are new\nand more"},
	} {
		r := m.Pipe(change.documents, "apply", "-f", "-", "-m", change.message)
		require.Zero(t, r.Code, r.Err)
		m.Await(int64(i + 1))
	}
	m.OK("delete", "vs/prod/reviews", "-m", "prod is gone")
	m.Await(4)
	return m
}
