package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// gatewayTo is, for a mesh, what leads to a network: a service that its label makes its gateway.
func gatewayTo(network, ip, port string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: to-%[1]s, namespace: istio-system, labels: {topology.istio.io/network: %[1]s, networking.istio.io/gatewayPort: '%[3]s'}}
spec:
  hosts: [to-%[1]s.networks.mesh]
  exportTo: [.]
  resolution: STATIC
  ports: [{number: %[3]s, name: tls, protocol: TLS}]
  endpoints: [{address: %[2]s}]
`, network, ip, port)
}

// passing is the gateway itself.
func passing(port string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: east-west, namespace: istio-system}
spec:
  selector: {app: east-west}
  servers: [{port: {number: %s, name: tls, protocol: TLS}, hosts: ['*.mesh'], tls: {mode: AUTO_PASSTHROUGH}}]
`, port)
}

// ledgerOf is a service of the namespace bank in the network west; endpoint says more of its one
// machine, and carts alone may call it.
func ledgerOf(called, inbound, app, cart, endpoint string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ledger, namespace: bank}
spec:
  hosts: [ledger.bank.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %[1]s, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, network: west, ports: {http: %[2]s}, %[5]s}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: ledger, namespace: bank}
spec:
  workloadSelector: {labels: {app: ledger}}
  egress: [{hosts: [~/*]}]
  ingress: [{port: {number: %[2]s, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%[3]s'}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: bank}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: ledger, namespace: bank}
spec: {rules: [{from: [{source: {principals: [%[4]s]}}]}]}
`, called, inbound, app, cart, endpoint)
}

// inTheWest starts the ledger, and the gateway that leads there.
func (m *secureMesh) inTheWest(door string) {
	m.t.Helper()
	m.member("bank/ledger", "ledger", "--labels", "app=ledger", "--network", "west")
	m.member("istio-system/east-west", "gateway", "--labels", "app=east-west", "--network", "west", "--role", "gateway", "--node-ip", door)
}

// Each mesh has a network of its own, with its own roots. A client of one reaches a service of the
// other by its gateway, for as long as each trusts the other.
func TestMembersOfTwoMeshesInTwoNetworks(t *testing.T) {
	t.Parallel()
	east, west := newMeshOf(t, "east.example"), newMeshOf(t, "west.example")
	const cart, till, door, host = "127.0.0.2", "127.0.0.3", "127.0.0.4", "ledger.bank.mesh"
	gate := newPort(t)
	west.commit(ledgerOf(east.port, newPort(t), newBackend(t, "ledger", nil).port, "east.example/ns/shop/sa/cart", "serviceAccount: ledger, labels: {app: ledger}"), passing(gate))
	east.commit(gatewayTo("west", door, gate), fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ledger, namespace: shop}
spec:
  hosts: [ledger.bank.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %s, name: http, protocol: HTTP}]
  subjectAltNames: [spiffe://west.example/ns/bank/sa/ledger]
  endpoints: [{network: west, serviceAccount: ledger}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ledger, namespace: shop}
spec:
  hosts: [ledger.bank.mesh]
  http:
  - {headers: {response: {set: {why: '%%UPSTREAM_TRANSPORT_FAILURE_REASON%%'}}}, retries: {attempts: 0}, route: [{destination: {host: ledger.bank.mesh}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger, namespace: shop}
spec:
  host: ledger.bank.mesh
  trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}
`, east.port), east.egressOn("shop", "cart", cart, "shop"), east.egressOn("shop", "till", till, "shop"))
	west.inTheWest(door)
	east.member("shop/cart", "cart", "--labels", "app=cart", "--node-ip", cart, "--network", "east")
	east.member("shop/till", "till", "--labels", "app=till", "--node-ip", till, "--network", "east")

	east.fails(cart, host, "CERTIFICATE_VERIFY_FAILED")
	east.trust("add", "west.example", "--roots", west.Roots())
	west.trust("add", "east.example", "--roots", east.Roots())
	east.becomes(cart, host, http.StatusOK)
	east.becomes(till, host, http.StatusForbidden)
	east.stays(cart, host, http.StatusOK)

	east.trust("remove", "west.example")
	east.fails(cart, host, "CERTIFICATE_VERIFY_FAILED")
}

// A policy names a client by a trust domain that the mesh had before. Behind a gateway, too, that
// counts once it is an alias.
func TestAFormerTrustDomainCountsAcrossNetworks(t *testing.T) {
	t.Parallel()
	m := newMeshOf(t, "mesh.example")
	const cart, till, door, host = "127.0.0.2", "127.0.0.3", "127.0.0.4", "ledger.bank.mesh"
	gate := newPort(t)
	m.commit(gatewayTo("west", door, gate), passing(gate),
		ledgerOf(m.port, newPort(t), newBackend(t, "ledger", nil).port, "old.example/ns/shop/sa/cart",
			"serviceAccount: ledger, labels: {app: ledger}"),
		m.egressOn("shop", "cart", cart, "bank"), m.egressOn("shop", "till", till, "bank"))
	m.inTheWest(door)
	m.member("shop/cart", "cart", "--labels", "app=cart", "--node-ip", cart, "--network", "east")
	m.member("shop/till", "till", "--labels", "app=till", "--node-ip", till, "--network", "east")

	m.becomes(cart, host, http.StatusForbidden)
	m.commit(`
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {trustDomain: mesh.example, trustDomainAliases: [old.example]}
`)
	m.becomes(cart, host, http.StatusOK)
	m.becomes(till, host, http.StatusForbidden)
}
