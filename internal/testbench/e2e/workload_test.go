package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// workload is a service of the namespace shop with its own proxy, which listens on a port and
// accepts only mutual TLS. Clients call NAME.mesh over a new connection each time, and
// held.NAME.mesh over one that they keep. Both are on the mesh's port.
func (m *secureMesh) workload(name, port string, app *backend) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec:
  hosts: [%[1]s.mesh, held.%[1]s.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %[2]s, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, serviceAccount: %[1]s, ports: {http: %[3]s}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s, namespace: shop}
spec:
  host: %[1]s.mesh
  trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: %[1]s, namespace: shop}
spec:
  workloadSelector: {labels: {app: %[1]s}}
  egress: [{hosts: [~/*]}]
  ingress: [{port: {number: %[3]s, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%[4]s'}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
`, name, m.port, port, app.port)
}

// egressOn has the Envoys of a namespace with this label listen for the services of a namespace on
// an address of the machine.
func (m *mesh) egressOn(namespace, name, ip, services string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  workloadSelector: {labels: {app: %[2]s}}
  egress: [{port: {number: %[3]s, name: http, protocol: HTTP}, bind: %[4]s, hosts: ['%[5]s/*']}]
`, namespace, name, m.port, ip, services)
}

// logging makes Envoys log in this format.
func logging(format string) string {
	return fmt.Sprintf(`
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {accessLogFile: /dev/stdout, accessLogFormat: '%s'}
`, format)
}

// asks sends a request through the Envoy of a client, by the address of its machine.
func (m *mesh) asks(ctx context.Context, client, host string) (status int, err error) {
	a, err := send(ctx, m.client, net.JoinHostPort(client, m.port), request{host: host})
	if err != nil {
		return 0, err
	}
	return a.status, nil
}

// becomes waits until a client's requests have a status.
func (m *mesh) becomes(client, host string, status int) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		got, err := m.asks(ctx, client, host)
		if err == nil && got != status {
			err = fmt.Errorf("answered %d, want %d", got, status)
		}
		return err
	})
}

// stays sends requests again and again, and wants this status each time.
func (m *mesh) stays(client, host string, status int) {
	m.t.Helper()
	for range 20 {
		got, err := m.asks(m.t.Context(), client, host)
		require.NoError(m.t, err)
		require.Equal(m.t, status, got, http.StatusText(got))
	}
}

// certificate is the one that a member keeps.
func (m *secureMesh) certificate(name string) *x509.Certificate {
	m.t.Helper()
	return leafOf(m, read(m.t, m.State(name), "identity.pem"))
}

func leafOf(m *secureMesh, text []byte) *x509.Certificate {
	m.t.Helper()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c, err := x509.ParseCertificate(block.Bytes)
			require.NoError(m.t, err)
			return c
		}
	}
	require.Fail(m.t, "there is no certificate", strings.ToValidUTF8(string(text), "?"))
	return nil
}

// recorded waits until the record of certificates has this many rows that match.
func (m *secureMesh) recorded(atLeast int, where string, args ...any) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		var rows int
		err := m.db.QueryRow(ctx, "SELECT count(*) FROM mesh.certificates WHERE "+where, args...).Scan(&rows)
		if err == nil && rows < atLeast {
			err = fmt.Errorf("there are %d rows where %s %v", rows, where, args)
		}
		return err
	})
}
