package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// newMeshOf starts a mesh with a trust domain of its own.
func newMeshOf(t *testing.T, domain string) *secureMesh {
	t.Helper()
	database := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO mesh.resources (kind, namespace, name, spec)
		VALUES ('MeshConfig', 'istio-system', 'mesh', jsonb_build_object('trustDomain', $1::text))`, domain)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	return secureMeshOn(t, database, nil)
}

// trust adds or removes the trust in another mesh.
func (m *secureMesh) trust(args ...string) {
	m.t.Helper()
	out, err := m.Client(m.t.Context(), "", append([]string{"trust"}, args...)...)
	require.NoError(m.t, err, out)
}

// fails waits until connections fail for a reason.
func (m *secureMesh) fails(client, host, why string) {
	m.t.Helper()
	reason := regexp.MustCompile(why)
	eventually(m.t, func(ctx context.Context) error {
		a, err := send(ctx, m.client, net.JoinHostPort(client, m.port), request{host: host})
		if err == nil && (a.status != http.StatusServiceUnavailable || !reason.MatchString(a.header.Get("Why")+a.body)) {
			err = fmt.Errorf("answered %d because of %q: %q, want a word about %s", a.status, a.header.Get("Why"), a.body, why)
		}
		return err
	})
}

// A machine of one mesh calls one of another. Each mesh has its own roots, and trusts those of the
// other as long as it is told to.
func TestMembersOfTwoMeshes(t *testing.T) {
	t.Parallel()
	east, west := newMeshOf(t, "east.example"), newMeshOf(t, "west.example")
	port := newPort(t)
	west.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: ledger, namespace: bank}
spec:
  workloadSelector: {labels: {app: ledger}}
  egress: [{hosts: [~/*]}]
  ingress: [{port: {number: %s, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: bank}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: ledger, namespace: bank}
spec: {rules: [{from: [{source: {principals: [east.example/ns/shop/sa/cart]}}]}]}
`, port, newBackend(t, "ledger", nil).port))
	const notKnown = "ALERT_UNKNOWN_CA|CERTIFICATE_UNKNOWN|connection termination" // from the other side, which may say so or just close the connection
	const cart, till, host = "127.0.0.2", "127.0.0.3", "ledger.partner"
	east.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ledger, namespace: shop}
spec:
  hosts: [ledger.partner]
  resolution: STATIC
  ports: [{number: %s, name: http, protocol: HTTP}]
  subjectAltNames: [spiffe://west.example/ns/bank/sa/ledger]
  endpoints: [{address: 127.0.0.1, ports: {http: %s}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ledger, namespace: shop}
spec:
  hosts: [ledger.partner]
  http:
  - {headers: {response: {set: {why: '%%UPSTREAM_TRANSPORT_FAILURE_REASON%%'}}}, retries: {attempts: 0}, route: [{destination: {host: ledger.partner}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger, namespace: shop}
spec:
  host: ledger.partner
  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}, connectionPool: {http: {maxRequestsPerConnection: 1}}}
`, east.port, port), east.egressOn("shop", "cart", cart, "shop"), east.egressOn("shop", "till", till, "shop"))
	west.member("bank/ledger", "ledger", "--labels", "app=ledger")
	east.member("shop/cart", "cart", "--labels", "app=cart", "--node-ip", cart)
	east.member("shop/till", "till", "--labels", "app=till", "--node-ip", till)

	east.fails(cart, host, "CERTIFICATE_VERIFY_FAILED")
	east.trust("add", "west.example", "--roots", west.Roots())
	east.fails(cart, host, notKnown)
	west.trust("add", "east.example", "--roots", east.Roots())
	east.becomes(cart, host, http.StatusOK)
	east.becomes(till, host, http.StatusForbidden)
	east.stays(cart, host, http.StatusOK)

	// A server with the right name, of a mesh that is trusted under another name.
	east.commit(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger, namespace: shop}
spec:
  host: ledger.partner
  trafficPolicy: {tls: {mode: ISTIO_MUTUAL, subjectAltNames: [spiffe://east.example/ns/bank/sa/ledger]}, connectionPool: {http: {maxRequestsPerConnection: 1}}}
`)
	east.fails(cart, host, "CERTIFICATE_VERIFY_FAILED.*SAN")
	east.commit(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger, namespace: shop}
spec:
  host: ledger.partner
  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}, connectionPool: {http: {maxRequestsPerConnection: 1}}}
`)
	east.becomes(cart, host, http.StatusOK)

	west.trust("remove", "east.example")
	east.fails(cart, host, notKnown)
	east.trust("remove", "west.example")
	east.fails(cart, host, "CERTIFICATE_VERIFY_FAILED")
}
